// What the types with a code book share; decode/code_book.h reads the book itself.
#pragma once

namespace gull::kernels::dot8_types {

/// Fields of an entry become bytes: two bits each (eight, as two words), or four bits each. `signed` negates the bytes whose
/// bit in `minus` is set; they must not be zero.
inline constexpr const char* kFields = R"(
fn twos$S$(e: u32) -> u32 {
  let x = ((e & 0xffu) | (e << 12u)) & 0x000f000fu;
  return (x | (x << 6u)) & 0x03030303u;
}
fn fours$S$(e: u32) -> u32 {
  let x = ((e & 0xffffu) | (e << 8u)) & 0x00ff00ffu;
  return (x | (x << 4u)) & 0x0f0f0f0fu;
}
fn minus$S$(v: u32, minus: u32) -> u32 {
  let n = ((minus & 15u) * 0x00204081u) & 0x01010101u;
  return (v ^ (n * 255u)) + n;
}
)";

}  // namespace gull::kernels::dot8_types
