// The K types: 256 weights a block, in groups of 16 or 32 with small scales of their own.
#pragma once

namespace gull::kernels::decode {

/// Super-blocks of 256: w = d·sc·q − dmin·m with 4-bit sc (low) and m (high half of a byte) for each 16 weights.
/// Planes: qs 64, scales 16, (d, dmin) 4. In each half of 128 weights, sub-block s takes bits 2s, 2s+1 of the half's 32 bytes.
inline constexpr const char* kQ2_K = R"(
fn two$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(3u)); }
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let s = kb & 7u;
  let at = rb + block * 4u + (s >> 2u) * 2u;
  let sh = vec4<u32>((s & 3u) * 2u);
  let a = W$S$[at] >> sh;
  let b = W$S$[at + 1u] >> sh;
  let sc = word$S$(rb, $P1$ + block * 16u + (s >> 1u) * 4u) >> ((s & 1u) * 16u);
  let dm = unpack2x16float(word$S$(rb, $P2$ + block * 4u));
  let d0 = dm.x * f32(sc & 15u);
  let d1 = dm.x * f32((sc >> 8u) & 15u);
  let m0 = vec4<f32>(-dm.y * f32((sc >> 4u) & 15u));
  let m1 = vec4<f32>(-dm.y * f32((sc >> 12u) & 15u));
  return array<vec4<f32>, 8>(two$S$(a.x) * d0 + m0, two$S$(a.y) * d0 + m0, two$S$(a.z) * d0 + m0, two$S$(a.w) * d0 + m0,
    two$S$(b.x) * d1 + m1, two$S$(b.y) * d1 + m1, two$S$(b.z) * d1 + m1, two$S$(b.w) * d1 + m1);
}
)";

/// Super-blocks of 256: w = d·(sc − 32)·(q − 4) with 6-bit sc for each 16 weights. Planes: qs 64, hmask 32, scales 12, d 2.
/// q: two bits of qs as in Q2_K, and above them bit s (the weight's group of 32) of byte i mod 32 of hmask.
/// Scale g (0–15): low four bits in byte g mod 8 (g ≥ 8: high half), high two in byte 8 + g mod 4 at bit 2·⌊g ÷ 4⌋.
inline constexpr const char* kQ3_K = R"(
fn three$S$(l: u32, h: u32) -> vec4<f32> {
  let lo = (vec4<u32>(l) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(3u);
  let hi = ((vec4<u32>(h) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(1u)) << vec4<u32>(2u);
  return vec4<f32>(lo | hi) - vec4<f32>(4.0);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let s = kb & 7u;
  let lb = rb + block * 4u + (s >> 2u) * 2u;
  let hb = rb + $P1$ / 16u + block * 2u;
  let ls = vec4<u32>((s & 3u) * 2u);
  let hs = vec4<u32>(s);
  let l0 = W$S$[lb] >> ls;
  let l1 = W$S$[lb + 1u] >> ls;
  let h0 = W$S$[hb] >> hs;
  let h1 = W$S$[hb + 1u] >> hs;
  let at = $P2$ + block * 12u;
  let low = word$S$(rb, at + (s & 2u) * 2u) >> ((s & 1u) * 16u + (s >> 2u) * 4u);
  let high = word$S$(rb, at + 8u) >> ((s & 1u) * 16u + (s >> 1u) * 2u);
  let d = half$S$(rb, $P3$ + block * 2u);
  let a = d * (f32((low & 15u) | ((high & 3u) << 4u)) - 32.0);
  let b = d * (f32(((low >> 8u) & 15u) | (((high >> 8u) & 3u) << 4u)) - 32.0);
  return array<vec4<f32>, 8>(three$S$(l0.x, h0.x) * a, three$S$(l0.y, h0.y) * a, three$S$(l0.z, h0.z) * a, three$S$(l0.w, h0.w) * a,
    three$S$(l1.x, h1.x) * b, three$S$(l1.y, h1.y) * b, three$S$(l1.z, h1.z) * b, three$S$(l1.w, h1.w) * b);
}
)";

/// Super-blocks of 256: w = d·sc·q − dmin·m with 6-bit sc, m for each 32 weights. Sub-blocks 2i and 2i+1 share 32 bytes (low
/// and high nibbles). Planes: the first 16 of each such 32, the second 16, (d, dmin and 12 bytes of scales).
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
  let s = kb & 7u;
  let head = W$S$[rb + $P2$ / 16u + (kb >> 3u)];
  let dm = unpack2x16float(head.x) * scale_min$S$(head, s);
  let sh = (s & 1u) * 4u;
  let a = W$S$[rb + (kb >> 1u)] >> vec4<u32>(sh);
  let b = W$S$[rb + $P1$ / 16u + (kb >> 1u)] >> vec4<u32>(sh);
  let d = dm.x;
  let m = vec4<f32>(-dm.y);
  return array<vec4<f32>, 8>(nib$S$(a.x) * d + m, nib$S$(a.y) * d + m, nib$S$(a.z) * d + m, nib$S$(a.w) * d + m,
    nib$S$(b.x) * d + m, nib$S$(b.y) * d + m, nib$S$(b.z) * d + m, nib$S$(b.w) * d + m);
}
)";

