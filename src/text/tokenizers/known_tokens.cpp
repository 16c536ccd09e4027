// Tokens known by their spelling. GGUF files rarely say which tokens end a turn, so the spellings that published
// models use are listed here, as llama.cpp lists them.
#include <algorithm>
#include <span>

#include "base/log.h"
#include "text/tokenizers/vocabulary.h"

namespace gull::text {
namespace {

using Spellings = std::span<const std::string_view>;

constexpr std::string_view kEndOfTurn[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["};

// Markers of fill-in-the-middle models. The first three kinds only become control tokens; generation also ends at
// the padding, repository and file markers.
constexpr std::string_view kFimPrefix[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>",
                                           "▁<PRE>", "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view kFimSuffix[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>",
                                           "▁<SUF>", "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view kFimMiddle[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>",
                                           "▁<MID>", "<|code_middle|>", "<|middle|>"};
constexpr std::string_view kFimPad[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr std::string_view kFimRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFimFile[] = {"<|file_sep|>"};

struct FimKind {
  std::string_view key, old_key;
  Spellings spellings;
  bool ends_generation;
};
constexpr FimKind kFimKinds[] = {
    {"fim_pre_token_id", "prefix_token_id", kFimPrefix, false}, {"fim_suf_token_id", "suffix_token_id", kFimSuffix, false},
    {"fim_mid_token_id", "middle_token_id", kFimMiddle, false}, {"fim_pad_token_id", "", kFimPad, true},
    {"fim_rep_token_id", "", kFimRepository, true},             {"fim_sep_token_id", "", kFimFile, true},
};

constexpr std::string_view kHarmonyMarkers[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

class Marker {
 public:
  explicit Marker(Vocabulary& v) : v_(v) {}

  void make_control(int32_t token) {
    uint16_t& a = v_.attributes[static_cast<size_t>(token)];
    if (a & kControl) return;
    log(LogLevel::Debug, "token {} \"{}\" looks like a control token and is treated as one", token, v_.text(token));
    a |= kControl;
  }

  void ends(int32_t token) {
    if (token >= 0) ids_.push_back(token);
  }

  void erase(int32_t token, uint16_t attributes) {
    std::erase(ids_, token);
    v_.attributes[static_cast<size_t>(token)] = attributes;
  }

  bool has(std::string_view text) const { return std::find(ids_.begin(), ids_.end(), v_.find(text)) != ids_.end(); }

  std::vector<int32_t> take() {
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    return std::move(ids_);
  }

 private:
  Vocabulary& v_;
  std::vector<int32_t> ids_;
};

void mark_infill(Vocabulary& v, const gguf::File& file, Marker& marker) {
  for (const FimKind& kind : kFimKinds) {
    int32_t token = -1;
    for (std::string_view key : {kind.key, kind.old_key}) {
      auto id = key.empty() ? std::nullopt : file.get_int("tokenizer.ggml." + std::string(key));
      if (id && *id >= 0 && *id < v.size()) token = static_cast<int32_t>(*id);
    }
    for (size_t i = 0; token < 0 && i < kind.spellings.size(); ++i) {
      token = v.find(kind.spellings[i]);
      if (token >= 0) marker.make_control(token);
    }
    if (kind.ends_generation) marker.ends(token);
  }
}

}  // namespace

void mark_known_tokens(Vocabulary& v, const gguf::File& file) {
  Marker marker(v);
  mark_infill(v, file, marker);
  for (std::string_view text : kEndOfTurn) {
    int32_t token = v.find(text);
    if (token < 0) continue;
    marker.make_control(token);
    marker.ends(token);
  }
  for (int32_t token : {v.eos, v.eot, v.eom}) marker.ends(token);

  // gpt-oss wraps its channels in these: generated text shows them, but text that a user wrote never becomes one.
  for (std::string_view text : kHarmonyMarkers) {
    int32_t token = v.find(text);
    if (token >= 0) v.attributes[static_cast<size_t>(token)] = kControl | kAlwaysShown;
  }
  // In these vocabularies "<|end|>" ends a message, not the turn.
  bool call = marker.has("<|call|>") || marker.has("<|calls|>");
  if (call && (marker.has("<|return|>") || marker.has("<|flush|>")) && marker.has("<|end|>")) {
    marker.erase(v.find("<|end|>"), kControl | kAlwaysShown);
  }
  // Where these exist, "</s>" is ordinary text (an HTML tag).
  if ((marker.has("<|tool_response>") || marker.has("<|plamo:eos|>")) && marker.has("</s>")) {
    marker.erase(v.find("</s>"), kNormal);
  }
  v.end_of_generation = marker.take();
}

}  // namespace gull::text
