// IQ2_XXS, IQ2_XS, IQ2_S: 256 weights a block; an entry of the code book is eight weights, with signs of its own.
#pragma once

namespace gull::kernels::dot8_types {

/// Sixteen weights of the entries i and j: fields of two bits that mean 8, 25, 43.
inline constexpr const char* kIq2Entries = R"(
fn value$S$(e: u32, m: u32) -> u32 {
  let f = twos$S$(e);
  return minus$S$(0x08080808u + f * 17u + ((f >> 1u) & 0x01010101u), m);
}
fn pair$S$(i: u32, m: u32, j: u32, n: u32) -> vec4<u32> {
  let e = grid$S$(i);
  let f = grid$S$(j);
  return vec4<u32>(value$S$(e, m), value$S$(e >> 8u, m >> 4u), value$S$(f, n), value$S$(f >> 8u, n >> 4u));
}
)";

/// For each 32 weights: four bytes of entries, a word of four times seven signs and sc on top. Planes: those 64, d 2.
inline constexpr const char* kUnitIQ2_XXS = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + u];
  r.e.x = wd$S$(rb, $P1$ + ((u >> 2u) & 0xfffffffeu) * 2u);
  return r;
}
fn half$S$(q: u32, s: u32) -> vec4<u32> { return pair$S$(q & 255u, even$S$(s), (q >> 8u) & 255u, even$S$(s >> 7u)); }
fn u8$S$(r: R8, u: u32) -> U8 {
  let dd = unpack2x16float(r.e.x);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u) * 0.25;
  return U8(half$S$(r.a.x, r.a.y), half$S$(r.a.x >> 16u, r.a.y >> 14u), half$S$(r.a.z, r.a.w), half$S$(r.a.z >> 16u, r.a.w >> 14u),
               vec4<f32>(d * (f32(r.a.y >> 28u) + 0.5), 0.0, d * (f32(r.a.w >> 28u) + 0.5), 0.0));
}
)";

/// 4-bit sc for each 16 weights. Planes: 32 × 16 bits (nine of entry, seven of signs) 64, scales 8, d 2.
inline constexpr const char* kUnitIQ2_XS = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + u];
  r.e.x = wd$S$(rb, $P1$ + u * 2u) >> ((u & 1u) * 16u);
  r.e.y = wd$S$(rb, $P2$ + ((u >> 2u) & 0xfffffffeu) * 2u);
  return r;
}
fn half$S$(q: u32) -> vec4<u32> { return pair$S$(q & 511u, even$S$(q >> 9u), (q >> 16u) & 511u, even$S$(q >> 25u)); }
fn u8$S$(r: R8, u: u32) -> U8 {
  let dd = unpack2x16float(r.e.y);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u) * 0.25;
  let sc = (vec4<u32>(r.e.x) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  return U8(half$S$(r.a.x), half$S$(r.a.y), half$S$(r.a.z), half$S$(r.a.w), d * (vec4<f32>(sc) + vec4<f32>(0.5)));
}
)";

/// As IQ2_XS with ten bits of entry and eight of signs. Planes: 32 low bytes and 32 bytes of signs 64; the entries' upper two
/// bits 8 and scales 8 (16 in all); d 2.
inline constexpr const char* kUnitIQ2_S = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let p = u & 3u;
  let at = block * 64u + p * 8u;
  let more = $P1$ + block * 16u + p * 2u;
  var r: R8;
  r.a = vec4<u32>(wd$S$(rb, more) >> ((p & 1u) * 16u), wd$S$(rb, more + 8u) >> ((p & 1u) * 16u), wd$S$(rb, $P2$ + (block & 0xfffffffeu) * 2u), 0u);
  r.e = vec4<u32>(wd$S$(rb, at), wd$S$(rb, at + 4u), wd$S$(rb, at + 32u), wd$S$(rb, at + 36u));
  return r;
}
fn half$S$(q: u32, s: u32, h: u32) -> vec4<u32> {
  return pair$S$((q & 255u) | ((h & 3u) << 8u), s, ((q >> 8u) & 255u) | ((h & 12u) << 6u), s >> 8u);
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let dd = unpack2x16float(r.a.z);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u) * 0.25;
  let sc = (vec4<u32>(r.a.y) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  return U8(half$S$(r.e.x, r.e.z, r.a.x), half$S$(r.e.x >> 16u, r.e.z >> 16u, r.a.x >> 4u), half$S$(r.e.y, r.e.w, r.a.x >> 8u),
               half$S$(r.e.y >> 16u, r.e.w >> 16u, r.a.x >> 12u), d * (vec4<f32>(sc) + vec4<f32>(0.5)));
}
)";

}  // namespace gull::kernels::dot8_types
