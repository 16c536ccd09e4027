// IQ1_S and IQ1_M: 256 weights a block; an entry of the code book is eight weights of −1, 0 or 1.
#pragma once

namespace gull::kernels::dot8_types {

/// Sixteen weights of two entries. A weight and its delta (⅛ or −⅛) are 8·field − 8 ± 1 eighths; the byte is nine more.
inline constexpr const char* kIq1Entries = R"(
fn eighths$S$(i: u32, above: bool, j: u32, beyond: bool) -> vec4<u32> {
  let e = grid$S$(i);
  let f = grid$S$(j);
  let m = select(0u, 0x02020202u, above);
  let n = select(0u, 0x02020202u, beyond);
  return vec4<u32>(twos$S$(e) * 8u + m, twos$S$(e >> 8u) * 8u + m, twos$S$(f) * 8u + n, twos$S$(f >> 8u) * 8u + n);
}
)";

/// Planes: 32 low bytes of entries; for each 32 weights 16 bits (four times three upper bits, 3-bit sc, sign of delta) 16; d 2.
inline constexpr const char* kUnitIQ1_S = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.e = vec4<u32>(wd$S$(rb, u * 8u), wd$S$(rb, u * 8u + 4u), wd$S$(rb, $P1$ + u * 4u), wd$S$(rb, $P2$ + ((u >> 2u) & 0xfffffffeu) * 2u));
  return r;
}
fn half$S$(q: u32, h: u32) -> vec4<u32> {
  let above = (h & 0x8000u) == 0u;
  return eighths$S$((q & 255u) | ((h & 7u) << 8u), above, ((q >> 8u) & 255u) | (((h >> 3u) & 7u) << 8u), above);
}
fn other$S$(q: u32, h: u32) -> vec4<u32> { return half$S$(q >> 16u, ((h >> 6u) & 63u) | (h & 0x8000u)); }
fn u8$S$(r: R8, u: u32) -> U8 {
  let h = r.e.z >> 16u;
  let dd = unpack2x16float(r.e.w);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u) * 0.125;
  let x = d * f32(2u * ((r.e.z >> 12u) & 7u) + 1u);
  let y = d * f32(2u * ((h >> 12u) & 7u) + 1u);
  return U8(half$S$(r.e.x, r.e.z), other$S$(r.e.x, r.e.z), half$S$(r.e.y, h), other$S$(r.e.y, h), vec4<f32>(x, -9.0 * x, y, -9.0 * y));
}
)";

/// The same with a nibble for each eight weights (three upper bits, sign of delta) and 3-bit sc for each 16; the f16 d is
/// spread over the top nibbles of the scales' four words. Planes: 32 low bytes, nibbles 16, scales 8.
inline constexpr const char* kUnitIQ1_M = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let at = $P2$ + (u >> 2u) * 8u;
  var r: R8;
  r.a.x = wd$S$(rb, at);
  r.a.y = wd$S$(rb, at + 4u);
  r.e = vec4<u32>(wd$S$(rb, u * 8u), wd$S$(rb, u * 8u + 4u), wd$S$(rb, $P1$ + u * 4u), 0u);
  return r;
}
fn half$S$(q: u32, n: u32) -> vec4<u32> {
  return eighths$S$((q & 255u) | ((n & 7u) << 8u), (n & 8u) == 0u, ((q >> 8u) & 255u) | ((n & 0x70u) << 4u), (n & 0x80u) == 0u);
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let p = u & 3u;
  let top = (r.a.xy >> vec2<u32>(12u)) & vec2<u32>(0x000f000fu);
  let d = unpack2x16float(((top.x | (top.x >> 12u)) & 255u) | (((top.y | (top.y >> 12u)) & 255u) << 8u)).x * 0.125;
  let sc = (vec4<u32>(select(r.a.x, r.a.y, p >= 2u) >> ((p & 1u) * 16u)) >> vec4<u32>(0u, 3u, 6u, 9u)) & vec4<u32>(7u);
  return U8(half$S$(r.e.x, r.e.z), half$S$(r.e.x >> 16u, r.e.z >> 8u), half$S$(r.e.y, r.e.z >> 16u), half$S$(r.e.y >> 16u, r.e.z >> 24u),
               d * vec4<f32>(2u * sc + vec4<u32>(1u)));
}
)";

}  // namespace gull::kernels::dot8_types
