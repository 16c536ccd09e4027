// IQ3_XXS and IQ3_S: 256 weights a block; an entry of the code book is four weights, with signs of its own.
#pragma once

namespace gull::kernels::decode {

/// w = d·(sc + ½)/2·entry; fields of four bits mean 4 + 8·f, but 62 for 7. For each 32 weights: eight bytes of entries, and a
/// word of four times seven signs (eight weights each) and sc on top. Planes: 64 bytes of entries and the words 96, d 2.
inline constexpr const char* kIQ3_XXS = R"(
fn four$S$(entry: u32, minus: u32, d: f32) -> vec4<f32> {
  let f = (vec4<u32>(entry) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  return signed$S$(vec4<f32>(vec4<u32>(4u) + f * 8u + select(vec4<u32>(0u), vec4<u32>(2u), f == vec4<u32>(7u))) * d, minus);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let g = kb & 7u;
  let s = word$S$(rb, block * 96u + 64u + g * 4u);
  let d = half$S$(rb, $P1$ + block * 2u) * (f32(s >> 28u) + 0.5) * 0.5;
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let q = word$S$(rb, block * 96u + g * 8u + (j & 2u) * 2u) >> ((j & 1u) * 16u);
    let m = even$S$(s >> (7u * j));
    out[2u * j] = four$S$(grid$S$(q & 255u), m, d);
    out[2u * j + 1u] = four$S$(grid$S$((q >> 8u) & 255u), m >> 4u, d);
  }
  return out;
}
)";

/// w = d·(1 + 2·sc)·entry with 4-bit sc for each 32 weights; fields of four bits mean 1 + 2·f; nine bits of entry.
/// Planes: 64 low bytes, signs 32, the ninth bits 8 and scales 4 (12 in all), d 2.
inline constexpr const char* kIQ3_S = R"(
fn four$S$(entry: u32, minus: u32, d: f32) -> vec4<f32> {
  let f = (vec4<u32>(entry) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
  return signed$S$(vec4<f32>(vec4<u32>(1u) + f * 2u) * d, minus);
}
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let g = kb & 7u;
  let s = word$S$(rb, $P1$ + block * 32u + g * 4u);
  let qh = byte$S$(rb, $P2$ + block * 12u + g);
  let sc = byte$S$(rb, $P2$ + block * 12u + 8u + (g >> 1u)) >> ((g & 1u) * 4u);
  let d = half$S$(rb, $P3$ + block * 2u) * f32(1u + 2u * (sc & 15u));
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let q = word$S$(rb, block * 64u + g * 8u + (j & 2u) * 2u) >> ((j & 1u) * 16u);
    let h = qh >> (2u * j);
    let m = s >> (8u * j);
    out[2u * j] = four$S$(grid$S$((q & 255u) | ((h & 1u) << 8u)), m, d);
    out[2u * j + 1u] = four$S$(grid$S$(((q >> 8u) & 255u) | ((h & 2u) << 7u)), m >> 4u, d);
  }
  return out;
}
)";

}  // namespace gull::kernels::decode
