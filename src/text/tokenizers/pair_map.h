// Hash maps from a pair of 32-bit numbers, by open addressing: a vocabulary has hundreds of thousands of them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace gull::text {

template <class Value>
class PairMap {
 public:
  void reserve(size_t count) {
    size_t slots = std::bit_ceil(count + count / 2 + 16);
    if (slots > slots_.size()) rehash(slots);
  }

  /// Sets the value of a pair that has none yet; keeps the first one otherwise.
  void insert(uint32_t a, uint32_t b, Value value) {
    if ((count_ + 1) * 3 > slots_.size() * 2) rehash(slots_.empty() ? 16 : slots_.size() * 2);
    uint64_t key = make(a, b);
    Slot& slot = slots_[find_slot(key)];
    if (slot.key == key) return;
    slot = {key, value};
    ++count_;
  }

  const Value* find(uint32_t a, uint32_t b) const {
    if (slots_.empty()) return nullptr;
    uint64_t key = make(a, b);
    const Slot& slot = slots_[find_slot(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // the pair (2³²−1, 2³²−1), which nobody uses
  struct Slot {
    uint64_t key = kEmpty;
    Value value{};
  };
  static uint64_t make(uint32_t a, uint32_t b) { return static_cast<uint64_t>(a) << 32 | b; }

  size_t find_slot(uint64_t key) const {
    size_t mask = slots_.size() - 1;
    uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    size_t at = static_cast<size_t>(mixed ^ (mixed >> 29)) & mask;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void rehash(size_t slots) {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(slots, Slot{});
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) slots_[find_slot(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace gull::text
