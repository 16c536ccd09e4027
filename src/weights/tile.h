// What the cache keeps: tensors, cut into tiles of whole rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

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
  uint64_t elements() const override;
  const Tensor* tensor = nullptr;   ///< owned by the cache, which outlives it
  uint64_t first_row = 0, rows = 0;
  uint64_t bytes = 0;               ///< on the GPU
  gpu::BufferRef buffer;            ///< null while it is not resident

  /// How the cache keeps it. Only the cache looks here.
  struct Upkeep {
    enum class State : uint8_t { Absent, Loading, Resident } state = State::Absent;
    bool pinned = false;              ///< never leaves to make room
    bool seen = false;                ///< was uploaded before
    bool chosen = false;              ///< runs only where ids choose it (rows of an embedding, experts)
    uint64_t last_use = 0;            ///< when a step used it last, by the cache's clock
    uint64_t route = 0;               ///< which route `stops` belongs to
    std::vector<uint32_t> stops;      ///< where on that route it is used
  } upkeep;
};
using TileRef = std::shared_ptr<Tile>;

/// A tensor as the kernels see it: `rows` rows of `k` weights; a 3-D tensor's matrices follow one another.
struct Tensor {
  std::string name;
  gguf::Type type = gguf::Type::F32;   ///< on the GPU (vectors become F32)
  gguf::RowLayout layout;
  uint64_t k = 0, rows = 0, matrices = 1;   ///< rows over all matrices
  uint64_t rows_per_matrix() const { return rows / matrices; }
  const gguf::TensorInfo* info = nullptr;
  std::vector<TileRef> tiles;
};
using TensorRef = std::shared_ptr<const Tensor>;

/// The tensor as the GPU has it, cut into tiles of at most `max_bytes`; where `by_matrix`, each matrix of a 3-D tensor is a
/// tile of its own. Errors: a type the kernels lack, an empty tensor, a row larger than a tile.
Result<TensorRef> cut(const gguf::File& file, const gguf::TensorInfo& info, uint64_t max_bytes, bool by_matrix);
/// Bytes of the whole tensor on the GPU as one tile, 0 where it cannot be laid out.
uint64_t gpu_bytes(const gguf::TensorInfo& info);

/// Whether `prefix` is the name or its leading dotted parts: "blk.1" is one of "blk.1.attn_q.weight", not of "blk.10.…".
/// The empty prefix is one of every name.
bool has_prefix(std::string_view name, std::string_view prefix);
/// N of "blk.N.…", or −1.
int64_t layer_of(std::string_view name);

inline uint64_t Tile::elements() const { return tensor ? rows * tensor->k : 0; }

}  // namespace gull::weights
