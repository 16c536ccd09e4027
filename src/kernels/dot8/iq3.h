// IQ3_XXS and IQ3_S: 256 weights a block; an entry of the code book is four weights, with signs of its own.
#pragma once

namespace gull::kernels::dot8_types {

/// Fields of four bits mean 4 + 8·f, but 62 for 7. For each 32 weights: eight bytes of entries, and a word of four times seven
/// signs (eight weights each) and sc on top. Planes: 64 bytes of entries and the words 96, d 2.
inline constexpr const char* kUnitIQ3_XXS = R"(
fn value$S$(i: u32, m: u32) -> u32 {
  let f = fours$S$(grid$S$(i & 255u));
  return minus$S$(0x04040404u + f * 8u + (((f + 0x01010101u) >> 2u) & 0x02020202u), m);
}
fn half$S$(q: u32, s: u32) -> vec4<u32> {
  let m = even$S$(s);
  let n = even$S$(s >> 7u);
  return vec4<u32>(value$S$(q, m), value$S$(q >> 8u, m >> 4u), value$S$(q >> 16u, n), value$S$(q >> 24u, n >> 4u));
}
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let at = block * 96u + 64u + (u & 3u) * 8u;
  var r: R8;
  r.a = W$S$[rb + block * 6u + (u & 3u)];
  r.e = vec4<u32>(wd$S$(rb, at), wd$S$(rb, at + 4u), wd$S$(rb, $P1$ + (block & 0xfffffffeu) * 2u), 0u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let dd = unpack2x16float(r.e.z);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u) * 0.5;
  return U8(half$S$(r.a.x, r.e.x), half$S$(r.a.y, r.e.x >> 14u), half$S$(r.a.z, r.e.y), half$S$(r.a.w, r.e.y >> 14u),
               vec4<f32>(d * (f32(r.e.x >> 28u) + 0.5), 0.0, d * (f32(r.e.y >> 28u) + 0.5), 0.0));
}
)";

/// Fields of four bits mean 1 + 2·f; nine bits of entry, 4-bit sc for each 32 weights. Planes: 64 low bytes, signs 32, the
/// ninth bits 8 and scales 4 (12 in all), d 2.
inline constexpr const char* kUnitIQ3_S = R"(
fn value$S$(i: u32, ninth: u32, m: u32) -> u32 {
  return minus$S$(0x01010101u + fours$S$(grid$S$((i & 255u) | ((ninth & 1u) << 8u))) * 2u, m);
}
fn half$S$(q: u32, h: u32, s: u32) -> vec4<u32> {
  return vec4<u32>(value$S$(q, h, s), value$S$(q >> 8u, h >> 1u, s >> 4u), value$S$(q >> 16u, h >> 2u, s >> 8u), value$S$(q >> 24u, h >> 3u, s >> 12u));
}
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let p = u & 3u;
  let at = $P1$ + block * 32u + p * 8u;
  let more = $P2$ + block * 12u;
  var r: R8;
  r.a = W$S$[rb + u];
  r.b.x = wd$S$(rb, more + 8u) >> (p * 8u);
  r.e = vec4<u32>(wd$S$(rb, at), wd$S$(rb, at + 4u), wd$S$(rb, more + p * 2u) >> ((p & 1u) * 16u), wd$S$(rb, $P3$ + (block & 0xfffffffeu) * 2u));
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let dd = unpack2x16float(r.e.w);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u);
  let h = r.e.z;
  return U8(half$S$(r.a.x, h, r.e.x), half$S$(r.a.y, h >> 4u, r.e.x >> 16u), half$S$(r.a.z, h >> 8u, r.e.y), half$S$(r.a.w, h >> 12u, r.e.y >> 16u),
               vec4<f32>(d * f32(1u + 2u * (r.b.x & 15u)), 0.0, d * f32(1u + 2u * ((r.b.x >> 4u) & 15u)), 0.0));
}
)";

}  // namespace gull::kernels::dot8_types
