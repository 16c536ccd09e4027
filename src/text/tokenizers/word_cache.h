// Remembers the ids of short words during one call of encode: most words of a text come again.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizers/string_table.h"

namespace gull::text {

class WordCache {
 public:
  /// Appends the ids of `word`: from memory, or by `encode(word, ids)`.
  template <class Encode>
  void append(std::string_view word, std::vector<int32_t>& out, Encode&& encode) {
    if (word.size() > kLongest) return encode(word, out);
    int32_t known = words_.find(word);
    if (known < 0) {
      size_t from = ids_.size();
      encode(word, ids_);
      words_.intern(word);
      ranges_.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(ids_.size())});
      known = words_.size() - 1;
    }
    Range range = ranges_[static_cast<size_t>(known)];
    out.insert(out.end(), ids_.begin() + range.begin, ids_.begin() + range.end);
  }

 private:
  static constexpr size_t kLongest = 128;  // bytes
  struct Range {
    uint32_t begin, end;
  };
  StringTable words_;
  std::vector<Range> ranges_;
  std::vector<int32_t> ids_;
};

}  // namespace gull::text
