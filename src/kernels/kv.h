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

/// Whether heads are mixed before they are stored: a Walsh–Hadamard transform of as many numbers as the largest power of two
/// that divides a head spreads outliers over a block of few bits. Products of mixed queries and keys are those of the plain
/// ones; a mixture of mixed values is unmixed afterwards. With 4 bits this quarters the divergence (SmolLM2: 0.15 → 0.04).
bool kv_mixes(KvType type);
/// Statements that mix the head of `head_dim` floats in workgroup memory `h`, by 64 threads `t`; all of them must come by, after
/// a barrier, and leave after one.
std::string kv_mix(uint32_t head_dim);
/// The same for the results of attention, in place.
void kv_unmix(Recorder& r, const Rows& y, uint32_t heads, uint32_t head_dim);

}  // namespace gull::kernels
