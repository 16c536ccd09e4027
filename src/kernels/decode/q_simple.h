// 32 weights a block and one scale (and minimum). Weights j and j + 16 share byte j of qs: low and high nibble.
#pragma once

namespace gull::kernels::decode {

/// w = d·(q − 8); weights j and j + 16 share byte j. Planes: qs 16, d 2.
inline constexpr const char* kQ4_0 = R"(
fn nib$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u)); }
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let d = half$S$(rb, $P1$ + kb * 2u);
  let m = vec4<f32>(-8.0 * d);
  return array<vec4<f32>, 8>(nib$S$(q.x) * d + m, nib$S$(q.y) * d + m, nib$S$(q.z) * d + m, nib$S$(q.w) * d + m,
    nib$S$(q.x >> 4u) * d + m, nib$S$(q.y >> 4u) * d + m, nib$S$(q.z >> 4u) * d + m, nib$S$(q.w >> 4u) * d + m);
}
)";

/// w = d·q + m. Planes: qs 16, (d, m) 4.
inline constexpr const char* kQ4_1 = R"(
fn nib$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u)); }
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let dm = unpack2x16float(word$S$(rb, $P1$ + kb * 4u));
  let d = dm.x;
  let m = vec4<f32>(dm.y);
  return array<vec4<f32>, 8>(nib$S$(q.x) * d + m, nib$S$(q.y) * d + m, nib$S$(q.z) * d + m, nib$S$(q.w) * d + m,
    nib$S$(q.x >> 4u) * d + m, nib$S$(q.y >> 4u) * d + m, nib$S$(q.z >> 4u) * d + m, nib$S$(q.w >> 4u) * d + m);
}
)";

/// w = d·(q − 16), the fifth bit of weight j is bit j of qh. Planes: qs 16, qh 4, d 2.
inline constexpr const char* kQ5_0 = R"(
fn five$S$(v: u32, h: u32) -> vec4<f32> {
  let lo = (vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
  let hi = ((vec4<u32>(h) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
  return vec4<f32>(lo | hi);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let h = word$S$(rb, $P1$ + kb * 4u);
  let d = half$S$(rb, $P2$ + kb * 2u);
  let m = vec4<f32>(-16.0 * d);
  return array<vec4<f32>, 8>(five$S$(q.x, h) * d + m, five$S$(q.y, h >> 4u) * d + m, five$S$(q.z, h >> 8u) * d + m,
    five$S$(q.w, h >> 12u) * d + m, five$S$(q.x >> 4u, h >> 16u) * d + m, five$S$(q.y >> 4u, h >> 20u) * d + m,
    five$S$(q.z >> 4u, h >> 24u) * d + m, five$S$(q.w >> 4u, h >> 28u) * d + m);
}
)";

/// w = d·q + m with five bits, as in Q5_0. Planes: qs 16, qh 4, (d, m) 4.
inline constexpr const char* kQ5_1 = R"(
fn five$S$(v: u32, h: u32) -> vec4<f32> {
  let lo = (vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
  let hi = ((vec4<u32>(h) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
  return vec4<f32>(lo | hi);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let h = word$S$(rb, $P1$ + kb * 4u);
  let dm = unpack2x16float(word$S$(rb, $P2$ + kb * 4u));
  let d = dm.x;
  let m = vec4<f32>(dm.y);
  return array<vec4<f32>, 8>(five$S$(q.x, h) * d + m, five$S$(q.y, h >> 4u) * d + m, five$S$(q.z, h >> 8u) * d + m,
    five$S$(q.w, h >> 12u) * d + m, five$S$(q.x >> 4u, h >> 16u) * d + m, five$S$(q.y >> 4u, h >> 20u) * d + m,
    five$S$(q.z >> 4u, h >> 24u) * d + m, five$S$(q.w >> 4u, h >> 28u) * d + m);
}
)";

/// w = d·q with signed bytes. Planes: qs 32, d 2.
inline constexpr const char* kQ8_0 = R"(
fn oct$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<i32>(i32(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)); }
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let a = W$S$[rb + kb * 2u];
  let b = W$S$[rb + kb * 2u + 1u];
  let d = half$S$(rb, $P1$ + kb * 2u);
  return array<vec4<f32>, 8>(oct$S$(a.x) * d, oct$S$(a.y) * d, oct$S$(a.z) * d, oct$S$(a.w) * d,
    oct$S$(b.x) * d, oct$S$(b.y) * d, oct$S$(b.z) * d, oct$S$(b.w) * d);
}
)";

}  // namespace gull::kernels::decode
