// Plain numbers: no blocks; rows are padded with zeros to 32 weights.
#pragma once

namespace gull::kernels::decode {

/// 128 bytes for 32 weights.
inline constexpr const char* kF32 = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let b = rb + kb * 8u;
  return array<vec4<f32>, 8>(bitcast<vec4<f32>>(W$S$[b]), bitcast<vec4<f32>>(W$S$[b + 1u]), bitcast<vec4<f32>>(W$S$[b + 2u]),
    bitcast<vec4<f32>>(W$S$[b + 3u]), bitcast<vec4<f32>>(W$S$[b + 4u]), bitcast<vec4<f32>>(W$S$[b + 5u]),
    bitcast<vec4<f32>>(W$S$[b + 6u]), bitcast<vec4<f32>>(W$S$[b + 7u]));
}
)";

/// 64 bytes for 32 weights.
inline constexpr const char* kF16 = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  var out: array<vec4<f32>, 8>;
  for (var i = 0u; i < 4u; i++) {
    let v = W$S$[rb + kb * 4u + i];
    out[2u * i] = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
    out[2u * i + 1u] = vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
  }
  return out;
}
)";

/// bfloat16 is the upper half of a float32.
inline constexpr const char* kBF16 = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  var out: array<vec4<f32>, 8>;
  for (var i = 0u; i < 4u; i++) {
    let v = W$S$[rb + kb * 4u + i];
    let lo = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let hi = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    out[2u * i] = vec4<f32>(lo.x, hi.x, lo.y, hi.y);
    out[2u * i + 1u] = vec4<f32>(lo.z, hi.z, lo.w, hi.w);
  }
  return out;
}
)";

}  // namespace gull::kernels::decode
