// 32 weights a block and one scale (and minimum). Weights j and j + 16 share byte j of qs: low and high nibble.
#pragma once

namespace gull::kernels::dot8_types {

/// Planes: qs 16, d 2.
inline constexpr const char* kQ4_0 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  let i = d4$S$(r.a & m, a0) + d4$S$((r.a >> vec4<u32>(4u)) & m, a1);
  let j = d4$S$(r.b & m, a2) + d4$S$((r.b >> vec4<u32>(4u)) & m, a3);
  return d.x * (sa.x * f32(i) - 8.0 * (sa.y + sa.z)) + d.y * (sb.x * f32(j) - 8.0 * (sb.y + sb.z));
}
)";
inline constexpr const char* kUnitQ4_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  return U8(r.a & m, (r.a >> vec4<u32>(4u)) & m, r.b & m, (r.b >> vec4<u32>(4u)) & m, vec4<f32>(d.x, -8.0 * d.x, d.y, -8.0 * d.y));
}
)";

/// Planes: qs 16, (d, m) 4.
inline constexpr const char* kQ4_1 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  let e = unpack2x16float(r.e.y);
  let i = d4$S$(r.a & m, a0) + d4$S$((r.a >> vec4<u32>(4u)) & m, a1);
  let j = d4$S$(r.b & m, a2) + d4$S$((r.b >> vec4<u32>(4u)) & m, a3);
  return d.x * sa.x * f32(i) + d.y * (sa.y + sa.z) + e.x * sb.x * f32(j) + e.y * (sb.y + sb.z);
}
)";
inline constexpr const char* kUnitQ4_1 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 8u);
  r.e.y = wd$S$(rb, $P1$ + u * 8u + 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  return U8(r.a & m, (r.a >> vec4<u32>(4u)) & m, r.b & m, (r.b >> vec4<u32>(4u)) & m,
            vec4<f32>(unpack2x16float(r.e.x), unpack2x16float(r.e.y)));
}
)";

/// The fifth bits of Q5_0 and Q5_1: bit 4 of sixteen bytes. The multiplication spreads four bits of qh to bit 0 of four bytes.
inline constexpr const char* kFifthBits = R"(
fn hi$S$(h: u32, i: u32) -> u32 { return ((((h >> (4u * i)) & 15u) * 0x00204081u) & 0x01010101u) << 4u; }
fn hv$S$(h: u32, i: u32) -> vec4<u32> { return vec4<u32>(hi$S$(h, i), hi$S$(h, i + 1u), hi$S$(h, i + 2u), hi$S$(h, i + 3u)); }
)";

/// Planes: qs 16, qh 4, d 2.
inline constexpr const char* kQ5_0 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.z);
  let i = d4$S$((r.a & m) | hv$S$(r.e.x, 0u), a0) + d4$S$(((r.a >> vec4<u32>(4u)) & m) | hv$S$(r.e.x, 4u), a1);
  let j = d4$S$((r.b & m) | hv$S$(r.e.y, 0u), a2) + d4$S$(((r.b >> vec4<u32>(4u)) & m) | hv$S$(r.e.y, 4u), a3);
  return d.x * (sa.x * f32(i) - 16.0 * (sa.y + sa.z)) + d.y * (sb.x * f32(j) - 16.0 * (sb.y + sb.z));
}
)";
inline constexpr const char* kUnitQ5_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 8u);
  r.e.y = wd$S$(rb, $P1$ + u * 8u + 4u);
  r.e.z = wd$S$(rb, $P2$ + u * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.z);
  return U8((r.a & m) | hv$S$(r.e.x, 0u), ((r.a >> vec4<u32>(4u)) & m) | hv$S$(r.e.x, 4u), (r.b & m) | hv$S$(r.e.y, 0u),
            ((r.b >> vec4<u32>(4u)) & m) | hv$S$(r.e.y, 4u), vec4<f32>(d.x, -16.0 * d.x, d.y, -16.0 * d.y));
}
)";

/// Planes: qs 16, qh 4, (d, m) 4.
inline constexpr const char* kUnitQ5_1 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e = vec4<u32>(wd$S$(rb, $P1$ + u * 8u), wd$S$(rb, $P1$ + u * 8u + 4u), wd$S$(rb, $P2$ + u * 8u), wd$S$(rb, $P2$ + u * 8u + 4u));
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  return U8((r.a & m) | hv$S$(r.e.x, 0u), ((r.a >> vec4<u32>(4u)) & m) | hv$S$(r.e.x, 4u), (r.b & m) | hv$S$(r.e.y, 0u),
               ((r.b >> vec4<u32>(4u)) & m) | hv$S$(r.e.y, 4u), vec4<f32>(unpack2x16float(r.e.z), unpack2x16float(r.e.w)));
}
)";

/// Planes: qs 32, d 2.
inline constexpr const char* kQ8_0 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let d = unpack2x16float(r.e.x);
  let i = d4$S$(r.a, a0) + d4$S$(r.b, a1);
  let j = d4$S$(r.c, a2) + d4$S$(r.d, a3);
  return d.x * sa.x * f32(i) + d.y * sb.x * f32(j);
}
)";
inline constexpr const char* kUnitQ8_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let b = rb + 4u * u;
  return R8(W$S$[b], W$S$[b + 1u], W$S$[b + 2u], W$S$[b + 3u], vec4<u32>(wd$S$(rb, $P1$ + u * 4u), 0u, 0u, 0u));
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let d = unpack2x16float(r.e.x);
  return U8(r.a, r.b, r.c, r.d, vec4<f32>(d.x, 0.0, d.y, 0.0));
}
)";

}  // namespace gull::kernels::dot8_types
