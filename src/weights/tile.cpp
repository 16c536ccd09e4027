#include "weights/tile.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"

namespace gull::weights {
namespace {

/// How many units (rows, or matrices) go into a tile: as many as fit, a multiple of 64 where it is cut, so that what kernels
/// write starts at aligned places.
uint64_t units_per_tile(uint64_t unit_bytes, uint64_t max_bytes, uint64_t units) {
  const uint64_t fit = max_bytes / unit_bytes;
  return fit >= units ? units : (fit >= 64 ? fit / 64 * 64 : fit);
}

}  // namespace

Result<TensorRef> cut(const gguf::File& file, const gguf::TensorInfo& info, uint64_t max_bytes, bool by_matrix) {
  auto tensor = std::make_shared<Tensor>();
  tensor->name = info.name;
  tensor->info = &info;
  tensor->k = info.dims[0];
  tensor->rows = info.rows();
  tensor->matrices = info.n_dims > 2 ? info.dims[2] * info.dims[3] : 1;
  tensor->type = info.n_dims == 1 ? gguf::Type::F32 : info.type;
  auto layout = gguf::row_layout(tensor->type, tensor->k);
  if (!layout) return fail_f(layout.error().kind, "{}: tensor '{}': {}", file.name(), info.name, layout.error().message);
  tensor->layout = *layout;
  const uint64_t row_bytes = layout->row_bytes;
  if (row_bytes == 0 || tensor->rows == 0) return fail_f(ErrorKind::BadFile, "{}: tensor '{}' is empty", file.name(), info.name);
  const uint64_t most = max_bytes - std::min<uint64_t>(max_bytes, layout->table_bytes);
  if (row_bytes > most)
    return fail_f(ErrorKind::Unsupported, "{}: one row of '{}' takes {}, a tile may have {}", file.name(), info.name,
                  human_bytes(row_bytes), human_bytes(most));
  // A 3-D tensor is cut between its matrices where they fit, so that each of them lies in one tile.
  const uint64_t matrix = tensor->rows_per_matrix();
  const bool whole = tensor->matrices > 1 && matrix <= most / row_bytes;
  const uint64_t unit = whole ? matrix : 1;
  const uint64_t step = whole && by_matrix ? unit : units_per_tile(row_bytes * unit, most, tensor->rows / unit) * unit;
  for (uint64_t first = 0; first < tensor->rows; first += step) {
    auto tile = std::make_shared<Tile>();
    tile->tensor = tensor.get();
    tile->first_row = first;
    tile->rows = std::min(step, tensor->rows - first);
    tile->bytes = tile->rows * row_bytes + layout->table_bytes;
    tile->upkeep.pinned = info.n_dims == 1;
    tensor->tiles.push_back(std::move(tile));
  }
  return tensor;
}

uint64_t gpu_bytes(const gguf::TensorInfo& info) {
  const auto layout = gguf::row_layout(info.n_dims == 1 ? gguf::Type::F32 : info.type, info.dims[0]);
  return layout ? info.rows() * layout->row_bytes + layout->table_bytes : 0;
}

bool has_prefix(std::string_view name, std::string_view prefix) {
  while (prefix.ends_with('.')) prefix.remove_suffix(1);
  return prefix.empty() || (name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.'));
}

int64_t layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  const char* const end = name.data() + name.size();
  uint32_t layer = 0;
  const auto [after, error] = std::from_chars(name.data() + 4, end, layer);
  return error == std::errc() && after != end && *after == '.' ? int64_t{layer} : -1;
}

}  // namespace gull::weights
