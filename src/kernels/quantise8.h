// Activations of several tokens as 8-bit integers. Private to src/kernels.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace gull::kernels {

/// Where the blocks of 32 (dot8.h) of several tokens lie. A few tokens: token after token, each as a single
/// one lies, so that the threads of a row read neighbouring memory. Many: all tokens' first vec4 of a block, then their second,
/// then their third, block after block, so that the threads of a tile, which load neighbouring tokens, read neighbouring memory
/// (on an H200 the loads of a tile were half of its time).
struct Place8 {
  uint32_t blocks = 0, tokens = 0;
  bool minor = false;

  /// WGSL: the vec4 number of block `b` of token `m`; its others follow `step()` apart.
  std::string at(std::string_view b, std::string_view m) const;
  uint32_t step() const { return minor ? tokens : blocks; }
  /// Fills $PLACE$ and its like into a kernel's text.
  std::string fill(std::string_view text) const;
  /// The grid of a kernel with a thread a block: along tokens or along blocks, as memory lies; 64 threads.
  dispatch::Count grid_x() const;
  dispatch::Count grid_y() const;
};
Place8 place8(const Recorder& r, uint32_t width);

/// Where x stands quantised, besides: one token's blocks in a decode Plan, else as large as any Plan of the session wants it.
gpu::BufferRef block_buffer(Recorder& r, const Rows& x);
/// x in blocks of 8-bit integers; made once for all projections of it.
gpu::BufferRef quantised(Recorder& r, const Rows& x);
/// Leaves norm(x) quantised as the twin of `normed`, whose own memory is not written: for products that read the twin.
void quantise_normed(Recorder& r, const Rows& x, const Norm& n, const Rows& normed);
/// y = activation(a) ⊙ b, and its twin.
void quantise_gated(Recorder& r, Activation activation, const Rows& a, const Rows& b, const Rows& y);

}  // namespace gull::kernels
