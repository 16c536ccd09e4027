#include "weights/weight_cache.h"

#include "base/log.h"

namespace gull::weights {
namespace {

constexpr uint32_t kNoStop = UINT32_MAX;

bool is_experts(const gguf::TensorInfo& info) { return info.n_dims > 2 && info.name.find("_exps") != std::string::npos; }

}  // namespace

WeightCache::WeightCache(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gguf::File> file, Options options)
    : device_(std::move(device)), file_(std::move(file)), options_(options),
      loader_(device_, file_, loader_options(file_->local())) {
  limit_ = std::min(device_->caps().max_binding, device_->caps().max_buffer);
  if (options_.max_tile) limit_ = std::min(limit_, options_.max_tile);
  for (const gguf::TensorInfo& info : file_->tensors()) {
    total_ += gpu_bytes(info);
    if (info.n_dims == 1) pinned_ += gpu_bytes(info);
  }
  bounded_ = options_.budget && options_.budget < total_;
  if (bounded_) ahead_ = std::make_unique<Loader::Queue>(loader_);
}

WeightCache::~WeightCache() {
  ahead_.reset();
  const Counters& c = counters_;
  if (!bounded_ || c.hits + c.misses == 0) return;
  log(LogLevel::Debug, "weights within {}: {} hits, {} misses, {} uploads of {} in all, {} evictions ({} buffers taken over, {} destroyed), {} stalls",
      human_bytes(options_.budget), c.hits, c.misses, c.uploads, human_bytes(c.upload_bytes), c.evictions, c.recycled, c.destroyed, c.stalls);
}

// ---- what the file has ----------------------------------------------------------------------------------------------

Result<TensorRef> WeightCache::tensor(std::string_view name) {
  auto found = tensor_opt(name);
  if (found && !*found) return fail_f(ErrorKind::BadFile, "{}: tensor '{}' is missing", file_->name(), name);
  return found;
}

Result<TensorRef> WeightCache::tensor_opt(std::string_view name) {
  const gguf::TensorInfo* info = file_->tensor(name);
  if (!info) return TensorRef{};
  if (!bounded_) return find(name, limit_, false);
  if (is_experts(*info)) return find(name, limit_, true);
  if (layer_of(name) >= 0 || info->n_dims == 1) return find(name, limit_, false);
  // Embeddings and output projections are large, and kernels take them in any tiles. Small ones leave more room to the
  // layers, but each needs a pipeline of its own: an eighth of the room, or some 32 in all, and never more than a third.
  const auto layout = gguf::row_layout(info->type, info->dims[0]);
  const uint64_t least = layout ? uint64_t{layout->row_bytes} + layout->table_bytes : 0;
  const uint64_t suits = std::min(std::max(room() / 8, gpu_bytes(*info) / 32), room() / 3);
  return find(name, std::min(limit_, std::max(suits, least)), false);
}

Result<TensorRef> WeightCache::find(std::string_view name, uint64_t max_bytes, bool by_matrix) {
  const gguf::TensorInfo* info = file_->tensor(name);
  if (!info) return fail_f(ErrorKind::NotFound, "{}: there is no tensor '{}'", file_->name(), name);
  const std::string key = fmt::format("{}|{}|{}", name, max_bytes, by_matrix);
  Lock lock(mutex_);
  if (const auto it = tensors_.find(key); it != tensors_.end()) return it->second;
  auto tensor = cut(*file_, *info, max_bytes, by_matrix);
  if (!tensor) return tensor;
  // However it was asked for, a tensor in one piece is the same one.
  if ((*tensor)->tiles.size() == 1) *tensor = tensors_.try_emplace(fmt::format("{}|whole", name), *tensor).first->second;
  tensors_.emplace(key, *tensor);
  return tensor;
}

Result<gguf::Type> WeightCache::type(std::string_view name) const {
  const gguf::TensorInfo* info = file_->tensor(name);
  if (!info) return fail_f(ErrorKind::NotFound, "{}: there is no tensor '{}'", file_->name(), name);
  return info->type;
}

// ---- uploaded on first use ------------------------------------------------------------------------------------------

Result<gpu::BufferRef> WeightCache::buffer(std::string_view name) {
  auto found = buffer_opt(name);
  if (found && !*found) return fail_f(ErrorKind::NotFound, "{}: there is no tensor '{}'", file_->name(), name);
  return found;
}

Result<gpu::BufferRef> WeightCache::buffer_opt(std::string_view name) {
  if (!file_->tensor(name)) return gpu::BufferRef{};
  auto tensor = find(name, limit_, false);
  if (!tensor) return fail(tensor.error());
  if ((*tensor)->tiles.size() != 1)
    return fail_f(ErrorKind::Unsupported, "{}: '{}' is larger than the {} that one tile may have: take it in tiles", file_->name(), name,
                  human_bytes(limit_));
  auto held = hold((*tensor)->tiles);
  if (!held) return fail(held.error());
  return held->front().buffer;
}

Result<std::vector<TileBuffer>> WeightCache::tiles(std::string_view name, uint64_t max_bytes) {
  auto tensor = find(name, max_bytes ? std::min(max_bytes, limit_) : limit_, false);
  if (!tensor) return fail(tensor.error());
  return hold((*tensor)->tiles);
}

Result<TileBuffer> WeightCache::expert(std::string_view name, uint64_t e) {
  auto tensor = find(name, limit_, true);
  if (!tensor) return fail(tensor.error());
  const Tensor& t = **tensor;
  if (e >= t.matrices) return fail_f(ErrorKind::InvalidArgument, "{}: '{}' has {} matrices, there is no number {}", file_->name(), name, t.matrices, e);
  if (t.tiles.size() != t.matrices)
    return fail_f(ErrorKind::Unsupported, "{}: one matrix of '{}' is larger than the {} that one tile may have", file_->name(), name, human_bytes(limit_));
  auto held = hold(std::span(t.tiles).subspan(e, 1));
  if (!held) return fail(held.error());
  return held->front();
}

Result<TileBuffer> WeightCache::tile(std::string_view name, size_t i, uint64_t max_bytes) {
  auto tensor = find(name, max_bytes ? std::min(max_bytes, limit_) : limit_, false);
  if (!tensor) return fail(tensor.error());
  if (i >= (*tensor)->tiles.size())
    return fail_f(ErrorKind::InvalidArgument, "{}: '{}' has {} tiles, there is no number {}", file_->name(), name, (*tensor)->tiles.size(), i);
  const TileRef& tile = (*tensor)->tiles[i];
  ExclusiveLock turn(turn_);
  ++clock_;
  Candidates room = candidates(kNoStop);
  auto buffer = bounded_ ? make_room(*tile, room) : create(*tile);
  if (!buffer) return fail(buffer.error());
  // Loose tiles count towards the budget for as long as their caller keeps them.
  lent_->fetch_add(tile->bytes);
  gpu::BufferRef lent(buffer->get(), [owner = *buffer, count = lent_, size = tile->bytes](gpu::Buffer*) mutable {
    owner.reset();
    count->fetch_sub(size);
  });
  Loader::Queue queue(loader_);
  queue.deliver(tile, lent);
  if (auto ok = arrived(*tile, queue); !ok) return fail(ok.error());
  return TileBuffer{std::move(lent), tile->first_row, tile->rows};
}

Result<std::vector<TileBuffer>> WeightCache::hold(std::span<const TileRef> tiles) {
  std::vector<TileBuffer> out;
  const auto collect = [&] {
    for (const TileRef& tile : tiles) out.push_back({tile->buffer, tile->first_row, tile->rows});
  };
  if (bounded_) {
    ExclusiveLock turn(turn_);
    if (auto ok = bring(tiles, kNoStop); !ok) return fail(ok.error());
    collect();
    return out;
  }
  SharedLock turn(turn_);
  if (auto ok = upload(tiles, {}); !ok) return fail(ok.error());
  collect();
  return out;
}

Result<void> WeightCache::ensure(std::span<const std::shared_ptr<dispatch::Resident>> residents) {
  if (!bounded_) {
    Lock lock(mutex_);
    const bool all = std::all_of(residents.begin(), residents.end(), [](const auto& resident) {
      return static_cast<const Tile&>(*resident).upkeep.state == Tile::Upkeep::State::Resident;
    });
    if (all) counters_.hits += residents.size();
    if (all) return {};
  }
  std::vector<TileRef> tiles;
  for (const auto& resident : residents) tiles.push_back(std::static_pointer_cast<Tile>(resident));   // models bind no others
  if (!bounded_) return upload(tiles, {});
  ExclusiveLock turn(turn_);
  return bring(tiles, kNoStop);
}

Result<void> WeightCache::load(std::span<const TileRef> tiles, const UploadProgress& progress) {
  SharedLock turn(turn_);
  return upload(tiles, progress);
}

/// Those that nobody uploads yet: they are this caller's now.
std::vector<TileRef> WeightCache::claim(std::span<const TileRef> tiles) {
  std::vector<TileRef> mine;
  Lock lock(mutex_);
  for (const TileRef& tile : tiles) {
    if (tile->upkeep.state == Tile::Upkeep::State::Resident) {
      ++counters_.hits;
    } else if (tile->upkeep.state == Tile::Upkeep::State::Absent) {
      ++counters_.misses;
      tile->upkeep.state = Tile::Upkeep::State::Loading;
      mine.push_back(tile);
    }
  }
  return mine;
}

/// Without a budget. Single flight: what another thread is uploading is waited for.
Result<void> WeightCache::upload(std::span<const TileRef> tiles, const UploadProgress& progress) {
  using State = Tile::Upkeep::State;
  for (;;) {
    const std::vector<TileRef> mine = claim(tiles);
    std::vector<gpu::BufferRef> buffers;
    Result<void> result;
    uint64_t done = 0, total = 0;
    for (const TileRef& tile : mine) {
      auto buffer = create(*tile);
      if (!buffer) { result = fail(buffer.error()); break; }
      buffers.push_back(std::move(*buffer));
      total += tile->bytes;
    }
    size_t settled = 0;
    if (result && !mine.empty()) {
      Loader::Queue queue(loader_);
      if (progress && !progress(0, total)) result = fail(ErrorKind::Cancelled, "loading was cancelled");
      for (size_t i = 0; i < mine.size() && result; ++i) queue.deliver(mine[i], buffers[i]);
      for (; settled < mine.size() && result; ++settled) {
        if (result = arrived(*mine[settled], queue); !result) break;
        done += mine[settled]->bytes;
        settle(mine[settled], std::move(buffers[settled]), State::Resident);
        if (progress && !progress(done, total)) result = fail(ErrorKind::Cancelled, "loading was cancelled");
      }
    }
    for (size_t i = settled; i < mine.size(); ++i) set_state(mine[i], State::Absent);
    if (!result) return result;
    Lock lock(mutex_);
    bool again = false;
    for (const TileRef& tile : tiles) {
      while (tile->upkeep.state == State::Loading) loaded_.wait(lock);
      again = again || tile->upkeep.state == State::Absent;   // the other thread failed: try it here
    }
    if (!again) return {};
  }
}

Result<gpu::BufferRef> WeightCache::create(const Tile& tile) {
  return device_->create_buffer(tile.bytes, gpu::kStorage | gpu::kCopyDst | gpu::kCopySrc, gpu::Memory::Weights, tile.tensor->name);
}

/// Waits for a tile that was delivered.
Result<void> WeightCache::arrived(Tile& tile, Loader::Queue& queue) {
  auto waited = queue.wait(tile);
  if (!waited) return fail(waited.error());
  Lock lock(mutex_);
  tile.upkeep.seen = true;
  ++counters_.uploads;
  counters_.upload_bytes += tile.bytes;
  counters_.stalls += *waited;
  return {};
}

void WeightCache::settle(const TileRef& tile, gpu::BufferRef buffer, Tile::Upkeep::State state) {
  {
    Lock lock(mutex_);
    tile->buffer = std::move(buffer);
    tile->upkeep.state = state;
    resident_.push_back(tile);
    cached_bytes_ += tile->bytes;
    if (tile->upkeep.pinned) cached_pinned_ += tile->bytes;
  }
  loaded_.notify_all();
}

void WeightCache::set_state(const TileRef& tile, Tile::Upkeep::State state) {
  {
    Lock lock(mutex_);
    tile->upkeep.state = state;
  }
  loaded_.notify_all();
}

// ---- forgetting -----------------------------------------------------------------------------------------------------

size_t WeightCache::drop_prefix(std::string_view prefix) {
  return drop_where([prefix](const Tensor& tensor) { return has_prefix(tensor.name, prefix); }, false);
}

size_t WeightCache::drop_prefix_destroy(std::string_view prefix) {
  return drop_where([prefix](const Tensor& tensor) { return has_prefix(tensor.name, prefix); }, true);
}

size_t WeightCache::drop_layers_destroy(uint32_t first, uint32_t last) {
  return drop_where([=](const Tensor& tensor) {
    const int64_t layer = layer_of(tensor.name);
    return layer >= int64_t{first} && layer < int64_t{last};
  }, true);
}

size_t WeightCache::drop_where(const std::function<bool(const Tensor&)>& wanted, bool destroy_now) {
  ExclusiveLock turn(turn_);
  std::vector<TileRef> victims;
  {
    Lock lock(mutex_);
    for (const TileRef& tile : resident_)
      if (wanted(*tile->tensor)) victims.push_back(tile);
  }
  if (ahead_) ahead_->clear();
  std::vector<gpu::BufferRef> buffers;
  for (const TileRef& tile : victims) buffers.push_back(evict(tile));
  // A device that is lost has nothing to wait for; its buffers go all the same.
  if (destroy_now) (void)destroy(std::move(buffers));
  return victims.size();
}

// ---- figures --------------------------------------------------------------------------------------------------------

uint64_t WeightCache::cached_count() const {
  Lock lock(mutex_);
  return resident_.size();
}

uint64_t WeightCache::cached_bytes() const {
  Lock lock(mutex_);
  return cached_bytes_;
}

Counters WeightCache::counters() const {
  Lock lock(mutex_);
  return counters_;
}

void WeightCache::attach(dispatch::Plan* plan) {
  Lock lock(mutex_);
  plans_.push_back(plan);
}

void WeightCache::detach(dispatch::Plan* plan) {
  Lock lock(mutex_);
  std::erase(plans_, plan);
}

}  // namespace gull::weights
