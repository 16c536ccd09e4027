// IQ4_NL and IQ4_XS: a nibble picks one of sixteen values.
#pragma once

namespace gull::kernels::decode {

/// The sixteen values of IQ4_NL and IQ4_XS, plus 127, four bytes a word; picked by selects, which every compiler keeps in registers.
inline constexpr const char* kIq4Values = R"(
fn nl$S$(v: u32) -> vec4<f32> {
  let q = vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u);
  let b2 = (q & vec4<u32>(4u)) != vec4<u32>(0u);
  let b3 = (q & vec4<u32>(8u)) != vec4<u32>(0u);
  let low = select(vec4<u32>(0x3e2c1700u), vec4<u32>(0x75695c4eu), b2);
  let high = select(vec4<u32>(0xa5988c80u), vec4<u32>(0xf0d8c4b4u), b2);
  return vec4<f32>((select(low, high, b3) >> ((q & vec4<u32>(3u)) * 8u)) & vec4<u32>(255u)) - vec4<f32>(127.0);
}
)";

/// 32 weights a block, w = d·value[q]; nibbles as in Q4_0. Planes: qs 16, d 2.
inline constexpr const char* kIQ4_NL = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let d = half$S$(rb, $P1$ + kb * 2u);
  return array<vec4<f32>, 8>(nl$S$(q.x) * d, nl$S$(q.y) * d, nl$S$(q.z) * d, nl$S$(q.w) * d,
    nl$S$(q.x >> 4u) * d, nl$S$(q.y >> 4u) * d, nl$S$(q.z >> 4u) * d, nl$S$(q.w >> 4u) * d);
}
)";

/// Super-blocks of 256: w = d·(sc − 32)·value[q] with 6-bit sc for each 32 weights. Planes: qs 128; 8 bytes: d, the scales'
/// upper two bits (16 bits), their lower four (32 bits).
inline constexpr const char* kIQ4_XS = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = W$S$[rb + kb];
  let s = kb & 7u;
  let at = $P1$ + (kb >> 3u) * 8u;
  let head = word$S$(rb, at);
  let low = (word$S$(rb, at + 4u) >> (s * 4u)) & 15u;
  let high = (head >> (16u + s * 2u)) & 3u;
  let d = unpack2x16float(head).x * (f32(low | (high << 4u)) - 32.0);
  return array<vec4<f32>, 8>(nl$S$(q.x) * d, nl$S$(q.y) * d, nl$S$(q.z) * d, nl$S$(q.w) * d,
    nl$S$(q.x >> 4u) * d, nl$S$(q.y >> 4u) * d, nl$S$(q.z >> 4u) * d, nl$S$(q.w >> 4u) * d);
}
)";

}  // namespace gull::kernels::decode
