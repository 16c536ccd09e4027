// Regular expressions of pre-tokenizers, in PCRE2's notation with Unicode classes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gull/error.h"

namespace gull::text {

/// A range of bytes of a text.
struct Piece {
  uint32_t begin = 0, end = 0;
};

/// Immutable and thread-safe.
class Pattern {
 public:
  /// Errors: it is no pattern.
  static Result<Pattern> compile(std::string_view text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

 private:
  friend class Matcher;
  struct Impl;
  explicit Pattern(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The memory that matching takes, for one thread.
class Matcher {
 public:
  Matcher();
  ~Matcher();
  /// Every match in `text` (valid UTF-8), from left to right, into `out`; none is empty.
  /// Errors: the matcher's limits reached (a hostile text for a pattern that backtracks).
  Result<void> find(const Pattern& pattern, std::string_view text, std::vector<Piece>& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gull::text
