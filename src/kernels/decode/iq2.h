// IQ2_XXS, IQ2_XS, IQ2_S: 256 weights a block; an entry of the code book is eight weights, with signs of its own.
#pragma once

namespace gull::kernels::decode {

/// Four weights of an entry: fields of two bits that mean 8, 25, 43.
inline constexpr const char* kIq2Entry = R"(
fn four$S$(entry: u32, minus: u32, d: f32) -> vec4<f32> {
  let f = (vec4<u32>(entry) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
  return signed$S$(vec4<f32>(vec4<u32>(8u) + f * 17u + (f >> vec4<u32>(1u))) * d, minus);
}
)";

/// w = d·(sc + ½)/4·entry. For each 32 weights: four bytes of entries, a word of four times seven signs and sc on top.
/// Planes: those 64, d 2.
inline constexpr const char* kIQ2_XXS = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = word$S$(rb, kb * 8u);
  let s = word$S$(rb, kb * 8u + 4u);
  let d = half$S$(rb, $P1$ + (kb >> 3u) * 2u) * (f32(s >> 28u) + 0.5) * 0.25;
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let e = grid$S$((q >> (8u * j)) & 255u);
    let m = even$S$(s >> (7u * j));
    out[2u * j] = four$S$(e, m, d);
    out[2u * j + 1u] = four$S$(e >> 8u, m >> 4u, d);
  }
  return out;
}
)";

/// w = d·(sc + ½)/4·entry with 4-bit sc for each 16 weights. Planes: 32 × 16 bits (nine of entry, seven of signs) 64,
/// scales 8, d 2.
inline constexpr const char* kIQ2_XS = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let q = vec2<u32>(word$S$(rb, kb * 8u), word$S$(rb, kb * 8u + 4u));
  let sc = byte$S$(rb, $P1$ + kb);
  let d = half$S$(rb, $P2$ + (kb >> 3u) * 2u);
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let h = select(q.x, q.y, j >= 2u) >> ((j & 1u) * 16u);
    let db = d * (f32((sc >> ((j >> 1u) * 4u)) & 15u) + 0.5) * 0.25;
    let e = grid$S$(h & 511u);
    let m = even$S$(h >> 9u);
    out[2u * j] = four$S$(e, m, db);
    out[2u * j + 1u] = four$S$(e >> 8u, m >> 4u, db);
  }
  return out;
}
)";

/// As IQ2_XS with ten bits of entry and eight of signs. Planes: 32 low bytes and 32 bytes of signs 64; the entries' upper two
/// bits 8 and scales 8 (16 in all); d 2.
inline constexpr const char* kIQ2_S = R"(
fn dq$S$(rb: u32, kb: u32) -> array<vec4<f32>, 8> {
  let block = kb >> 3u;
  let g = kb & 7u;
  let q = word$S$(rb, block * 64u + g * 4u);
  let s = word$S$(rb, block * 64u + 32u + g * 4u);
  let qh = byte$S$(rb, $P1$ + block * 16u + g);
  let sc = byte$S$(rb, $P1$ + block * 16u + 8u + g);
  let d = half$S$(rb, $P2$ + block * 2u);
  var out: array<vec4<f32>, 8>;
  for (var j = 0u; j < 4u; j++) {
    let db = d * (f32((sc >> ((j >> 1u) * 4u)) & 15u) + 0.5) * 0.25;
    let e = grid$S$(((q >> (8u * j)) & 255u) | (((qh >> (2u * j)) & 3u) << 8u));
    let m = s >> (8u * j);
    out[2u * j] = four$S$(e, m, db);
    out[2u * j + 1u] = four$S$(e >> 8u, m >> 4u, db);
  }
  return out;
}
)";

}  // namespace gull::kernels::decode
