// Attention of many tokens at a time. Private to src/kernels.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// Whether a tile of queries and one of keys fit into this device's workgroup memory.
bool attention_tile_fits(const Recorder& r, const KvLayer& kv);
void attention_tile(Recorder& r, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y);

}  // namespace gull::kernels
