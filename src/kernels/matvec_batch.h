// A few tokens at once (2 to 16): weights are read and unpacked as for one token, and multiplied with several. Private to
// src/kernels.
#pragma once

#include "kernels/matvec.h"
#include "kernels/ops.h"

namespace gull::kernels {

/// A dispatch for a few tokens: base.x is normalised already.
struct MatvecBatch {
  Matvec base;
  bool packed = false;      ///< 8-bit activations (dot8.h)
  gpu::BufferRef y8;        ///< with a gated pair: also leave the result quantised; null: no
};

/// Whether the Plan is for a few tokens, and these weights, sizes and this device can use it. Float activations need k to be a
/// multiple of 32.
bool matvec_batch_fits(const Recorder& r, const MatvecBatch& m);
void matvec_batch(Recorder& r, const MatvecBatch& m);

}  // namespace gull::kernels
