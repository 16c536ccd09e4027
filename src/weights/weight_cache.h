// A model's tensors on the GPU: uploaded on first use, in row tiles where the device's limits need them, once; and within
// a budget, where there is one.
//
// Without a budget (or when everything fits it) nothing leaves by itself, and any number of sessions replay at once.
// Under a budget the weights come and go while a Plan is replayed in parts, by one session at a time (`run`).
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/threads.h"
#include "gpu/commands.h"
#include "weights/loader.h"
#include "weights/tile.h"

namespace gull::weights {

struct Options {
  uint64_t budget = 0;      ///< bytes of weights on the GPU at once; 0: no bound
  uint64_t max_tile = 0;    ///< bytes of a tile; 0: what the device binds
  bool by_segment = false;  ///< under a budget: each segment of a Plan is a submission of its own
};

struct Counters {
  uint64_t hits = 0, misses = 0;            ///< tiles wanted that were there, or not
  uint64_t uploads = 0, upload_bytes = 0;   ///< tiles, and what went to the GPU
  uint64_t evictions = 0;                   ///< tiles that left to make room
  uint64_t recycled = 0, destroyed = 0;     ///< their buffers: taken over by a tile of the same size, or given back
  uint64_t stalls = 0;                      ///< times that a step had to wait for the source, or for the GPU to give a buffer free
};

/// A Plan and the variables that it is to be replayed with.
struct Stage {
  dispatch::Plan* plan = nullptr;
  dispatch::Vars vars{};
};

/// A tile as callers get it. While they hold the buffer, it does not leave to make room.
struct TileBuffer {
  gpu::BufferRef buffer;
  uint64_t first_row = 0, rows = 0;   ///< over all matrices
};

/// Told how many bytes are uploaded, of how many; false stops with ErrorKind::Cancelled.
using UploadProgress = std::function<bool(uint64_t done, uint64_t total)>;

/// Thread-safe.
class WeightCache {
 public:
  WeightCache(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gguf::File> file, Options options);
  ~WeightCache();
  WeightCache(const WeightCache&) = delete;
  WeightCache& operator=(const WeightCache&) = delete;

  // -- what the file has; uploads nothing

  /// Describes a tensor and its tiles. Errors: absent, a type the kernels lack, a row larger than a tile.
  Result<TensorRef> tensor(std::string_view name);
  /// The same; null without an error where the file has no such tensor.
  Result<TensorRef> tensor_opt(std::string_view name);
  /// The type that the file gives it. Errors: absent.
  Result<gguf::Type> type(std::string_view name) const;

  // -- on the GPU, uploaded on first use

  /// The whole tensor in one buffer, the same one every time. Errors: absent; larger than a tile (use `tiles`).
  Result<gpu::BufferRef> buffer(std::string_view name);
  /// The same; null without an error where the file has no such tensor.
  Result<gpu::BufferRef> buffer_opt(std::string_view name);
  /// The tensor in tiles of whole rows, each at most `max_bytes` (0: what the device binds). Errors: a row larger than that.
  Result<std::vector<TileBuffer>> tiles(std::string_view name, uint64_t max_bytes = 0);
  /// Tile `i` of the same, uploaded for this caller alone; its memory goes back when the caller drops it.
  Result<TileBuffer> tile(std::string_view name, size_t i, uint64_t max_bytes = 0);
  /// Matrix `e` of a 3-D tensor.
  Result<TileBuffer> expert(std::string_view name, uint64_t e);

  uint64_t cached_count() const;   ///< tiles on the GPU; a tensor that is not cut counts as one
  uint64_t cached_bytes() const;

  // -- forgetting. Prefixes match whole dotted parts: see has_prefix. All return how many tiles went.

  /// Lets go of the buffers: safe while GPU work is in flight, which keeps what it uses.
  size_t drop_prefix(std::string_view prefix);
  /// Waits until the GPU is idle, drops every bind group of a Plan that names the victims, then destroys them.
  size_t drop_prefix_destroy(std::string_view prefix);
  /// The same for the layers blk.first … blk.(last − 1), in one pass.
  size_t drop_layers_destroy(uint32_t first, uint32_t last);

  // -- for models

  /// Whether weights have to come and go: the file's weights are more than the budget.
  bool bounded() const { return bounded_; }
  uint64_t budget() const { return options_.budget; }
  /// Bytes of all of the file's tensors on the GPU.
  uint64_t total_bytes() const { return total_; }
  /// The smallest budget that these Plans can be run with: pinned vectors, and all that one step reads.
  uint64_t smallest_budget(std::span<dispatch::Plan* const> plans) const;

