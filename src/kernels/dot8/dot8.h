// Integer dot products: for each tensor type, WGSL that multiplies 64 weights of a row with 64 activations held as 8-bit
// integers (dot4I8Packed), four multiplications an instruction.
//
// Activations come in blocks of 32, three vec4<u32> each: 32 signed bytes in two, then the bits of (d, s0, s1, 0) as f32:
// value = d·q, s0 and s1 are d·Σq over the first and the last 16. Σ lets a type with an offset (q − 8, or a minimum) be
// multiplied as plain unsigned numbers and corrected afterwards. d is the largest magnitude ÷ 127, found by comparing bits: float
// maxima may pass over what is not a number, whose bits are the largest. So a block with such a number is NaN as a whole.
#pragma once

#include <string>
#include <string_view>

#include "gguf/row_layout.h"
#include "gull/error.h"

namespace gull::kernels {

//
// One token's blocks lie in planes instead, so that threads with neighbouring units read neighbouring 16 bytes: all first 16
// bytes, all second 16 bytes, all (d, s0, s1, 0); in each plane first the even blocks, then the odd ones (place8).

/// Bytes of one block of 32 quantised activations.
inline constexpr uint32_t kBlock8Bytes = 48, kBlock8Words = kBlock8Bytes / 4;

/// WGSL for one bound tensor `W<suffix>` (array<vec4<u32>>, rows in the GPU layout; a type with a code book is bound to
/// the end of the tile's buffer):
///   fn l8<suffix>(rb: u32, u: u32) -> R8
/// asks memory for unit `u` (64 weights) of the row starting at vec4 number `rb`,
///   fn qm<suffix>(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32
/// is its dot product with two blocks of activations,
///   fn qa<suffix>(u: u32) -> vec2<u32>
/// which two blocks those are, and
///   fn qi<suffix>(u: u32) -> vec2<u32>
/// where these are in the planes of one token. Needs k to be a multiple of 64, and unit8_structs() before it.
/// Errors: a type that has none.
Result<std::string> dot8(const gguf::RowLayout& layout, std::string_view suffix);
bool has_dot8(gguf::Type type);

/// WGSL: four signed bytes as a word, the first in the lowest bits.
inline constexpr std::string_view kPack8 =
    "fn pk(q: vec4<i32>) -> u32 { let v = vec4<u32>(q) & vec4<u32>(0xffu); return v.x | (v.y << 8u) | (v.z << 16u) | (v.w << 24u); }\n";

/// WGSL: the place of block `b` in each plane, of `blocks` in all.
inline std::string place8(std::string_view b, uint32_t blocks) {
  return "((" + std::string(b) + ") / 2u + (" + std::string(b) + ") % 2u * " + std::to_string((blocks + 1) / 2) + "u)";
}

/// WGSL that unpacks a unit to be multiplied with several tokens, with unit8_structs() before it:
///   struct R8 { a, b, c, d, e: vec4<u32> }, struct U8 { q0, q1, q2, q3: vec4<u32>, s: vec4<f32> }
///   fn l8<suffix>(rb: u32, u: u32) -> R8   loads it,
///   fn t8<suffix>(r: R8, u: u32) -> U8     unpacks what was loaded
/// q0, q1 are the signed bytes of the first block of 32 weights, q2, q3 of the second, with what is taken off all weights of a type
/// taken off, so that a product need not; s is for scales8. And qa as above.
Result<std::string> unpack8(const gguf::RowLayout& layout, std::string_view suffix);
/// R8 and U8, once a shader.
std::string_view unit8_structs();

/// Whether the type has a minimum for each 16 weights. Then product8 takes (d, s0, s1) of a block of activations and three numbers
/// of a block of weights, as vec4; else (d, s0 + s1) and two, as vec2.
bool has_minima8(gguf::Type type);
/// The WGSL expression, a vec4, of the scales of block `h` (0 or 1) of a unit whose U8.s is `s`.
std::string scales8(gguf::Type type, int h, std::string_view s);
/// The WGSL expression of `c` + the product of a block of weights with one of activations: `p`, `q` are the weights' bytes (q0 and
/// q1, or q2 and q3), `w` their scales, `a` and `b` the activations' bytes, `s` their scales: all names. Uses helpers of unpack8.
std::string product8(gguf::Type type, std::string_view suffix, std::string_view p, std::string_view q, std::string_view w,
                     std::string_view a, std::string_view b, std::string_view s, std::string_view c);

}  // namespace gull::kernels
