// A model's tensors on the GPU: uploaded on first use, in row tiles where the device's limits need them, never twice.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "dispatch/plan.h"
#include "gguf/row_layout.h"
#include "gpu/device.h"
#include "gull/gguf.h"

namespace gull::weights {

struct Tensor;

/// Some whole rows of a tensor, in the GPU's row layout. What Plans bind.
class Tile : public dispatch::Resident {
 public:
  gpu::Binding binding() const override { return {buffer, 0, 0}; }
  const Tensor* tensor = nullptr;   ///< owned by the cache, which outlives it
  uint64_t first_row = 0, rows = 0;
  uint64_t bytes = 0;               ///< on the GPU
  gpu::BufferRef buffer;            ///< null while it is not resident
};

/// A tensor as the kernels see it: `rows` rows of `k` weights; a 3-D tensor's matrices follow one another.
struct Tensor {
  std::string name;
  gguf::Type type = gguf::Type::F32;   ///< on the GPU (vectors become F32)
  gguf::RowLayout layout;
  uint64_t k = 0, rows = 0, matrices = 1;   ///< rows over all matrices
  uint64_t rows_per_matrix() const { return rows / matrices; }
  const gguf::TensorInfo* info = nullptr;
  std::vector<std::shared_ptr<Tile>> tiles;
};
using TensorRef = std::shared_ptr<const Tensor>;

struct Options {
  uint64_t budget = 0;      ///< bytes of weights on the GPU at once; 0: no bound
  uint64_t max_tile = 0;    ///< bytes of a tile; 0: what the device binds
};

struct Counters { uint64_t hits = 0, misses = 0, uploads = 0, upload_bytes = 0, evictions = 0, stalls = 0; };

/// Thread-safe.
class WeightCache {
 public:
  WeightCache(std::shared_ptr<gpu::Device> device, std::shared_ptr<gguf::File> file, Options options);

  /// Describes a tensor and its tiles; uploads nothing. Errors: absent, a type the kernels lack, a row larger than a tile.
  Result<TensorRef> tensor(std::string_view name);
  /// The same; null without an error where the file has no such tensor.
  Result<TensorRef> tensor_opt(std::string_view name);
  /// Makes memory resident, uploading what is missing.
  Result<void> ensure(std::span<const std::shared_ptr<dispatch::Resident>> residents);
  Counters counters() const;
  uint64_t cached_bytes() const;

 private:
  Result<void> upload(Tile& tile);

  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<gguf::File> file_;
  Options options_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, TensorRef> tensors_;
  Counters counters_;
  uint64_t cached_bytes_ = 0;
  uint64_t unflushed_ = 0;    ///< bytes written since the GPU last caught up
};

}  // namespace gull::weights
