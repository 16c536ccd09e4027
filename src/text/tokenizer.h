// Text to token ids and back, as the model's metadata (tokenizer.ggml.*) asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "gull/gguf.h"

namespace gull::text {

struct EncodeOptions {
  bool add_special = true;    ///< add BOS/EOS where the model's metadata asks for them
  bool parse_special = true;  ///< recognise control tokens written out in the text
};

/// A part of a prompt: where `parse_special` is false (message content), text can never become a control token.
struct Span {
  std::string_view text;
  bool parse_special = false;
};

/// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Builds the tokenizer of a model. Errors: no vocabulary, unknown tokenizer model, broken metadata. An unknown
  /// `tokenizer.ggml.pre` is a warning and the default pattern.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const gguf::File& file);

  /// Any bytes are accepted, valid UTF-8 or not.
  virtual Result<std::vector<int32_t>> encode(std::string_view bytes, EncodeOptions options = {}) const = 0;
  /// Several spans as one text (no border effects but those of parse_special).
  virtual Result<std::vector<int32_t>> encode_spans(std::span<const Span> spans, bool add_special) const = 0;

  /// The bytes of one token as generated text shows them; control tokens give "" unless `special`.
  virtual std::string piece(int32_t id, bool special = false) const = 0;
  /// The bytes of a sequence: pieces joined, less the leading space that the encoder had added.
  virtual std::string decode(std::span<const int32_t> ids, bool special = false) const = 0;

  virtual int32_t size() const = 0;
  virtual int32_t bos() const = 0;   ///< −1 where there is none; so are the next ones
  virtual int32_t eos() const = 0;
  virtual int32_t pad() const = 0;
  virtual bool add_bos() const = 0;
  virtual bool add_eos() const = 0;
  virtual bool is_control(int32_t id) const = 0;
  /// Whether generation ends at this id (eos, eot, eom and the tokens known to end a turn).
  virtual bool is_end_of_generation(int32_t id) const = 0;
  virtual std::span<const int32_t> end_of_generation() const = 0;
  /// The text of a token as the vocabulary spells it.
  virtual std::string_view token_text(int32_t id) const = 0;
};

}  // namespace gull::text
