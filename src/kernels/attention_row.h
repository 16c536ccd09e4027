// Attention of one token by independent subgroups. Private to src/kernels.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// Whether subgroups of at least 32 and the cache's type and head size allow it.
bool attention_row_fits(const Recorder& r, const KvLayer& kv);
/// What a link of a chain takes and puts (dispatch/chain.h): the rows of q, k and v of the token, and the result quantised; 0: neither.
struct AttentionWords { uint32_t qkv = 0, y8 = 0; };
/// WGSL of the kernel, of `threads` a workgroup. `direct`: the finished row goes to y (and, with `quantise`, to Y8); else the parts for the merge.
std::string attention_row_source(const gpu::Caps& caps, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y, bool direct, bool quantise,
                                 uint32_t threads, const AttentionWords& words);
/// Threads of a workgroup where it is no link.
inline constexpr uint32_t kAttentionRowThreads = 512;

/// The part of [0, kv) that the token at `pos` sees: `start` and `end`.
std::string range_text(const Attention& a);
/// What a sink adds to the finished row: a logit that takes weight and gives no value.
std::string sink_text(bool sinks);

}  // namespace gull::kernels
