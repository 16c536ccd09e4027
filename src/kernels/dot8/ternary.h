// TQ1_0 and TQ2_0: weights −d, 0 and d.
#pragma once

namespace gull::kernels::dot8_types {

/// Planes: qs 48, qh 4, d 2; decode/ternary.h says how digits of base 3 lie in a byte. Two bytes at a time are multiplied in
/// the halves of a word. Units 0 and 1 of a block are the digits 0 to 3 of the first 32 bytes; unit 2 is their last digit and
/// two of the other 16 bytes; unit 3 the other three, and qh.
inline constexpr const char* kUnitTQ1_0 = R"(
fn lane$S$(v: vec4<u32>, power: vec4<u32>) -> vec4<u32> {
  let k = vec4<u32>(0x00ff00ffu);
  return (((((v & k) * power) & k) * 3u) >> vec4<u32>(8u)) & k;
}
fn digit$S$(v: vec4<u32>, power: vec4<u32>) -> vec4<u32> {
  return lane$S$(v, power) | (lane$S$(v >> vec4<u32>(8u), power) << vec4<u32>(8u));
}
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let at = rb + block * 3u;
  var r: R8;
  r.a = W$S$[at];
  r.b = W$S$[at + 1u];
  r.c = W$S$[at + 2u];
  r.e.x = wd$S$(rb, $P1$ + block * 4u);
  r.e.y = wd$S$(rb, $P2$ + (block & 0xfffffffeu) * 2u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let p = u & 3u;
  let dd = unpack2x16float(r.e.y);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u);
  let s = vec4<f32>(d, -d, d, -d);
  if (p < 2u) {
    let n = vec4<u32>(select(1u, 9u, p == 1u));
    return U8(digit$S$(r.a, n), digit$S$(r.b, n), digit$S$(r.a, n * 3u), digit$S$(r.b, n * 3u), s);
  }
  if (p == 2u) {
    return U8(digit$S$(r.a, vec4<u32>(81u)), digit$S$(r.b, vec4<u32>(81u)), digit$S$(r.c, vec4<u32>(1u)), digit$S$(r.c, vec4<u32>(3u)), s);
  }
  return U8(digit$S$(r.c, vec4<u32>(9u)), digit$S$(r.c, vec4<u32>(27u)), digit$S$(r.c, vec4<u32>(81u)),
               digit$S$(vec4<u32>(r.e.x), vec4<u32>(1u, 3u, 9u, 27u)), s);
}
)";

/// Two bits as in Q2_K. Planes: qs 64, d 2.
inline constexpr const char* kUnitTQ2_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let at = rb + (u >> 1u) * 2u;
  var r: R8;
  r.a = W$S$[at];
  r.b = W$S$[at + 1u];
  r.e.x = wd$S$(rb, $P1$ + ((u >> 2u) & 0xfffffffeu) * 2u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x03030303u);
  let sh = vec4<u32>((u & 1u) * 4u);
  let a = r.a >> sh;
  let b = r.b >> sh;
  let two = vec4<u32>(2u);
  let dd = unpack2x16float(r.e.x);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u);
  return U8(a & k, b & k, (a >> two) & k, (b >> two) & k, vec4<f32>(d, -d, d, -d));
}
)";

}  // namespace gull::kernels::dot8_types
