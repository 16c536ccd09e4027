// How kernels read and write the KV cache. Private to src/kernels.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace gull::kernels {

/// The WGSL element type of a cache binding: four floats a time ("vec4<f32>"), or packed halves ("vec2<u32>").
std::string kv_element(KvType type);
/// An expression for the four floats at element `index` of the binding `name`.
std::string kv_load(KvType type, std::string_view name, std::string_view index);

/// Bytes of one position of one layer (keys or values alone).
uint64_t kv_row_bytes(KvType type, uint32_t heads, uint32_t head_dim);

}  // namespace gull::kernels
