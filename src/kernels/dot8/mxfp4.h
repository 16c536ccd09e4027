// MXFP4: four-bit floats with a power of two for each 32.
#pragma once

namespace gull::kernels::dot8_types {

/// Nibbles as in Q4_0, E2M1. Planes: qs 16, e 1. A byte is twelve more than the doubled weight, so that no byte is negative
/// on the way; the offset takes it back.
inline constexpr const char* kUnitMXFP4 = R"(
fn e2m1$S$(q: vec4<u32>) -> vec4<u32> {
  let one = vec4<u32>(0x01010101u);
  let b1 = ((q >> vec4<u32>(1u)) & one) * 255u;
  let b2 = ((q >> vec4<u32>(2u)) & one) * 255u;
  let b3 = ((q >> vec4<u32>(3u)) & one) * 255u;
  let x = vec4<u32>(0x04040404u) + (q & one) * 2u;
  let m = (q & vec4<u32>(0x03030303u) & ~b2) | ((x + (x & b1)) & b2);
  return vec4<u32>(0x0c0c0c0cu) + (m & ~b3) - (m & b3);
}
fn e8$S$(e: u32) -> f32 { return bitcast<f32>(select((e - 1u) << 23u, 0x00200000u << e, e < 2u)); }
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 2u) >> ((u & 1u) * 16u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let four = vec4<u32>(4u);
  let d = e8$S$(r.e.x & 255u);
  let e = e8$S$((r.e.x >> 8u) & 255u);
  return U8(e2m1$S$(r.a), e2m1$S$(r.a >> four), e2m1$S$(r.b), e2m1$S$(r.b >> four), vec4<f32>(d, -12.0 * d, e, -12.0 * e));
}
)";

}  // namespace gull::kernels::dot8_types
