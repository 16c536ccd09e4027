// What the types with a code book share. The book (gguf/iq_tables.h) follows the rows in the buffer.
#pragma once

namespace gull::kernels::decode {

/// Shared by these types: entry i of the code book that ends the buffer, and the signs.
inline constexpr const char* kCodeBook = R"(
fn grid$S$(i: u32) -> u32 {
  let w = i >> 1u;
  return W$S$[arrayLength(&W$S$) - $TABLE$ + (w >> 2u)][w & 3u] >> ((i & 1u) * 16u);
}
fn signed$S$(v: vec4<f32>, minus: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ ((vec4<u32>(minus) << vec4<u32>(31u, 30u, 29u, 28u)) & vec4<u32>(0x80000000u)));
}
fn even$S$(seven: u32) -> u32 { let s = seven & 127u; return s | ((countOneBits(s) & 1u) << 7u); }
)";

}  // namespace gull::kernels::decode
