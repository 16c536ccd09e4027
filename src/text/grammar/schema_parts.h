// Pieces of GBNF for single values: numbers within bounds, strings that match a pattern or a format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gull/error.h"

namespace gull::text::grammar {

/// Text as a GBNF literal, with quotes.
std::string gbnf_literal(std::string_view text);

/// Inclusive bounds, in units of one.
struct Bounds {
  std::optional<int64_t> low, high;
  bool low_excluded = false, high_excluded = false;   ///< of numbers; integers have theirs moved already
};
/// JSON integers within bounds; they need at least one. Numbers without an upper end have at most 16 digits, or those of the lower end.
Result<std::string> integer_gbnf(const Bounds& bounds);
/// JSON numbers within bounds, as decimals without an exponent.
Result<std::string> number_gbnf(const Bounds& bounds);

/// What stands between the quotes of a JSON string that matches a regular expression: the part of ECMA-262 without look-around,
/// references and word borders. `other` is the rule for any one character, for what an unanchored pattern leaves open.
Result<std::string> pattern_gbnf(std::string_view pattern, std::string_view other);
/// The same for a named format ("date", "uuid" …); an error names the formats that are known.
Result<std::string> format_gbnf(std::string_view format);

}  // namespace gull::text::grammar
