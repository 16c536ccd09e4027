#include "weights/weight_cache.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace gull::weights {
namespace {

constexpr uint64_t kStagingBound = 64u << 20;   // bytes in flight before waiting for the GPU
constexpr uint64_t kSliceBytes = 8u << 20;      // bytes relaid at a time

/// The most rows a tile may have: binding limits, and a multiple of 64 rows so that output offsets stay aligned.
uint64_t tile_rows(uint64_t row_bytes, uint64_t max_bytes, uint64_t rows) {
  const uint64_t fit = max_bytes / row_bytes;
  return fit >= rows ? rows : (fit >= 64 ? fit / 64 * 64 : fit);
}

}  // namespace

WeightCache::WeightCache(std::shared_ptr<gpu::Device> device, std::shared_ptr<gguf::File> file, Options options)
    : device_(std::move(device)), file_(std::move(file)), options_(options) {
  const uint64_t limit = std::min(device_->caps().max_binding, device_->caps().max_buffer);
  options_.max_tile = options_.max_tile ? std::min(options_.max_tile, limit) : limit;
}

Result<TensorRef> WeightCache::tensor(std::string_view name) {
  auto found = tensor_opt(name);
  if (found && !*found) return fail_f(ErrorKind::BadFile, "{}: tensor '{}' is missing", file_->name(), name);
  return found;
}

Result<TensorRef> WeightCache::tensor_opt(std::string_view name) {
  Lock lock(mutex_);
  if (auto it = tensors_.find(std::string(name)); it != tensors_.end()) return it->second;
  const gguf::TensorInfo* info = file_->tensor(name);
  if (!info) return TensorRef{};
  auto tensor = std::make_shared<Tensor>();
  tensor->name = info->name;
  tensor->info = info;
  tensor->k = info->dims[0];
  tensor->rows = info->rows();
  tensor->matrices = info->n_dims > 2 ? info->dims[2] * info->dims[3] : 1;
  tensor->type = info->n_dims == 1 ? gguf::Type::F32 : info->type;
  auto layout = gguf::row_layout(tensor->type, tensor->k);
  if (!layout) return fail_f(layout.error().kind, "{}: tensor '{}': {}", file_->name(), name, layout.error().message);
  tensor->layout = *layout;
  const uint64_t row_bytes = layout->row_bytes;
  if (row_bytes == 0 || tensor->rows == 0) return fail_f(ErrorKind::BadFile, "{}: tensor '{}' is empty", file_->name(), name);
  const uint64_t most = options_.max_tile - std::min<uint64_t>(options_.max_tile, layout->table_bytes);
  if (row_bytes > most)
    return fail_f(ErrorKind::Unsupported, "{}: one row of '{}' is {}, this device binds at most {}", file_->name(), name,
                  human_bytes(row_bytes), human_bytes(most));
  // A 3-D tensor is cut between its matrices, so that each of them lies in one tile.
  const uint64_t unit = tensor->matrices > 1 && tensor->rows_per_matrix() * row_bytes <= most ? tensor->rows_per_matrix() : 1;
  const uint64_t step = std::max<uint64_t>(tile_rows(row_bytes * unit, most, tensor->rows / unit), 1) * unit;
  for (uint64_t first = 0; first < tensor->rows; first += step) {
    auto tile = std::make_shared<Tile>();
    tile->tensor = tensor.get();
    tile->first_row = first;
    tile->rows = std::min(step, tensor->rows - first);
    tile->bytes = tile->rows * row_bytes + layout->table_bytes;
    tensor->tiles.push_back(std::move(tile));
  }
  TensorRef shared = std::move(tensor);
  tensors_.emplace(std::string(name), shared);
  return shared;
}

Result<void> WeightCache::ensure(std::span<const std::shared_ptr<dispatch::Resident>> residents) {
  Lock lock(mutex_);
  for (const auto& resident : residents) {
    auto* tile = static_cast<Tile*>(resident.get());   // Plans of models bind tiles and no other residents
    if (tile->buffer) { ++counters_.hits; continue; }
    ++counters_.misses;
    if (auto ok = upload(*tile); !ok) return ok;
  }
  return {};
}

Result<void> WeightCache::upload(Tile& tile) {
  const Tensor& tensor = *tile.tensor;
  auto buffer = device_->create_buffer(tile.bytes, gpu::kStorage | gpu::kCopyDst | gpu::kCopySrc, gpu::Memory::Weights, tensor.name);
  if (!buffer) return fail(buffer.error());
  const bool vector = tensor.info->n_dims == 1;
  const uint64_t file_row = tensor.info->row_bytes();
  const uint64_t row_bytes = tensor.layout.row_bytes;
  const uint64_t rows_at_once = std::max<uint64_t>(kSliceBytes / row_bytes, 1);
  std::vector<std::byte> raw, relaid;
  for (uint64_t row = 0; row < tile.rows; row += rows_at_once) {
    const uint64_t rows = std::min(rows_at_once, tile.rows - row);
    const uint64_t offset = (tile.first_row + row) * file_row;
    auto bytes = file_->view(*tensor.info, offset, rows * file_row);
    if (bytes.empty()) {
      raw.resize(rows * file_row);
      if (auto ok = file_->read(*tensor.info, offset, raw); !ok) return ok;
      bytes = raw;
    }
    relaid.assign(rows * row_bytes, std::byte{0});
    if (vector && tensor.info->type != gguf::Type::F32) {
      std::vector<float> values(tensor.k);
      if (auto ok = gguf::dequantize(tensor.info->type, bytes, values); !ok) return ok;
      std::memcpy(relaid.data(), values.data(), values.size() * sizeof(float));
    } else {
      gguf::relay_rows(tensor.layout, bytes, relaid);
    }
    if (auto ok = device_->write(**buffer, row * row_bytes, std::span<const std::byte>(relaid)); !ok) return ok;
    unflushed_ += relaid.size();
    if (unflushed_ >= kStagingBound) {
      auto commands = device_->begin();
      if (!commands) return fail(commands.error());
      if (auto ok = device_->submit(std::move(*commands)); !ok) return fail(ok.error());
      if (auto ok = device_->wait_idle(); !ok) return ok;
      unflushed_ = 0;
    }
  }
  if (tensor.layout.table_bytes) {
    const std::vector<std::byte> table = gguf::row_table(tensor.type);
    if (auto ok = device_->write(**buffer, tile.rows * row_bytes, std::span<const std::byte>(table)); !ok) return ok;
  }
  ++counters_.uploads;
  counters_.upload_bytes += tile.bytes;
  cached_bytes_ += tile.bytes;
  tile.buffer = std::move(*buffer);
  return {};
}

Counters WeightCache::counters() const {
  Lock lock(mutex_);
  return counters_;
}

uint64_t WeightCache::cached_bytes() const {
  Lock lock(mutex_);
  return cached_bytes_;
}

}  // namespace gull::weights
