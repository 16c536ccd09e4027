// Under a budget: what leaves so that what is needed can come.
//
// A Plan tells in which order its segments run, again and again. So the tile that leaves is the one whose next use is
// farthest; for tiles that no Plan in use names, and for those that ids choose (experts, rows of an embedding), the one
// used longest ago. (Plain least-recently-used would throw out, in a circle longer than the budget, exactly what comes next.)
//
// A buffer passes to the next tile of the same size without waiting: the write is queued behind the work that used the old
// contents. Where sizes differ a buffer is destroyed: first the bind groups that name it are dropped, then the GPU finishes.
#include <algorithm>

#include "base/log.h"
#include "weights/weight_cache.h"

namespace gull::weights {
namespace {

constexpr uint64_t kNever = uint64_t{1} << 40;   // beyond any distance on a route

}  // namespace

uint64_t WeightCache::distance(const Tile& tile, uint32_t stop) const {
  const Tile::Upkeep& u = tile.upkeep;
  const uint64_t age = clock_ - u.last_use;
  if (u.route != route_ || u.stops.empty() || stop >= route_length_) return kNever + age;
  const auto next = std::upper_bound(u.stops.begin(), u.stops.end(), stop);
  if (next != u.stops.begin() && *std::prev(next) == stop && u.last_use < stop_began_) return 0;   // its turn at this stop is still to come
  const uint64_t ahead = next != u.stops.end() ? *next - stop : uint64_t{u.stops.front()} + route_length_ - stop;
  return u.chosen ? std::max(ahead, age) : ahead;
}

WeightCache::Candidates WeightCache::candidates(uint32_t stop) const {
  Candidates out;
  Lock lock(mutex_);
  for (const TileRef& tile : resident_)
    // What was marked in this turn of the clock is wanted now; what somebody else holds must stay.
    if (!tile->upkeep.pinned && tile->upkeep.last_use != clock_ && tile->buffer.use_count() == 1)
      out.entries.push_back({distance(*tile, stop), tile});
  std::stable_sort(out.entries.begin(), out.entries.end(), [](const auto& a, const auto& b) { return a.distance > b.distance; });
  return out;
}

bool WeightCache::fits(const Tile& tile) const {
  Lock lock(mutex_);
  if (tile.upkeep.pinned) return true;   // their room is kept free
  return cached_bytes_ - cached_pinned_ + lent_->load() + tile.bytes <= room();
}

bool WeightCache::missing(std::span<const TileRef> tiles) const {
  return std::any_of(tiles.begin(), tiles.end(), [](const TileRef& tile) { return tile->buffer == nullptr; });
}

Result<void> WeightCache::bring(std::span<const TileRef> tiles, uint32_t stop) {
  using State = Tile::Upkeep::State;
  ++clock_;
  std::vector<TileRef> wanted;
  {
    Lock lock(mutex_);
    for (const TileRef& tile : tiles) {
      tile->upkeep.last_use = clock_;
      ++(tile->buffer ? counters_.hits : counters_.misses);
      if (!tile->buffer) wanted.push_back(tile);
    }
  }
  if (wanted.empty()) return {};
  Candidates room = candidates(stop);
  Result<void> result;
  for (const TileRef& tile : wanted) {
    if (tile->buffer) continue;   // named twice
    auto buffer = make_room(*tile, room);
    if (!buffer) { result = fail(buffer.error()); break; }
    ahead_->deliver(tile, *buffer);
    settle(tile, std::move(*buffer), State::Loading);
  }
  for (const TileRef& tile : wanted)
    if (result && tile->upkeep.state == State::Loading) {
      result = arrived(*tile, *ahead_);
      if (result) set_state(tile, State::Resident);
    }
  if (result) return {};
  ahead_->clear();
  for (const TileRef& tile : wanted)
    if (tile->upkeep.state == State::Loading) evict(tile);
  return result;
}

Result<gpu::BufferRef> WeightCache::make_room(const Tile& tile, Candidates& room) {
  if (fits(tile)) return create(tile);
  auto& entries = room.entries;
  if (!entries.empty()) {
    const uint64_t far_enough = entries.front().distance / 2;
    const auto same = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.tile->bytes == tile.bytes && e.distance >= far_enough; });
    if (same != entries.end()) {
      gpu::BufferRef buffer = evict(same->tile);
      entries.erase(same);
      Lock lock(mutex_);
      ++counters_.evictions, ++counters_.recycled;
      return buffer;
    }
  }
  std::vector<gpu::BufferRef> gone;
  size_t n = 0;
  for (; n < entries.size() && !fits(tile); ++n) gone.push_back(evict(entries[n].tile));
  entries.erase(entries.begin(), entries.begin() + static_cast<ptrdiff_t>(n));
  if (n) {
    Lock lock(mutex_);
    counters_.evictions += n, counters_.destroyed += n, ++counters_.stalls;
  }
  if (auto ok = destroy(std::move(gone)); !ok) return fail(ok.error());
  if (!fits(tile))
    return fail_f(ErrorKind::OutOfMemory, "{}: '{}' takes {} at once, and nothing more can leave the budget of {}: raise --gpu-budget", file_->name(),
                  tile.tensor->name, human_bytes(tile.bytes), human_bytes(options_.budget));
  return create(tile);
}

/// Takes a tile's buffer away from it, and from every bind group.
gpu::BufferRef WeightCache::evict(const TileRef& tile) {
  gpu::BufferRef buffer;
  {
    Lock lock(mutex_);
    std::erase(resident_, tile);
    cached_bytes_ -= tile->bytes;
    if (tile->upkeep.pinned) cached_pinned_ -= tile->bytes;
    buffer = std::exchange(tile->buffer, nullptr);
    tile->upkeep.state = Tile::Upkeep::State::Absent;
  }
  forget_groups(*buffer);
  return buffer;
}

void WeightCache::forget_groups(const gpu::Buffer& buffer) {
  Lock lock(mutex_);
  for (dispatch::Plan* plan : plans_) plan->drop_bind_groups(buffer.id());
}

/// Nothing names the buffers any more; once the GPU is idle they go.
Result<void> WeightCache::destroy(std::vector<gpu::BufferRef> buffers) {
  if (buffers.empty()) return {};
  auto idle = device_->wait_idle();
  for (const gpu::BufferRef& buffer : buffers) buffer->destroy();
  return idle;
}

uint64_t WeightCache::smallest_budget(std::span<dispatch::Plan* const> plans) const {
  uint64_t most = 0;
  for (const dispatch::Plan* plan : plans)
    for (size_t i = 0; i < plan->steps(); ++i) {
      uint64_t step = 0, row = 0;
      for (const dispatch::Operand& operand : plan->step(i).operands) {
        if (!operand.resident) continue;
        const auto& tile = static_cast<const Tile&>(*operand.resident);
        if (tile.upkeep.pinned) continue;
        // What is outside the layers is cut to suit the budget, down to single rows.
        if (layer_of(tile.tensor->name) < 0) row = std::max(row, tile.bytes / tile.rows);
        else step += tile.bytes;
      }
      most = std::max(most, step + row);
    }
  return pinned_ + most;
}

}  // namespace gull::weights
