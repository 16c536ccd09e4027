// Matrix × vector with 8-bit activations: the decode kernel of fast mode. Private to src/kernels.
#pragma once

#include "kernels/matvec.h"
#include "kernels/ops.h"

namespace gull::kernels {

/// What else a dispatch does with its rows, besides matvec.h's epilogues.
struct Matvec8 {
  Matvec base;
  gpu::BufferRef x8;            ///< the input already quantised (blocks of dot8.h); null: quantise base.x in the kernel
  gpu::BufferRef squares;       ///< with x8 and a norm: Σ of squares of each 32 of x; x8 then already holds x times the norm's weights
  gpu::BufferRef y8;            ///< also write the result quantised; null: no
  weights::TensorRef next_norm; ///< with y8: quantise y times these weights,
  gpu::BufferRef y_squares;     ///< and write the sum of squares of each 32 of y
  /// Words of the chain's area (dispatch/chain.h), 0: none. x8 and y8 stand there with the sum of squares of each block in
  /// its last word. Taken: x8, and what y held; put: y8, and y (with rope: q, k and v as the cache will hold them).
  struct Words { uint32_t x8 = 0, y = 0; } taken, put;
  const RopeKv* rope = nullptr; ///< outputs are q, k, v: rotate q and k, write k and v to the cache
  const KvLayer* kv = nullptr;
};

/// The projection that was recorded last: rope_kv may take it over into one dispatch (recorder.h: Recorder::last).
struct LastProjection {
  Matvec8 matvec;
  size_t steps = 0;             ///< length of the Plan just after it
};
/// Replaces the projection into `qkv` that was recorded just before by one that also rotates q and k and writes the cache.
/// False, and nothing recorded, where that cannot be.
bool fuse_heads(Recorder& r, const Rows& qkv, const RopeKv& options, const KvLayer& kv);

/// Whether these weights, sizes and this device can use it.
bool matvec8_fits(const Recorder& r, const Matvec8& m);
void matvec8(Recorder& r, const Matvec8& m);

}  // namespace gull::kernels
