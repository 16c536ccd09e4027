// The K types: 256 weights a block, in groups of 16 or 32 with small scales of their own.
#pragma once

namespace gull::kernels::dot8_types {

/// Planes: qs 64, scales 16, (d, dmin) 4. Two bits times a 4-bit scale is still a byte; the minima stay apart.
inline constexpr const char* kUnitQ2_K = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let at = rb + (u >> 1u) * 2u;
  var r: R8;
  r.a = W$S$[at];
  r.b = W$S$[at + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 4u);
  r.e.y = wd$S$(rb, $P2$ + (u >> 2u) * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x03030303u);
  let sh = vec4<u32>((u & 1u) * 4u);
  let a = r.a >> sh;
  let b = r.b >> sh;
  let two = vec4<u32>(2u);
  let sc = (vec4<u32>(r.e.x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u);
  let dm = unpack2x16float(r.e.y);
  let m = (r.e.x >> 4u) & 0x0f0f0f0fu;
  return U8((a & k) * sc.x, (b & k) * sc.y, ((a >> two) & k) * sc.z, ((b >> two) & k) * sc.w,
               vec4<f32>(dm.x, -dm.y, f32((m | (m >> 4u)) & 0xffu), f32(((m >> 16u) | (m >> 20u)) & 0xffu)));
}
)";

/// Planes: qs 64, hmask 32, scales 12, d 2; decode/q_k.h says which bits are whose.
inline constexpr const char* kUnitQ3_K = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let lb = rb + (u >> 1u) * 2u;
  let hb = rb + $P1$ / 16u + block * 2u;
  let at = $P2$ + block * 12u;
  return R8(W$S$[lb], W$S$[lb + 1u], W$S$[hb], W$S$[hb + 1u],
               vec4<u32>(wd$S$(rb, at + (u & 1u) * 4u), wd$S$(rb, at + 8u), wd$S$(rb, $P3$ + (block & 0xfffffffeu) * 2u), 0u));
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x03030303u);
  let four = vec4<u32>(0x04040404u);
  let two = vec4<u32>(2u);
  let one = vec4<u32>(1u);
  let p = u & 3u;
  let l0 = r.a >> vec4<u32>((p & 1u) * 4u);
  let l1 = r.b >> vec4<u32>((p & 1u) * 4u);
  let h0 = r.c >> vec4<u32>(2u * p);
  let h1 = r.d >> vec4<u32>(2u * p);
  let sc = ((r.e.x >> ((p >> 1u) * 4u)) & 0x0f0f0f0fu) | (((r.e.y >> (2u * p)) & 0x03030303u) << 4u);
  let dd = unpack2x16float(r.e.z);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u);
  return U8((l0 & k) | ((h0 << two) & four), (l1 & k) | ((h1 << two) & four), ((l0 >> two) & k) | ((h0 << one) & four),
               ((l1 >> two) & k) | ((h1 << one) & four),
               d * (vec4<f32>((vec4<u32>(sc) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(63u)) - vec4<f32>(32.0)));
}
)";

/// Scales and minima of sub-blocks 2p and 2p + 1 of a Q4_K or Q5_K block: (sc0, sc1, m0, m1).
inline constexpr const char* kScales = R"(
fn sc$S$(head: vec4<u32>, p: u32) -> vec4<f32> {
  let sh = (p & 1u) * 16u;
  let a = (head.y >> sh) & 0xffffu;
  let b = (head.z >> sh) & 0xffffu;
  let c = (head.w >> sh) & 0xffffu;
  let s = select(a & 0x3f3fu, (c & 0x0f0fu) | ((a >> 2u) & 0x3030u), p >= 2u);
  let m = select(b & 0x3f3fu, ((c >> 4u) & 0x0f0fu) | ((b >> 2u) & 0x3030u), p >= 2u);
  return vec4<f32>(f32(s & 0xffu), f32(s >> 8u), f32(m & 0xffu), f32(m >> 8u));
}
)";

/// Planes of the first and the second 16 of each 32 bytes, and 16 with the scales.
inline constexpr const char* kQ4_K = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let dm = unpack2x16float(r.e.x);
  let s = sc$S$(r.e, u & 3u);
  let i = d4$S$(r.a & k, a0) + d4$S$(r.b & k, a1);
  let j = d4$S$((r.a >> vec4<u32>(4u)) & k, a2) + d4$S$((r.b >> vec4<u32>(4u)) & k, a3);
  return dm.x * (s.x * sa.x * f32(i) + s.y * sb.x * f32(j)) - dm.y * (s.z * (sa.y + sa.z) + s.w * (sb.y + sb.z));
}
)";
inline constexpr const char* kUnitQ4_K = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + u];
  r.b = W$S$[rb + $P1$ / 16u + u];
  r.e = W$S$[rb + $P2$ / 16u + (u >> 2u)];
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let dm = unpack2x16float(r.e.x);
  let s = sc$S$(r.e, u & 3u);
  return U8(r.a & k, r.b & k, (r.a >> vec4<u32>(4u)) & k, (r.b >> vec4<u32>(4u)) & k,
            vec4<f32>(dm.x * s.x, -dm.y * s.z, dm.x * s.y, -dm.y * s.w));
}
)";

