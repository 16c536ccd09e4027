#include "text/tokenizers/string_table.h"

#include <bit>
#include <functional>

namespace gull::text {
namespace {
uint32_t hash_of(std::string_view text) {
  uint64_t h = std::hash<std::string_view>{}(text);
  return static_cast<uint32_t>(h ^ (h >> 32));
}
}  // namespace

std::string_view StringTable::text(int32_t id) const {
  uint64_t begin = id == 0 ? 0 : ends_[static_cast<size_t>(id) - 1];
  return std::string_view(arena_).substr(begin, ends_[static_cast<size_t>(id)] - begin);
}

size_t StringTable::slot_of(std::string_view wanted, uint32_t hash) const {
  size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].id >= 0 && (slots_[at].hash != hash || text(slots_[at].id) != wanted)) at = (at + 1) & mask;
  return at;
}

int32_t StringTable::find(std::string_view wanted) const {
  return slots_.empty() ? -1 : slots_[slot_of(wanted, hash_of(wanted))].id;
}

int32_t StringTable::intern(std::string_view wanted) {
  if (slots_.empty()) rehash(16);
  uint32_t hash = hash_of(wanted);
  size_t at = slot_of(wanted, hash);
  if (slots_[at].id >= 0) return slots_[at].id;
  if ((ends_.size() + 1) * 3 > slots_.size() * 2) {
    rehash(slots_.size() * 2);
    at = slot_of(wanted, hash);
  }
  arena_.append(wanted);
  ends_.push_back(arena_.size());
  slots_[at] = {hash, size() - 1};
  return size() - 1;
}

void StringTable::reserve(size_t count, size_t bytes) {
  arena_.reserve(bytes);
  ends_.reserve(count);
  size_t slots = std::bit_ceil(count + count / 2 + 16);
  if (slots > slots_.size()) rehash(slots);
}

void StringTable::rehash(size_t slots) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  size_t mask = slots - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].id >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace gull::text
