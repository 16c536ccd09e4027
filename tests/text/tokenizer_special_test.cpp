// Special tokens: where they are found and where they must not be, BOS and EOS, pieces, ends of generation.
#include <algorithm>

#include "base/log.h"
#include "tokenizer_strings.h"

namespace gull::text::test {
namespace {

using Ids = std::vector<int32_t>;

/// A vocabulary of single bytes for byte-level BPE, and some tokens after them.
struct Bytes {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<std::string> merges{"q q"};

  Bytes() {
    for (int b = 0; b < 256; ++b) add(std::string(byte_to_printable(static_cast<uint8_t>(b))), 1);
  }
  int32_t add(const std::string& text, int32_t type) {
    tokens.push_back(text);
    types.push_back(type);
    return static_cast<int32_t>(tokens.size()) - 1;
  }
  gguf::Writer writer(const std::string& pre = "gpt-2") const {
    gguf::Writer w;
    w.set("general.architecture", "llama").set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
    w.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", types).set("tokenizer.ggml.merges", merges);
    return w;
  }
  TokenizerPtr tokenizer() const {
    auto made = make_tokenizer(writer());
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : nullptr;
  }
};

Ids bytes_of(std::string_view text) { return Ids(text.begin(), text.end()); }

TEST(SpecialTokens, ContentNeverBecomesAControlToken) {
  Bytes v;
  int32_t end = v.add("<|im_end|>", 3), user = v.add("<user>", 4), unknown = v.add("<unk>", 2);
  auto t = v.tokenizer();
  ASSERT_TRUE(t);
  EXPECT_EQ(*t->encode("<|im_end|>", {true, true}), (Ids{end}));
  EXPECT_EQ(*t->encode("<|im_end|>", {true, false}), bytes_of("<|im_end|>"));
  EXPECT_EQ(*t->encode("<unk>", {true, true}), (Ids{unknown}));
  EXPECT_EQ(*t->encode("<unk>", {true, false}), bytes_of("<unk>"));
  EXPECT_EQ(*t->encode("<user>", {true, false}), (Ids{user}));

  // A template around a message: the template's own tokens count, those in the message do not, nor one across the border.
  auto spans = [&](std::initializer_list<Span> list) { return *t->encode_spans(std::vector<Span>(list), false); };
  EXPECT_EQ(spans({{"<|im_end|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}}).size(), 12u);
  EXPECT_EQ(spans({{"<|im_", true}, {"end|>", false}}), bytes_of("<|im_end|>"));
  EXPECT_EQ(spans({{"<|im_", false}, {"end|>", true}}), bytes_of("<|im_end|>"));
  EXPECT_EQ(spans({{"<|im_", true}, {"", false}, {"end|>", true}}), (Ids{end}));
  EXPECT_EQ(spans({{"", true}, {"", false}}), Ids());
  EXPECT_EQ(*t->encode_spans({}, false), Ids());
}

TEST(SpecialTokens, NoMergeLeadsToAControlToken) {
  Bytes v;
  v.add("<|", 1), v.add("|>", 1);
  int32_t word = v.add("end", 1), control = v.add("<|end|>", 3);
  v.add("en", 1), v.add("<|end", 1);
  v.merges = {"< |", "| >", "e n", "en d", "<| end", "<|end |>"};
  auto t = v.tokenizer();
  ASSERT_TRUE(t);
  Ids ids = *t->encode("<|end|>", {false, false});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), control), 0);
  EXPECT_NE(std::find(ids.begin(), ids.end(), word), ids.end());
  EXPECT_EQ(t->decode(ids), "<|end|>");

  gguf::Writer spm;
  spm.set("tokenizer.ggml.model", "llama");
  spm.set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "</s>", "▁", "<", "s", ">", "s>", "/", "</"});
  spm.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -9, -9, -9, -1, -9, -2});
  spm.set("tokenizer.ggml.token_type", std::vector<int32_t>{2, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  auto s = make_tokenizer(spm);
  ASSERT_TRUE(s);
  EXPECT_EQ(*(*s)->encode("<s></s>", {false, false}), (Ids{3, 4, 7, 9, 7}));
}

TEST(SpecialTokens, LongestFirstInTheWholeText) {
  Bytes v;
  int32_t two = v.add("||ab||", 4), longer = v.add("||abcd||", 4), one = v.add("||", 4);
  auto t = v.tokenizer();
  ASSERT_TRUE(t);
  EXPECT_EQ(*t->encode("||ab||abcd||"), (Ids{one, 'a', 'b', longer}));
  EXPECT_EQ(*t->encode("||ab||x||"), (Ids{two, 'x', one}));
}

TEST(SpecialTokens, StripWhiteSpaceWhereTheModelIsKnownTo) {
  Bytes v;
  int32_t end = v.add("<|end|>", 3), begin = v.add("<s>", 3), text_end = v.add("<|endoftext|>", 3);
  auto phi = make_tokenizer(v.writer().set("general.name", "Phi-3 mini"));
  ASSERT_TRUE(phi);
  EXPECT_EQ(*(*phi)->encode(" <|end|> \n x<s> y<|endoftext|> "), (Ids{' ', end, 'x', begin, ' ', 'y', text_end, ' '}));
  Bytes m;
  int32_t mask = m.add("<mask>", 3);
  auto jina = make_tokenizer(m.writer("jina-v2-code"));
  ASSERT_TRUE(jina);
  EXPECT_EQ(*(*jina)->encode("a  <mask> b"), (Ids{'a', mask, ' ', 'b'}));
}

TEST(SpecialTokens, BeginAndEnd) {
  Bytes v;
  int32_t bos = v.add("<b>", 3), eos = v.add("<e>", 3);
  auto w = v.writer();
  w.set("tokenizer.ggml.bos_token_id", uint32_t(bos)).set("tokenizer.ggml.eos_token_id", uint32_t(eos));
  w.set("tokenizer.ggml.add_bos_token", true).set("tokenizer.ggml.add_eos_token", true);
  auto t = make_tokenizer(w);
  ASSERT_TRUE(t);
  EXPECT_EQ(*(*t)->encode("x"), (Ids{bos, 'x', eos}));
  EXPECT_EQ(*(*t)->encode(""), (Ids{bos, eos}));
  EXPECT_EQ(*(*t)->encode("x", {.add_special = false}), (Ids{'x'}));
  // A model whose pre-tokenizer implies BOS adds it without being told; a file can say otherwise.
  EXPECT_EQ((*make_tokenizer(v.writer("llama-bpe").set("tokenizer.ggml.bos_token_id", uint32_t(bos))))->encode("x")->front(), bos);
  EXPECT_EQ((*make_tokenizer(v.writer("llama-bpe").set("tokenizer.ggml.add_bos_token", false)))->encode("x")->front(), 'x');
}

TEST(Pieces, HideControlTokensAndShowBytes) {
  Bytes v;
  int32_t control = v.add("<|x|>", 3), user = v.add("▁user Ġ", 4), unused = v.add("<unused1>", 5);
  auto t = v.tokenizer();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->piece(control), "");
  EXPECT_EQ(t->piece(control, true), "<|x|>");
  EXPECT_EQ(t->piece(user), "▁user Ġ");
  EXPECT_EQ(t->piece(unused), "");
  EXPECT_EQ(t->piece(0xF0), "\xF0");
  EXPECT_EQ(t->piece(' '), " ");
  EXPECT_EQ(t->token_text(' '), "Ġ");
  EXPECT_EQ(t->decode(Ids{'a', control, 'b'}), "ab");
  EXPECT_EQ(t->decode(Ids{'a', control, 'b'}, true), "a<|x|>b");
  EXPECT_TRUE(t->is_control(control));
  EXPECT_FALSE(t->is_control(user));
}

