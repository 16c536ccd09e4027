// Matrix × matrix with 8-bit activations: the prefill kernel of fast mode. Private to src/kernels.
#pragma once

#include <span>

#include "kernels/ops.h"

namespace gull::kernels {

/// Whether this projection, device and the options can use it.
bool matmul8_fits(const Recorder& r, const Rows& x, const Projection& p);
/// y (+)= x·Wᵀ (+ bias) for each projection, of the tile that it names or of its weight's only one, in one dispatch where the
/// device has bindings enough; quantises x first, unless that stands already.
void matmul8(Recorder& r, const Rows& x, std::span<const Projection> outputs, bool add);

/// Bytes of workgroup memory that a tile takes, for most types: a type for which that is more than there is gets another tile.
uint32_t matmul8_memory(const Tuning::Tile& tile);

}  // namespace gull::kernels
