// IQ4_NL and IQ4_XS: a nibble picks one of sixteen values.
#pragma once

namespace gull::kernels::dot8_types {

/// The values of sixteen nibbles, all bytes at once: each bit of the nibble halves what is left of the table.
inline constexpr const char* kIq4Values = R"(
fn pick$S$(a: vec4<u32>, b: vec4<u32>, m: vec4<u32>) -> vec4<u32> { return a ^ ((a ^ b) & m); }
fn two$S$(a: u32, b: u32, m: vec4<u32>) -> vec4<u32> { return vec4<u32>(a) ^ (vec4<u32>(a ^ b) & m); }
fn mask$S$(q: vec4<u32>, bit: u32) -> vec4<u32> { return ((q >> vec4<u32>(bit)) & vec4<u32>(0x01010101u)) * 255u; }
fn nl$S$(q: vec4<u32>) -> vec4<u32> {
  let m0 = mask$S$(q, 0u);
  let m1 = mask$S$(q, 1u);
  let m2 = mask$S$(q, 2u);
  let low = pick$S$(pick$S$(two$S$(0x81818181u, 0x98989898u, m0), two$S$(0xadadadadu, 0xbfbfbfbfu, m0), m1),
                    pick$S$(two$S$(0xcfcfcfcfu, 0xddddddddu, m0), two$S$(0xeaeaeaeau, 0xf6f6f6f6u, m0), m1), m2);
  let high = pick$S$(pick$S$(two$S$(0x01010101u, 0x0d0d0d0du, m0), two$S$(0x19191919u, 0x26262626u, m0), m1),
                     pick$S$(two$S$(0x35353535u, 0x45454545u, m0), two$S$(0x59595959u, 0x71717171u, m0), m1), m2);
  return pick$S$(low, high, mask$S$(q, 3u));
}
)";

/// Nibbles as in Q4_0. Planes: qs 16, d 2.
inline constexpr const char* kUnitIQ4_NL = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let four = vec4<u32>(4u);
  let d = unpack2x16float(r.e.x);
  return U8(nl$S$(r.a), nl$S$(r.a >> four), nl$S$(r.b), nl$S$(r.b >> four), vec4<f32>(d.x, 0.0, d.y, 0.0));
}
)";

/// Planes: qs 128; 8 bytes: d, the scales' upper two bits (16 bits), their lower four (32 bits).
inline constexpr const char* kUnitIQ4_XS = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let at = $P1$ + (u >> 2u) * 8u;
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, at);
  r.e.y = wd$S$(rb, at + 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let four = vec4<u32>(4u);
  let p = u & 3u;
  let low = vec2<u32>(r.e.y >> (8u * p), r.e.y >> (8u * p + 4u)) & vec2<u32>(15u);
  let high = vec2<u32>(r.e.x >> (16u + 4u * p), r.e.x >> (18u + 4u * p)) & vec2<u32>(3u);
  let s = unpack2x16float(r.e.x).x * (vec2<f32>(low | (high << vec2<u32>(4u))) - vec2<f32>(32.0));
  return U8(nl$S$(r.a), nl$S$(r.a >> four), nl$S$(r.b), nl$S$(r.b >> four), vec4<f32>(s.x, 0.0, s.y, 0.0));
}
)";

}  // namespace gull::kernels::dot8_types