  /// Makes tiles resident. Two threads that want one tile upload it once.
  Result<void> ensure(std::span<const std::shared_ptr<dispatch::Resident>> residents);
  /// Uploads these tiles ahead of any use. All buffers are created first, so that what cannot fit is known at once.
  Result<void> load(std::span<const TileRef> tiles, const UploadProgress& progress);

  /// Held while a Plan is replayed without a budget, so that nothing is dropped meanwhile.
  SharedLock share() { return SharedLock(turn_); }
  /// Under a budget: replays Plans one after another, in parts, each with its weights. Returns the number of dispatches.
  /// Errors: a step that reads more than the budget allows (says how much it takes), the source's, the GPU's.
  Result<uint64_t> run(std::span<const Stage> stages);

  /// Plans whose bind groups may name tiles: told before a tile's buffer goes. `detach` before a Plan ends.
  void attach(dispatch::Plan* plan);
  void detach(dispatch::Plan* plan);

  Counters counters() const;

 private:
  friend class StreamedRun;
  /// Tiles that may leave, those that are needed last first.
  struct Candidates {
    struct Entry { uint64_t distance; TileRef tile; };
    std::vector<Entry> entries;
  };
  Result<TensorRef> find(std::string_view name, uint64_t max_bytes, bool by_matrix);
  Result<std::vector<TileBuffer>> hold(std::span<const TileRef> tiles);
  Result<void> upload(std::span<const TileRef> tiles, const UploadProgress& progress);
  std::vector<TileRef> claim(std::span<const TileRef> tiles);
  Result<void> arrived(Tile& tile, Loader::Queue& queue);
  Result<gpu::BufferRef> create(const Tile& tile);
  void settle(const TileRef& tile, gpu::BufferRef buffer, Tile::Upkeep::State state);
  void set_state(const TileRef& tile, Tile::Upkeep::State state);
  size_t drop_where(const std::function<bool(const Tensor&)>& wanted, bool destroy);

  // residency.cpp: under the turn
  Result<void> bring(std::span<const TileRef> tiles, uint32_t stop);
  Candidates candidates(uint32_t stop) const;
  Result<gpu::BufferRef> make_room(const Tile& tile, Candidates& candidates);
  uint64_t distance(const Tile& tile, uint32_t stop) const;
  gpu::BufferRef evict(const TileRef& tile);
  void forget_groups(const gpu::Buffer& buffer);
  Result<void> destroy(std::vector<gpu::BufferRef> buffers);
  bool fits(const Tile& tile) const;
  bool missing(std::span<const TileRef> tiles) const;
  uint64_t room() const { return options_.budget - std::min(options_.budget, pinned_); }

  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<const gguf::File> file_;
  Options options_;
  uint64_t limit_ = 0;          ///< bytes of a tile
  uint64_t total_ = 0, pinned_ = 0;
  bool bounded_ = false;
  std::shared_ptr<std::atomic<uint64_t>> lent_ = std::make_shared<std::atomic<uint64_t>>(0);   ///< bytes of loose tiles

  /// Taken whole by what may move or drop tiles, shared by replays without a budget. Taken before mutex_, never after.
  SharedMutex turn_;
  mutable Mutex mutex_;         ///< guards all below but the route; not held while anything is read or uploaded
  Condition loaded_;
  std::unordered_map<std::string, TensorRef> tensors_;   ///< by name and cut
  std::vector<TileRef> resident_;
  std::vector<dispatch::Plan*> plans_;
  Counters counters_;
  uint64_t cached_bytes_ = 0, cached_pinned_ = 0;

  // under the turn
  uint64_t route_ = 0;          ///< number of the route that tiles' stops belong to
  uint32_t route_length_ = 0;
  uint64_t clock_ = 0;          ///< counts what was brought in so far
  uint64_t stop_began_ = 0;     ///< the clock's first value at this stop
  Loader loader_;               // last but one: its threads use what stands above
  std::unique_ptr<Loader::Queue> ahead_;   ///< under a budget: what comes next
};

/// Keeps a Plan attached for as long as it lives.
class Attached {
 public:
  Attached() = default;
  Attached(WeightCache& cache, dispatch::Plan& plan) : cache_(&cache), plan_(&plan) { cache.attach(&plan); }
  Attached(Attached&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)), plan_(other.plan_) {}
  Attached& operator=(Attached&& other) noexcept {
    std::swap(cache_, other.cache_), std::swap(plan_, other.plan_);
    return *this;
  }
  ~Attached() {
    if (cache_) cache_->detach(plan_);
  }

 private:
  WeightCache* cache_ = nullptr;
  dispatch::Plan* plan_ = nullptr;
};

}  // namespace gull::weights
