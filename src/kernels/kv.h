// How kernels read and write the KV cache. Private to src/kernels.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace gull::kernels {

/// The WGSL element type of a cache binding: four floats a time ("vec4<f32>"), packed halves ("vec2<u32>"), or words ("u32").
std::string kv_element(KvType type);
/// Functions that kv_load's expressions call.
std::string kv_helpers(KvType type);
/// An expression for the four floats at element `index` (floats ÷ 4) of the binding `name`. It evaluates `index` several times.
std::string kv_load(KvType type, std::string_view name, std::string_view index);
/// Statements that store the head in workgroup memory `h` (floats) at position `pos`, by 64 threads `t`: into K where `is_k`,
/// else into V; without `values` always into K.
std::string kv_write(KvType type, bool values);

}  // namespace gull::kernels