TEST(Pieces, TheSpaceThatSpmAddsGoesAgain) {
  auto t = open_tokenizer(data("tokenizer/spm.gguf"));
  ASSERT_TRUE(t);
  Strings strings;
  for (uint64_t i = 0; i < 500; ++i) {
    std::string text = strings.string(600, i);
    if (text.find("▁") != std::string::npos || text.find("<user_tag>") != std::string::npos) continue;
    EXPECT_EQ((*t)->decode(*(*t)->encode(text, {false, false})), text);
  }
  EXPECT_EQ((*t)->decode(*(*t)->encode(" x", {false, true})), " x");
}

TEST(EndOfGeneration, KnowsTurnEndsBySpelling) {
  Bytes v;
  int32_t eot = v.add("<|eot_id|>", 1), end = v.add("<|end|>", 3), repo = v.add("<|repo_name|>", 1), eos = v.add("<fin>", 3);
  auto t = make_tokenizer(v.writer().set("tokenizer.ggml.eos_token_id", uint32_t(eos)));
  ASSERT_TRUE(t);
  EXPECT_EQ(Ids((*t)->end_of_generation().begin(), (*t)->end_of_generation().end()), (Ids{eot, end, repo, eos}));
  EXPECT_TRUE((*t)->is_control(eot)) << "a turn end that the file calls normal text is a control token";
  EXPECT_TRUE((*t)->is_end_of_generation(eos));
  EXPECT_FALSE((*t)->is_end_of_generation('x'));
}

