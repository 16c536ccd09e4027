// TQ1_0 and TQ2_0: weights −d, 0 and d.
#pragma once

namespace gull::kernels::decode {

/// Super-blocks of 256: w = d·(t − 1). A byte holds up to five base-3 digits as a fraction of 256: times 3^n modulo 256 moves
/// digit n to the top, and times 3 then carries it out. Planes: qs 48, qh 4, d 2. Digit n of the first 32 bytes of qs are the
/// weights from 32·n, digit n of the next 16 those from 160 + 16·n, digit n of the 4 bytes of qh those from 240 + 4·n.
inline constexpr const char* kTQ1_0 = R"(
fn digit$S$(v: u32, power: vec4<u32>) -> vec4<f32> {
  let moved = (((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) * power) & vec4<u32>(255u);
  return vec4<f32>((moved * 3u) >> vec4<u32>(8u)) - vec4<f32>(1.0);
}
fn power$S$(n: u32) -> vec4<u32> {
  return vec4<u32>(select(select(1u, 3u, (n & 1u) != 0u), select(9u, 27u, (n & 1u) != 0u), n >= 2u) * select(1u, 9u, n >= 4u));
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let s = kb & 7u;
  let at = rb + block * 3u;
  let d = half$S$(rb, $P2$ + block * 2u);
  let a = W$S$[at + select(2u, 0u, s < 5u)];
  let b = W$S$[at + select(2u, 1u, s < 5u)];
  let p = power$S$(select((s - 5u) * 2u, s, s < 5u));
  let q = power$S$(select((s - 5u) * 2u + 1u, s, s < 5u));
  if (s == 7u) {
    // The fifth digit of 16 bytes, then the four digits of qh.
    let h = word$S$(rb, $P1$ + block * 4u);
    return array<vec4<f32>, 8>(digit$S$(a.x, p) * d, digit$S$(a.y, p) * d, digit$S$(a.z, p) * d, digit$S$(a.w, p) * d,
      digit$S$(h, vec4<u32>(1u)) * d, digit$S$(h, vec4<u32>(3u)) * d, digit$S$(h, vec4<u32>(9u)) * d, digit$S$(h, vec4<u32>(27u)) * d);
  }
  return array<vec4<f32>, 8>(digit$S$(a.x, p) * d, digit$S$(a.y, p) * d, digit$S$(a.z, p) * d, digit$S$(a.w, p) * d,
    digit$S$(b.x, q) * d, digit$S$(b.y, q) * d, digit$S$(b.z, q) * d, digit$S$(b.w, q) * d);
}
)";

/// Super-blocks of 256: w = d·(q − 1), two bits as in Q2_K. Planes: qs 64, d 2.
inline constexpr const char* kTQ2_0 = R"(
fn two$S$(v: u32) -> vec4<f32> { return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(3u)) - vec4<f32>(1.0); }
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let s = kb & 7u;
  let at = rb + block * 4u + (s >> 2u) * 2u;
  let sh = vec4<u32>((s & 3u) * 2u);
  let a = W$S$[at] >> sh;
  let b = W$S$[at + 1u] >> sh;
  let d = half$S$(rb, $P1$ + block * 2u);
  return array<vec4<f32>, 8>(two$S$(a.x) * d, two$S$(a.y) * d, two$S$(a.z) * d, two$S$(a.w) * d,
    two$S$(b.x) * d, two$S$(b.y) * d, two$S$(b.z) * d, two$S$(b.w) * d);
}
)";

}  // namespace gull::kernels::decode
