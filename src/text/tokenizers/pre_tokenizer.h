// Cuts text into words by a model's patterns (PCRE2).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "text/tokenizers/pre_types.h"

namespace gull::text {

/// A range of bytes of a text.
struct Piece {
  uint32_t begin = 0, end = 0;
};

/// Immutable and thread-safe: the patterns are compiled once, for all calls.
class PreTokenizer {
 public:
  static Result<PreTokenizer> create(std::span<const SplitStep> steps);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  /// The words of `text` (valid UTF-8, less than 2 GiB), which together are the whole text.
  /// Errors: the matcher's limits reached (a hostile text for a pattern that backtracks).
  Result<std::vector<Piece>> split(std::string_view text) const;

 private:
  struct Step;
  explicit PreTokenizer(std::vector<Step> steps);
  std::vector<Step> steps_;
};

}  // namespace gull::text
