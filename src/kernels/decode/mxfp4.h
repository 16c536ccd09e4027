// MXFP4: four-bit floats with a power of two for each 32.
#pragma once

namespace gull::kernels::decode {

/// 32 weights a block, w = 2^(e − 127)·q with 4-bit floats (E2M1: sign, 2 bits of exponent, 1 of mantissa) as OCP's
/// Microscaling Formats 1.0 say; nibbles as in Q4_0. Planes: qs 16, e 1.
/// The doubled magnitudes 0 1 2 3 4 6 8 12 are the nibbles of one word, and half the scale goes with them. (For e < 2 it is
/// subnormal: a GPU that flushes it makes weights below 10⁻³⁷ zero.)
inline constexpr const char* kMXFP4 = R"(
fn e2m1$S$(v: u32) -> vec4<f32> {
  let q = vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u);
  let m = (vec4<u32>(0xc8643210u) >> ((q & vec4<u32>(7u)) * 4u)) & vec4<u32>(15u);
  let f = vec4<f32>(m);
  return select(f, -f, (q & vec4<u32>(8u)) != vec4<u32>(0u));
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let e = byte$S$(rb, $P1$ + kb);
  let d = bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u));
  return array<vec4<f32>, 8>(e2m1$S$(q.x) * d, e2m1$S$(q.y) * d, e2m1$S$(q.z) * d, e2m1$S$(q.w) * d,
    e2m1$S$(q.x >> 4u) * d, e2m1$S$(q.y >> 4u) * d, e2m1$S$(q.z >> 4u) * d, e2m1$S$(q.w >> 4u) * d);
}
)";

}  // namespace gull::kernels::decode