TEST(EndOfGeneration, GptOssEndsAtReturnAndCallOnly) {
  Bytes v;
  int32_t end = v.add("<|end|>", 3), ret = v.add("<|return|>", 3), call = v.add("<|call|>", 3), channel = v.add("<|channel|>", 3);
  auto t = make_tokenizer(v.writer("gpt-4o").set("tokenizer.ggml.eos_token_id", uint32_t(ret)));
  ASSERT_TRUE(t);
  EXPECT_EQ(Ids((*t)->end_of_generation().begin(), (*t)->end_of_generation().end()), (Ids{ret, call}));
  EXPECT_EQ((*t)->piece(channel), "<|channel|>");
  EXPECT_EQ((*t)->piece(end), "<|end|>");
  EXPECT_EQ(*(*t)->encode("<|channel|>", {false, false}), bytes_of("<|channel|>"));
  EXPECT_EQ(*(*t)->encode("<|channel|>", {false, true}), (Ids{channel}));
}

TEST(EndOfGeneration, HtmlTagOfGemma4IsText) {
  Bytes v;
  int32_t tag = v.add("</s>", 1), response = v.add("<|tool_response>", 3), turn = v.add("<turn|>", 3);
  auto t = make_tokenizer(v.writer().set("tokenizer.ggml.eos_token_id", uint32_t(turn)));
  ASSERT_TRUE(t);
  EXPECT_EQ(Ids((*t)->end_of_generation().begin(), (*t)->end_of_generation().end()), (Ids{response, turn}));
  EXPECT_FALSE((*t)->is_control(tag));
}

TEST(PreTokenizer, EveryNameInUseIsKnown) {
  std::vector<std::string> warnings;
  set_log([&](LogLevel level, std::string_view line) {
    if (level >= LogLevel::Warning) warnings.emplace_back(line);
  });
  // The names that llama.cpp's converter writes.
  for (const char* name :
       {"default", "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "minicpm5", "deepseek-llm",
        "deepseek-coder", "deepseek-v3", "spark2_5", "youtu", "falcon", "mpt", "starcoder", "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat",
        "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jais-2", "gemma4", "granite-embed-multi-311m", "sarvam-moe", "jina-v1-en",
        "jina-v2-code", "roberta-bpe", "refact", "command-r", "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "qwen35", "stablelm2", "olmo", "dbrx",
        "smaug-bpe", "poro-chat", "chatglm-bpe", "glm4", "glm5", "viking", "jais", "tekken", "smollm", "codeshell", "bloom", "gpt3-finnish", "exaone",
        "exaone4", "exaone-moe", "chameleon", "minerva-7b", "megrez", "gpt-4o", "llama4", "kanana2", "talkie", "granite-embed-multi-97m", "tiny_aya",
        "cohere2moe", "superbpe", "trillion", "granite-docling", "bailingmoe", "bailingmoe2", "llada-moe", "seed-coder", "hunyuan", "hunyuan-dense",
        "hy_v4", "joyai-llm", "kimi-k2", "ufakzeka", "grok-2", "afmoe", "laguna", "minimax-m2", "solar-open", "mellum2"}) {
    auto t = make_tokenizer(Bytes().writer(name));
    EXPECT_TRUE(t) << name;
  }
  EXPECT_EQ(warnings, std::vector<std::string>());
  // An unknown one warns and splits by the default pattern, which isolates punctuation.
  Bytes v;
  v.add("a!", 1);
  v.merges = {"a !"};
  auto unknown = make_tokenizer(v.writer("no-such-split")), known = make_tokenizer(v.writer("bloom"));
  ASSERT_TRUE(unknown && known);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings.at(0).find("no-such-split"), std::string::npos);
  EXPECT_EQ(*(*unknown)->encode("a!", {.add_special = false}), (Ids{'a', '!'}));
  set_log(nullptr);
}

}  // namespace
}  // namespace gull::text::test
