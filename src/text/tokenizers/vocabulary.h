// What the metadata of a model (tokenizer.ggml.*) says about its tokens, checked, with the defaults that llama.cpp
// has for what is missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "gull/gguf.h"
#include "text/tokenizers/string_table.h"

namespace gull::text {

/// How text becomes tokens.
enum class TokenizerKind {
  Bpe,        ///< "gpt2" (byte-level) and "gemma4" (on text with "▁" for spaces): merges by rank
  Spm,        ///< "llama": merges by score, byte fallback
  WordPiece,  ///< "bert"
  Unigram,    ///< "t5": best sum of scores
};

/// Properties of one token; several may hold.
enum TokenAttribute : uint16_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 4,
  kUserDefined = 8,
  kUnused = 16,
  kByte = 32,
  kStripLeft = 64,     ///< takes the white space before it along when it is found in text
  kStripRight = 128,
  kAlwaysShown = 256,  ///< a control token that generated text shows all the same
};

/// Unigram and WordPiece look for tokens at every place of a text; longer ones than this are not looked for, or one
/// absurd token would make the time quadratic. (The longest that models have are runs of some hundred spaces.)
inline constexpr size_t kLongestSoughtToken = 1024;

struct Vocabulary {
  TokenizerKind kind = TokenizerKind::Bpe;
  std::string pre;  ///< tokenizer.ggml.pre, or "" where there is none

  StringTable strings;                 ///< token texts first, then whatever the merges add
  std::vector<int32_t> token_string;   ///< token → its string
  std::vector<int32_t> string_token;   ///< string → the first token spelled so, or −1
  std::vector<uint16_t> attributes;    ///< token → TokenAttribute bits
  std::vector<float> scores;           ///< token → score; empty where the file has none

  int32_t bos = -1, eos = -1, eot = -1, eom = -1, unk = -1, sep = -1, pad = -1;
  bool add_bos = false, add_eos = false;
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;
  bool lowercase = true, strip_accents = true;  ///< WordPiece
  std::vector<int32_t> end_of_generation;       ///< ascending

  int32_t size() const { return static_cast<int32_t>(token_string.size()); }
  std::string_view text(int32_t token) const { return strings.text(token_string[static_cast<size_t>(token)]); }
  float score(int32_t token) const { return scores.empty() ? 0.0f : scores[static_cast<size_t>(token)]; }
  bool has(int32_t token, uint16_t attribute) const { return attributes[static_cast<size_t>(token)] & attribute; }
  /// The token with this text, or −1.
  int32_t find(std::string_view text) const {
    int32_t string = strings.find(text);
    return string < 0 || string >= static_cast<int32_t>(string_token.size()) ? -1 : string_token[static_cast<size_t>(string)];
  }
  /// The same, but never a control or unknown token: what ordinary text may become.
  int32_t find_plain(std::string_view text) const {
    int32_t token = find(text);
    return token >= 0 && plain(token) ? token : -1;
  }
  bool plain(int32_t token) const { return !has(token, kControl | kUnknown); }
};

/// Reads and checks the vocabulary. Errors: no tokenizer in the file (Unsupported), an unknown kind (Unsupported),
/// missing or broken arrays (BadFile). Ids out of range become −1 or the default, with a warning.
Result<Vocabulary> load_vocabulary(const gguf::File& file);

/// Marks the tokens that are known by their spelling (turn ends, infill markers) and collects the ids that end a
/// generation. `load_vocabulary` calls it.
void mark_known_tokens(Vocabulary& vocabulary, const gguf::File& file);

}  // namespace gull::text
