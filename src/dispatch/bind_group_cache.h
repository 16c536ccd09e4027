// Bind groups by pipeline and operands: an operation that comes back with the same operands reuses its bind group.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "gpu/device.h"

namespace gull::dispatch {

constexpr size_t kMaxGroupBindings = 32;

/// One binding of a group: an operand's id (never used again by its owner) and the range of it that is bound.
struct BoundRange {
  uint64_t id, offset, size;   // not zeroed: a key is made for every call, and only `count` of them are used
  bool operator==(const BoundRange&) const = default;
};

/// What identifies a bind group: which shader, and the ranges that its bindings name, in binding order.
struct GroupKey {
  uint64_t pipeline = 0, layout = 0;   ///< together they identify the shader's source
  uint32_t count = 0;
  std::array<BoundRange, kMaxGroupBindings> ranges;   ///< the first `count` count

  void add(BoundRange range) { ranges[count++] = range; }
  bool operator==(const GroupKey& other) const;
};

struct GroupKeyHash {
  size_t operator()(const GroupKey& key) const;
};

/// A bind group with everything that a hit needs, so that it looks nothing else up.
struct GroupEntry {
  GroupKey key;
  gpu::PipelineRef pipeline;
  gpu::BindGroupRef group;
  uint32_t param_bytes = 0;                                 ///< what its pipeline takes, by whichever way
  std::array<uint64_t, kMaxGroupBindings> operand_bytes{};  ///< size of each whole operand, in binding order
  /// Set once an operand was freed. Who finds it set must build anew, and learns there that the operand is gone.
  mutable std::atomic<bool> dead{false};
};
using GroupRef = std::shared_ptr<const GroupEntry>;

struct GroupStats {
  uint64_t hits = 0, misses = 0, builds = 0;
  uint64_t rebuilds = 0;    ///< hits given up because the parameters' size differs
  uint64_t evictions = 0;   ///< pushed out by newer ones
  uint64_t freed = 0;       ///< dropped because an operand was freed
  uint64_t live = 0, order_length = 0;
};

/// Bounded; the oldest inserted goes first. Thread-safe; calls nothing of the GPU while it is locked, so that no
/// other lock is ever taken under its own.
class BindGroupCache {
 public:
  explicit BindGroupCache(size_t capacity = 64) : capacity_(capacity ? capacity : 1) {}

  /// The entry, or null. Allocates nothing. An entry whose parameters have another size is dropped: null then.
  GroupRef find(const GroupKey& key, uint32_t param_bytes);
  /// Keeps a new entry and returns the one to use: where two threads missed together, the first one's.
  GroupRef insert(std::shared_ptr<GroupEntry> entry);
  /// Drops each entry that names the operand; returns how many.
  size_t evict(uint64_t operand);
  void clear();
  GroupStats stats() const;

 private:
  struct Slot {
    GroupRef entry;
    std::list<const GroupKey*>::iterator order;
  };
  using Map = std::unordered_map<GroupKey, Slot, GroupKeyHash>;
  /// Unlinks one entry and hands it back, to be released outside the lock.
  GroupRef take(Map::iterator at);

  const size_t capacity_;
  mutable Mutex mutex_;
  Map entries_;
  std::list<const GroupKey*> order_;   ///< oldest first; one element an entry, unlinked with it
  GroupStats stats_;
};

}  // namespace gull::dispatch
