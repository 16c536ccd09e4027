// IQ1_S and IQ1_M: 256 weights a block; an entry of the code book is eight weights of −1, 0 or 1.
#pragma once

namespace gull::kernels::decode {

/// Four weights of an entry: fields of two bits that mean −1, 0, 1, all moved by delta (⅛ or −⅛).
inline constexpr const char* kIq1Entry = R"(
fn four$S$(entry: u32, delta: f32, d: f32) -> vec4<f32> {
  let f = (vec4<u32>(entry) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
  return (vec4<f32>(f) + vec4<f32>(delta - 1.0)) * d;
}
)";

/// w = d·(2·sc + 1)·(entry + delta). Planes: 32 low bytes of entries; for each 32 weights 16 bits (four times three upper bits,
/// 3-bit sc, sign of delta) 16; d 2.
inline constexpr const char* kIQ1_S = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = word$S$(rb, kb * 4u);
  let h = word$S$(rb, $P1$ + kb * 2u) >> ((kb & 1u) * 16u);
  let d = half$S$(rb, $P2$ + (kb >> 3u) * 2u) * f32(2u * ((h >> 12u) & 7u) + 1u);
  let delta = select(0.125, -0.125, (h & 0x8000u) != 0u);
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let e = grid$S$(((q >> (8u * j)) & 255u) | (((h >> (3u * j)) & 7u) << 8u));
    out[2u * j] = four$S$(e, delta, d);
    out[2u * j + 1u] = four$S$(e >> 8u, delta, d);
  }
  return out;
}
)";

/// The same with a nibble for each eight weights (three upper bits, sign of delta) and 3-bit sc for each 16; the f16 d is
/// spread over the top nibbles of the scales' four words. Planes: 32 low bytes, nibbles 16, scales 8.
inline constexpr const char* kIQ1_M = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let g = kb & 7u;
  let q = word$S$(rb, kb * 4u);
  let h = word$S$(rb, $P1$ + kb * 2u) >> ((kb & 1u) * 16u);
  let s = vec2<u32>(word$S$(rb, $P2$ + block * 8u), word$S$(rb, $P2$ + block * 8u + 4u));
  let top = (s >> vec2<u32>(12u)) & vec2<u32>(0x000f000fu);
  let bits = ((top.x | (top.x >> 12u)) & 255u) | (((top.y | (top.y >> 12u)) & 255u) << 8u);
  let d = unpack2x16float(bits).x;
  let sc = select(s.x, s.y, g >= 4u) >> (((g >> 1u) & 1u) * 16u + (g & 1u) * 6u);
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let n = h >> (4u * j);
    let e = grid$S$(((q >> (8u * j)) & 255u) | ((n & 7u) << 8u));
    let db = d * f32(2u * ((sc >> ((j >> 1u) * 3u)) & 7u) + 1u);
    let delta = select(0.125, -0.125, (n & 8u) != 0u);
    out[2u * j] = four$S$(e, delta, db);
    out[2u * j + 1u] = four$S$(e >> 8u, delta, db);
  }
  return out;
}
)";

}  // namespace gull::kernels::decode
