// Which characters may stand next to each other inside a token. Between two that never do, text can be cut without
// changing its tokens; so a long text falls into short words that come again and again.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/tokenizers/pair_map.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {

class CharPairs {
 public:
  /// All neighbours inside this token.
  void add_inside(std::string_view token) {
    uint32_t last = 0;
    for (size_t at = 0; at < token.size();) {
      size_t length = character_length(token, at);
      uint32_t now = packed(token.substr(at, length));
      if (at > 0) pairs_.insert(last, now, {});
      last = now;
      at += length;
    }
  }

  /// The last character of `left` next to the first one of `right`.
  void add_border(std::string_view left, std::string_view right) {
    size_t at = 0, length = 0;
    for (; at < left.size(); at += length) length = character_length(left, at);
    pairs_.insert(packed(left.substr(left.size() - length)), packed(right.substr(0, character_length(right, 0))), {});
  }

  /// Calls `f` with each part of the text between two characters that are no pair.
  template <class F>
  void for_each_part(std::string_view text, F&& f) const {
    size_t begin = 0;
    uint32_t last = 0;
    for (size_t at = 0; at < text.size();) {
      size_t length = character_length(text, at);
      uint32_t now = packed(text.substr(at, length));
      if (at > 0 && !pairs_.find(last, now)) {
        f(text.substr(begin, at - begin));
        begin = at;
      }
      last = now;
      at += length;
    }
    if (begin < text.size()) f(text.substr(begin));
  }

 private:
  struct Nothing {};
  static uint32_t packed(std::string_view character) {
    uint32_t value = 0;
    for (char c : character) value = value << 8 | static_cast<uint8_t>(c);
    return value;
  }
  PairMap<Nothing> pairs_;
};

}  // namespace gull::text
