// Matrix × matrix: many tokens' projections. Private to src/kernels.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// A tile of `m` tokens × `n` rows a workgroup; each thread computes tm × tn results.
struct MatmulShape { uint32_t m = 32, n = 64, tm = 4, tn = 4; };

MatmulShape matmul_shape(const gpu::Caps& caps, uint32_t max_tokens);
/// y (+)= x·Wᵀ (+ bias) for one tile of the weight.
void matmul_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add,
                 MatmulShape shape);

}  // namespace gull::kernels
