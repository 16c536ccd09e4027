// Cuts text into words by a model's patterns.
#pragma once

#include "text/tokenizers/pattern.h"
#include "text/tokenizers/pre_types.h"

namespace gull::text {

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
