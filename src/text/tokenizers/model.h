// One way of turning text into tokens. The four models are made here; tokenizer.cpp does what they share: special
// tokens in the text, BOS and EOS, decoding.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "gull/gguf.h"
#include "text/tokenizers/vocabulary.h"
#include "text/tokenizers/word_cache.h"

namespace gull::text {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a piece of text without special tokens. `after_special`: it begins the text or follows a
  /// special token. `cache` lives as long as one call of encode.
  virtual Result<void> encode(std::string_view text, bool after_special, WordCache& cache, std::vector<int32_t>& out) const = 0;
  /// The bytes that a normal token stands for.
  virtual std::string decode(std::string_view token_text) const = 0;
};

/// Byte-level BPE, and BPE on text with "▁" for spaces. Adds the strings of the merges to `v.strings`.
Result<std::unique_ptr<TokenModel>> make_bpe(Vocabulary& v, const gguf::File& file);
/// SentencePiece's BPE: merges by score, bytes for what is unknown.
Result<std::unique_ptr<TokenModel>> make_spm(Vocabulary& v, const gguf::File& file);
/// BERT's WordPiece, in the form that GGUF gives it ("▁" begins a word).
Result<std::unique_ptr<TokenModel>> make_wordpiece(Vocabulary& v, const gguf::File& file);
/// SentencePiece's Unigram: the split with the best sum of scores.
Result<std::unique_ptr<TokenModel>> make_unigram(Vocabulary& v, const gguf::File& file);

/// The token of one byte where a vocabulary has them: "<0x0A>", or −1.
int32_t byte_token(const Vocabulary& v, uint8_t byte);
/// The byte that the text of a byte token names, or −1.
int byte_of_token_text(std::string_view text);

}  // namespace gull::text
