// Matrix × matrix: many tokens' projections. Private to src/kernels.
#pragma once

#include <optional>

#include "kernels/ops.h"

namespace gull::kernels {

/// A tile of `m` tokens × `n` rows a workgroup; each thread computes tm × tn results.
struct MatmulShape { uint32_t m = 32, n = 64, tm = 4, tn = 4; };

MatmulShape matmul_shape(const gpu::Caps& caps, uint32_t max_tokens, const Tuning& tuning = {});
/// The shape that computes this tile; none: there is no such one.
std::optional<MatmulShape> matmul_shape(const Tuning::Tile& tile);
/// Bytes of workgroup memory.
uint32_t matmul_memory(const MatmulShape& shape);
/// y (+)= x·Wᵀ (+ bias) for one tile of the weight.
void matmul_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add,
                 MatmulShape shape);

}  // namespace gull::kernels