/// Planes as Q4_K, with qh 32 before the scales; bit s of each byte of qh is the fifth bit in sub-block s.
inline constexpr const char* kQ5_K = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let one = vec4<u32>(0x01010101u);
  let p = u & 3u;
  let g = r.c >> vec4<u32>(2u * p);
  let h = r.d >> vec4<u32>(2u * p);
  let dm = unpack2x16float(r.e.x);
  let s = sc$S$(r.e, p);
  let four = vec4<u32>(4u);
  let i = d4$S$((r.a & k) | ((g & one) << four), a0) + d4$S$((r.b & k) | ((h & one) << four), a1);
  let j = d4$S$(((r.a >> four) & k) | (((g >> vec4<u32>(1u)) & one) << four), a2) +
          d4$S$(((r.b >> four) & k) | (((h >> vec4<u32>(1u)) & one) << four), a3);
  return dm.x * (s.x * sa.x * f32(i) + s.y * sb.x * f32(j)) - dm.y * (s.z * (sa.y + sa.z) + s.w * (sb.y + sb.z));
}
)";
inline constexpr const char* kUnitQ5_K = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let hb = rb + $P2$ / 16u + (u >> 2u) * 2u;
  return R8(W$S$[rb + u], W$S$[rb + $P1$ / 16u + u], W$S$[hb], W$S$[hb + 1u], W$S$[rb + $P3$ / 16u + (u >> 2u)]);
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let one = vec4<u32>(0x01010101u);
  let four = vec4<u32>(4u);
  let p = u & 3u;
  let g = r.c >> vec4<u32>(2u * p);
  let h = r.d >> vec4<u32>(2u * p);
  let dm = unpack2x16float(r.e.x);
  let s = sc$S$(r.e, p);
  return U8((r.a & k) | ((g & one) << four), (r.b & k) | ((h & one) << four), ((r.a >> four) & k) | (((g >> vec4<u32>(1u)) & one) << four),
            ((r.b >> four) & k) | (((h >> vec4<u32>(1u)) & one) << four), vec4<f32>(dm.x * s.x, -dm.y * s.z, dm.x * s.y, -dm.y * s.w));
}
)";

/// Planes of the first and the second 16 of each 32 bytes of ql, qh 64, sc 16, d 2. A unit is the two sub-blocks of a half that
/// share bytes of ql.
inline constexpr const char* kQ6_K = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let t = vec4<u32>(0x30303030u);
  let s = u & 1u;
  let h0 = r.c >> vec4<u32>(2u * s);
  let h1 = r.d >> vec4<u32>(2u * s);
  let dd = unpack2x16float(r.e.x);
  let d = select(dd.x, dd.y, (u & 4u) != 0u);
  let x = r.e.y >> (16u * s);
  let y = r.e.z >> (16u * s);
  let four = vec4<u32>(4u);
  let i0 = d4$S$((r.a & k) | ((h0 << four) & t), a0);
  let i1 = d4$S$((r.b & k) | ((h1 << four) & t), a1);
  let j0 = d4$S$(((r.a >> four) & k) | (h0 & t), a2);
  let j1 = d4$S$(((r.b >> four) & k) | (h1 & t), a3);
  return d * (f32(i32(x << 24u) >> 24u) * (sa.x * f32(i0) - 32.0 * sa.y) + f32(i32(x << 16u) >> 24u) * (sa.x * f32(i1) - 32.0 * sa.z) +
              f32(i32(y << 24u) >> 24u) * (sb.x * f32(j0) - 32.0 * sb.y) + f32(i32(y << 16u) >> 24u) * (sb.x * f32(j1) - 32.0 * sb.z));
}
)";
inline constexpr const char* kUnitQ6_K = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let block = u >> 2u;
  let h = (u >> 1u) & 1u;
  let hb = rb + $P2$ / 16u + block * 4u + h * 2u;
  let at = $P3$ + block * 16u + h * 8u;
  return R8(W$S$[rb + u], W$S$[rb + $P1$ / 16u + u], W$S$[hb], W$S$[hb + 1u],
            vec4<u32>(wd$S$(rb, $P4$ + (block & 0xfffffffeu) * 2u), wd$S$(rb, at), wd$S$(rb, at + 4u), 0u));
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let t = vec4<u32>(0x30303030u);
  let four = vec4<u32>(4u);
  let s = u & 1u;
  let h0 = r.c >> vec4<u32>(2u * s);
  let h1 = r.d >> vec4<u32>(2u * s);
  let dd = unpack2x16float(r.e.x);
  let d = select(dd.x, dd.y, ((u >> 2u) & 1u) != 0u);
  let x = r.e.y >> (16u * s);
  let y = r.e.z >> (16u * s);
  return U8((r.a & k) | ((h0 << four) & t), (r.b & k) | ((h1 << four) & t), ((r.a >> four) & k) | (h0 & t), ((r.b >> four) & k) | (h1 & t),
            d * vec4<f32>(f32(i32(x << 24u) >> 24u), f32(i32(x << 16u) >> 24u), f32(i32(y << 24u) >> 24u), f32(i32(y << 16u) >> 24u)));
}
)";

}  // namespace gull::kernels::dot8_types
