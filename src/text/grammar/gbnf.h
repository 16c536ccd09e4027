// The notation of grammars: text to a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gull/error.h"

namespace gull::text::grammar {

/// Code points first … last.
using Range = std::pair<uint32_t, uint32_t>;

struct Node {
  enum Kind {
    Sequence,      ///< kids one after the other
    Alternatives,  ///< one of the kids
    Literal,       ///< bytes
    Class,         ///< one character of ranges
    Rule,          ///< another rule
    Repeat,        ///< kids[0], min to max times
  } kind = Sequence;
  std::string bytes;
  std::vector<Range> ranges;            ///< sorted, apart from each other
  uint32_t rule = 0;
  uint32_t min = 0, max = 0;
  std::vector<std::unique_ptr<Node>> kids;
};
constexpr uint32_t kUnlimited = UINT32_MAX;

struct Rule {
  std::string name;
  int line = 0;
  std::unique_ptr<Node> body;           ///< null where it is used but not defined
};

/// Rules in the order in which they appear.
Result<std::vector<Rule>> parse_gbnf(std::string_view text);

/// Sorts and joins ranges; with `negate`, all other code points (never surrogates).
std::vector<Range> normalized(std::vector<Range> ranges, bool negate);

}  // namespace gull::text::grammar