/// As Q4_K, with a fifth bit: bit s of byte i mod 32 of qh. Planes: as Q4_K, with qh 32 before the last.
inline constexpr const char* kQ5_K = R"(
fn five$S$(l: u32, h: u32) -> vec4<f32> {
  let lo = (vec4<u32>(l) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
  let hi = ((vec4<u32>(h) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(1u)) << vec4<u32>(4u);
  return vec4<f32>(lo | hi);
}
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
  let s = kb & 7u;
  let head = W$S$[rb + $P3$ / 16u + (kb >> 3u)];
  let dm = unpack2x16float(head.x) * scale_min$S$(head, s);
  let sh = vec4<u32>((s & 1u) * 4u);
  let a = W$S$[rb + (kb >> 1u)] >> sh;
  let b = W$S$[rb + $P1$ / 16u + (kb >> 1u)] >> sh;
  let hb = rb + $P2$ / 16u + (kb >> 3u) * 2u;
  let g = W$S$[hb] >> vec4<u32>(s);
  let h = W$S$[hb + 1u] >> vec4<u32>(s);
  let d = dm.x;
  let m = vec4<f32>(-dm.y);
  return array<vec4<f32>, 8>(five$S$(a.x, g.x) * d + m, five$S$(a.y, g.y) * d + m, five$S$(a.z, g.z) * d + m, five$S$(a.w, g.w) * d + m,
    five$S$(b.x, h.x) * d + m, five$S$(b.y, h.y) * d + m, five$S$(b.z, h.z) * d + m, five$S$(b.w, h.w) * d + m);
}
)";

/// Super-blocks of 256: w = d·sc·(q − 32), 8-bit sc for each 16 weights. Planes: the first 16 of each 32 bytes of ql, the
/// second 16, qh 64, sc 16, d 2.
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
  let lb = rb + block * 4u + h * 2u + (s & 1u);
  let hb = rb + $P2$ / 16u + block * 4u + h * 2u;
  let ls = vec4<u32>((s >> 1u) * 4u);
  let hs = vec4<u32>(s * 2u);
  let l0 = W$S$[lb] >> ls;
  let l1 = W$S$[lb + $P1$ / 16u] >> ls;
  let h0 = W$S$[hb] >> hs;
  let h1 = W$S$[hb + 1u] >> hs;
  let d = half$S$(rb, $P4$ + block * 2u);
  let sc = word$S$(rb, $P3$ + block * 16u + h * 8u + (s & 2u) * 2u) >> ((s & 1u) * 16u);
  let a = d * f32(i32(sc << 24u) >> 24u);
  let b = d * f32(i32(sc << 16u) >> 24u);
  return array<vec4<f32>, 8>(six$S$(l0.x, h0.x) * a, six$S$(l0.y, h0.y) * a, six$S$(l0.z, h0.z) * a, six$S$(l0.w, h0.w) * a,
    six$S$(l1.x, h1.x) * b, six$S$(l1.y, h1.y) * b, six$S$(l1.z, h1.z) * b, six$S$(l1.w, h1.w) * b);
}
)";

}  // namespace gull::kernels::decode
