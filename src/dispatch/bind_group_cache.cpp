#include "dispatch/bind_group_cache.h"

#include <algorithm>
#include <vector>

namespace gull::dispatch {

bool GroupKey::operator==(const GroupKey& other) const {
  return pipeline == other.pipeline && layout == other.layout && count == other.count &&
         std::equal(ranges.begin(), ranges.begin() + count, other.ranges.begin());
}

size_t GroupKeyHash::operator()(const GroupKey& key) const {
  uint64_t hash = key.pipeline;
  const auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (uint32_t i = 0; i < key.count; ++i) mix(key.ranges[i].id), mix(key.ranges[i].offset), mix(key.ranges[i].size);
  mix(key.layout);
  return static_cast<size_t>(hash);
}

GroupRef BindGroupCache::take(Map::iterator at) {
  GroupRef entry = std::move(at->second.entry);
  order_.erase(at->second.order);
  entries_.erase(at);
  return entry;
}

GroupRef BindGroupCache::find(const GroupKey& key, uint32_t param_bytes) {
  GroupRef mismatched;
  Lock lock(mutex_);
  const auto at = entries_.find(key);
  if (at == entries_.end()) {
    ++stats_.misses;
    return nullptr;
  }
  if (at->second.entry->param_bytes == param_bytes) {
    ++stats_.hits;
    return at->second.entry;
  }
  ++stats_.rebuilds;
  mismatched = take(at);
  lock.unlock();
  return nullptr;
}

GroupRef BindGroupCache::insert(std::shared_ptr<GroupEntry> entry) {
  GroupRef oldest, mismatched;   // released after the lock
  Lock lock(mutex_);
  ++stats_.builds;
  if (const auto old = entries_.find(entry->key); old != entries_.end() && old->second.entry->param_bytes != entry->param_bytes)
    mismatched = take(old);
  const auto [at, fresh] = entries_.try_emplace(entry->key);
  if (!fresh) return at->second.entry;
  at->second.entry = std::move(entry);
  at->second.order = order_.insert(order_.end(), &at->first);
  GroupRef kept = at->second.entry;
  if (entries_.size() > capacity_) {
    ++stats_.evictions;
    oldest = take(entries_.find(*order_.front()));
  }
  lock.unlock();
  return kept;
}

size_t BindGroupCache::evict(uint64_t operand) {
  std::vector<GroupRef> dropped;   // released after the lock
  Lock lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const GroupKey& key = at->first;
    const bool names = std::any_of(key.ranges.begin(), key.ranges.begin() + key.count,
                                   [operand](const BoundRange& range) { return range.id == operand; });
    const auto next = std::next(at);
    if (names) {
      dropped.push_back(take(at));
      dropped.back()->dead.store(true, std::memory_order_release);
    }
    at = next;
  }
  stats_.freed += dropped.size();
  lock.unlock();
  return dropped.size();
}

void BindGroupCache::clear() {
  Map entries;
  Lock lock(mutex_);
  entries.swap(entries_);
  order_.clear();
  lock.unlock();
}

GroupStats BindGroupCache::stats() const {
  Lock lock(mutex_);
  GroupStats stats = stats_;
  stats.live = entries_.size();
  stats.order_length = order_.size();
  return stats;
}

}  // namespace gull::dispatch
