// The WGSL of each type's decoder. $S$ is the suffix of the tensor, $P1$…$P3$ the byte offsets of the row's planes.
// Block layouts: ggml's formats as documented in docs/gguf.md and ggml-common's struct definitions; the row-planar order
// is that of gguf/row_layout.h.
#pragma once

#include "kernels/wgsl.h"

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

/// Super-blocks of 256: w = d·sc·q − dmin·m with 6-bit sc, m for each 32 weights. As in the file: d, dmin, 12 bytes of
/// scales, 128 bytes where sub-blocks 2i and 2i+1 share 32 bytes (low and high nibbles).
inline constexpr const char* kQ4_K = R"(
fn nib$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u)); }
fn scale_min$S$(head: vec4<u32>, s: u32) -> vec2<f32> {
  let sh = (s & 3u) * 8u;
  let a = (head.y >> sh) & 0xffu;
  let b = (head.z >> sh) & 0xffu;
  let c = (head.w >> sh) & 0xffu;
  let low = vec2<u32>(a & 63u, b & 63u);
  let high = vec2<u32>((c & 15u) | ((a >> 6u) << 4u), (c >> 4u) | ((b >> 6u) << 4u));
  return vec2<f32>(select(low, high, s >= 4u));
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let base = rb + (kb >> 3u) * 9u;
  let s = kb & 7u;
  let head = W$S$[base];
  let dm = unpack2x16float(head.x) * scale_min$S$(head, s);
  let sh = (s & 1u) * 4u;
  let a = W$S$[base + 1u + (s >> 1u) * 2u] >> vec4<u32>(sh);
  let b = W$S$[base + 2u + (s >> 1u) * 2u] >> vec4<u32>(sh);
  let d = dm.x;
  let m = vec4<f32>(-dm.y);
  return array<vec4<f32>, 8>(nib$S$(a.x) * d + m, nib$S$(a.y) * d + m, nib$S$(a.z) * d + m, nib$S$(a.w) * d + m,
    nib$S$(b.x) * d + m, nib$S$(b.y) * d + m, nib$S$(b.z) * d + m, nib$S$(b.w) * d + m);
}
)";

/// Super-blocks of 256: w = d·sc·(q − 32), 8-bit sc for each 16 weights. Planes: ql 128, qh 64, sc 16, d 2.
/// In each half of 128, sub-block s takes the nibbles (s ≥ 2: high) of 32 bytes of ql and two bits of qh.
inline constexpr const char* kQ6_K = R"(
fn six$S$(l: u32, h: u32) -> vec4<f32> {
  let lo = (vec4<u32>(l) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
  let hi = ((vec4<u32>(h) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(3u)) << vec4<u32>(4u);
  return vec4<f32>(lo | hi) - vec4<f32>(32.0);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let h = (kb >> 2u) & 1u;
  let s = kb & 3u;
  let lb = rb + block * 8u + h * 4u + (s & 1u) * 2u;
  let hb = rb + $P1$ / 16u + block * 4u + h * 2u;
  let ls = vec4<u32>((s >> 1u) * 4u);
  let hs = vec4<u32>(s * 2u);
  let l0 = W$S$[lb] >> ls;
  let l1 = W$S$[lb + 1u] >> ls;
  let h0 = W$S$[hb] >> hs;
  let h1 = W$S$[hb + 1u] >> hs;
  let d = half$S$(rb, $P3$ + block * 2u);
  let sc = word$S$(rb, $P2$ + block * 16u + h * 8u + (s & 2u) * 2u) >> ((s & 1u) * 16u);
  let a = d * f32(i32(sc << 24u) >> 24u);
  let b = d * f32(i32(sc << 16u) >> 24u);
  return array<vec4<f32>, 8>(six$S$(l0.x, h0.x) * a, six$S$(l0.y, h0.y) * a, six$S$(l0.z, h0.z) * a, six$S$(l0.w, h0.w) * a,
    six$S$(l1.x, h1.x) * b, six$S$(l1.y, h1.y) * b, six$S$(l1.z, h1.z) * b, six$S$(l1.w, h1.w) * b);
}
)";

}  // namespace gull::kernels::decode
