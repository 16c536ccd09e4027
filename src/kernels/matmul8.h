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

/// x in blocks of 8-bit integers (dot8.h), tokens one after another; made once for all projections of it.
gpu::BufferRef quantised(Recorder& r, const Rows& x);
/// Leaves norm(x) quantised as the twin of `normed`, whose own memory is not written: for products that read the twin.
void quantise_normed(Recorder& r, const Rows& x, const Norm& n, const Rows& normed);
/// y = activation(a) ⊙ b, and its twin.
void quantise_gated(Recorder& r, Activation activation, const Rows& a, const Rows& b, const Rows& y);

}  // namespace gull::kernels
