// The patterns are those of the models' published tokenizer files (tokenizer.json, tiktoken definitions). Where
// llama.cpp only approximates one (no \p{Lu} or \p{M} classes there), the published one stands here. Rewritten
// without a change of meaning: what would take quadratic time on long runs.
#include "text/tokenizers/pre_types.h"

#include <utility>

namespace gull::text {
namespace {

constexpr SplitStep kGpt2[] = {{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}};

// Single digits, then GPT-2.
constexpr SplitStep kDigitsGpt2[] = {{R"(\p{N})"}, kGpt2[0]};

constexpr SplitStep kDefault[] = {
    {R"([\p{P}$+<=>^~|]+)"}, kGpt2[0], {R"(\p{N}+)"}, {R"([0-9][0-9][0-9])"}};

constexpr SplitStep kLlama3[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kQwen2[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kQwen35[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kJais2[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
     R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};

constexpr SplitStep kMiniCpm5[] = {
    {R"(\p{N}{1,3})"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kLaguna[] = {{R"([^\n]+|[\n]+)"}, kQwen2[0]};

constexpr SplitStep kUfakzeka[] = {
    {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kSeedCoder[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kBailing[] = {
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};

constexpr SplitStep kExaoneMoe[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}};

// The cased letters that DeepSeek-LLM's pattern lists one range after the other.
constexpr SplitStep kDeepseekLlm[] = {
    {R"([\r\n])"},
    {R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373})"
     R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
     R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
     R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
     R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
     R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
     R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d})"
     R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
     R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
     R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a})"
     R"(\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
     R"(\x{1e900}-\x{1e943}]+)"},
    {R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)"},
    {R"((?<!\s)\s++\z)"},
    {R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"},
    {R"(\p{N}+)"}};

constexpr SplitStep kDeepseekCoder[] = {
    {R"([\r\n])"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"}, {R"(\p{N})"}};

constexpr SplitStep kDeepseek3[] = {
    {R"(\p{N}{1,3})"},
    {R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kSpark25[] = {
    kDeepseek3[0],
    kDeepseek3[1],
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)"},
    {R"(\p{N})"}};

constexpr SplitStep kAfmoe[] = {
    {R"((?<!\p{N})\p{N}++)", SplitMode::Threes},
    {R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff}\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf})"
     R"(\x{e40}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)"},
    kDeepseek3[2]};

constexpr SplitStep kGpt4o[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kTinyAya[] = {{R"((?<!\d)\d++(?![\p{L}\p{M}\p{N}\p{Pc}]))", SplitMode::Threes}, kGpt4o[0]};

constexpr SplitStep kTekken[] = {
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// GPT-4o's words without Han characters. A class that leaves out Han is written as the complement of all the rest:
// [Lu Lt Lm Lo M] − Han = ¬(Ll N P S Z C Han).
constexpr SplitStep kKimiK2[] = {
    {R"([\p{sc:Han}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kYoutu[] = {
    {R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c})"
     R"(\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
     R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr SplitStep kFalcon[] = {{R"([\p{P}$+<=>^~|`]+)"}, kGpt2[0], {R"([0-9][0-9][0-9])"}};

constexpr SplitStep kBloom[] = {{R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)"}};

constexpr SplitStep kViking[] = {kBloom[0], {R"(\p{N})"}};

constexpr SplitStep kChameleon[] = {
    {R"(<sentinel:[0-9]+>)"}, {R"((?:IMGIMG)[A-I]{1,4}Z)"}, {R"([\t\n]|    |  )"},
    {R"(\p{N})"},             {R"([\p{P}!-/:-@\[-`{-~])"},  kGpt2[0]};

constexpr SplitStep kSuperBpe[] = {{R"(\p{N}+)"}, {R"((?<!\d)\d++)", SplitMode::ThreesWithin}};

// Merges run over whole lines.
constexpr SplitStep kLines[] = {{R"([^\n]+|[\n]+)"}};

constexpr PreType plain(std::span<const SplitStep> steps) { return {.steps = steps}; }

constexpr std::pair<std::string_view, PreType> kTypes[] = {
    {"", plain(kDefault)},
    {"default", plain(kDefault)},
    {"llama3", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama-v3", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama-bpe", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"falcon3", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"falcon-h1", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"pixtral", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"midm-2.0", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"lfm2", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"jina-v5-nano", {.steps = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"dbrx", plain(kLlama3)},
    {"smaug-bpe", plain(kLlama3)},
    {"chatglm-bpe", {.steps = kLlama3, .no_default_bos = true}},
    {"glm4", {.steps = kLlama3, .ignore_merges = true, .no_default_bos = true}},
    {"glm5", {.steps = kLlama3, .ignore_merges = true, .no_default_bos = true}},
    {"jais-2", plain(kJais2)},
    {"minicpm5", {.steps = kMiniCpm5, .ignore_merges = true}},
    {"qwen2", plain(kQwen2)},
    {"deepseek-r1-qwen", plain(kQwen2)},
    {"kormo", plain(kQwen2)},
    {"f2llmv2", plain(kQwen2)},
    {"megrez", plain(kQwen2)},
    {"stablelm2", plain(kQwen2)},
    {"hunyuan", plain(kQwen2)},
    {"solar-open", plain(kQwen2)},
    {"grok-2", plain(kQwen2)},
    {"qwen35", plain(kQwen35)},
    {"laguna", plain(kLaguna)},
    {"ufakzeka", plain(kUfakzeka)},
    {"seed-coder", plain(kSeedCoder)},
    {"bailingmoe", plain(kBailing)},
    {"bailingmoe2", plain(kBailing)},
    {"llada-moe", plain(kBailing)},
    {"exaone-moe", plain(kExaoneMoe)},
    {"deepseek-llm", plain(kDeepseekLlm)},
    {"deepseek-coder", plain(kDeepseekCoder)},
    {"deepseek-v3", plain(kDeepseek3)},
    {"hunyuan-dense", plain(kDeepseek3)},
    {"joyai-llm", plain(kDeepseek3)},
    {"hy_v4", plain(kDeepseek3)},
    {"spark2_5", plain(kSpark25)},
    {"afmoe", plain(kAfmoe)},
    {"gpt-4o", plain(kGpt4o)},
    {"llama4", plain(kGpt4o)},
    {"kanana2", plain(kGpt4o)},
    {"talkie", plain(kGpt4o)},
    {"minimax-m2", plain(kGpt4o)},
    {"granite-embed-multi-97m", {.steps = kGpt4o, .ignore_merges = true}},
    {"tiny_aya", plain(kTinyAya)},
    {"cohere2moe", plain(kTinyAya)},
    {"tekken", {.steps = kTekken, .ignore_merges = true, .add_bos = true}},
    {"kimi-k2", plain(kKimiK2)},
    {"youtu", {.steps = kYoutu, .ignore_merges = true}},
    {"falcon", plain(kFalcon)},
    {"gpt-2", plain(kGpt2)},
    {"phi-2", plain(kGpt2)},
    {"mpt", plain(kGpt2)},
    {"olmo", plain(kGpt2)},
    {"jais", plain(kGpt2)},
    {"trillion", plain(kGpt2)},
    {"granite-docling", plain(kGpt2)},
    {"exaone4", plain(kGpt2)},
    {"jina-es", plain(kGpt2)},
    {"jina-de", plain(kGpt2)},
    {"jina-v1-en", plain(kGpt2)},
    {"jina-v2-es", plain(kGpt2)},
    {"jina-v2-de", plain(kGpt2)},
    {"jina-v2-code", plain(kGpt2)},
    {"roberta-bpe", plain(kGpt2)},
    {"gigachat", plain(kGpt2)},
    {"a.x-4.0", plain(kGpt2)},
    {"mellum", plain(kGpt2)},
    {"modern-bert", plain(kGpt2)},
    {"smollm", plain(kDigitsGpt2)},
    {"starcoder", plain(kDigitsGpt2)},
    {"refact", plain(kDigitsGpt2)},
    {"command-r", plain(kDigitsGpt2)},
    {"codeshell", plain(kDigitsGpt2)},
    {"exaone", plain(kDigitsGpt2)},
    {"minerva-7b", plain(kDigitsGpt2)},
    {"mellum2", plain(kDigitsGpt2)},
    {"poro-chat", plain(kBloom)},
    {"bloom", plain(kBloom)},
    {"gpt3-finnish", plain(kBloom)},
    {"viking", plain(kViking)},
    {"chameleon", {.steps = kChameleon, .add_bos = true}},
    {"superbpe", plain(kSuperBpe)},
    {"gemma4", {.steps = kLines, .escaped = true}},
    {"granite-embed-multi-311m", {.steps = kLines, .escaped = true}},
    {"sarvam-moe", {.steps = kLines, .escaped = true}},
};

}  // namespace

const PreType* find_pre_type(std::string_view name) {
  for (const auto& [known, type] : kTypes) {
    if (known == name) return &type;
  }
  return nullptr;
}

}  // namespace gull::text
