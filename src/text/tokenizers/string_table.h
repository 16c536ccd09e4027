// Distinct strings with dense ids, kept in one arena: the texts of a vocabulary and of its merges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gull::text {

class StringTable {
 public:
  /// The id of this string; a new one gets the next id.
  int32_t intern(std::string_view text);
  /// The id of this string, or −1.
  int32_t find(std::string_view text) const;
  /// The string of an id that `intern` gave; valid until the next `intern`.
  std::string_view text(int32_t id) const;
  int32_t size() const { return static_cast<int32_t>(ends_.size()); }
  /// Makes room for `count` strings of `bytes` together.
  void reserve(size_t count, size_t bytes);

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  size_t slot_of(std::string_view text, uint32_t hash) const;
  void rehash(size_t slots);

  std::string arena_;
  std::vector<uint64_t> ends_;  ///< where each string ends in the arena
  std::vector<Slot> slots_;     ///< a power of two of them, open addressing
};

}  // namespace gull::text
