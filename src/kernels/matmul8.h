// Matrix × matrix with 8-bit activations: the prefill kernel of fast mode. Private to src/kernels.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// Whether this projection, device and the options can use it.
bool matmul8_fits(const Recorder& r, const Rows& x, const Projection& p);
/// y (+)= x·Wᵀ (+ bias) for one tile of the weight; quantises x first, unless that stands already.
void matmul8_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add);

}  // namespace gull::kernels
