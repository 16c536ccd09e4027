#include "kernels/dot8/dot8.h"

#include "base/log.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

using gguf::Type;

constexpr std::string_view kCommon = R"(
fn wd$S$(rb: u32, at: u32) -> u32 { let i = rb * 4u + (at >> 2u); return W$S$[i >> 2u][i & 3u]; }
fn d4$S$(w: vec4<u32>, a: vec4<u32>) -> i32 {
  return dot4I8Packed(w.x, a.x) + dot4I8Packed(w.y, a.y) + dot4I8Packed(w.z, a.z) + dot4I8Packed(w.w, a.w);
}
)";

// The dot products below could all be written as u8 of l8 and one sum; each in its type's own terms spares a few operations a
// unit, which decoding feels: 6 % of the tokens a second of an 8b model on an H200.

constexpr std::string_view kNeighbours = "fn qa$S$(u: u32) -> vec2<u32> { return vec2<u32>(2u * u, 2u * u + 1u); }\n"
                                         "fn qi$S$(u: u32) -> vec2<u32> { return vec2<u32>(u, $HALF$ + u); }\n";

/// Q4_0: planes qs 16, d 2.
constexpr std::string_view kQ4_0 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  let i = d4$S$(r.a & m, a0) + d4$S$((r.a >> vec4<u32>(4u)) & m, a1);
  let j = d4$S$(r.b & m, a2) + d4$S$((r.b >> vec4<u32>(4u)) & m, a3);
  return d.x * (sa.x * f32(i) - 8.0 * (sa.y + sa.z)) + d.y * (sb.x * f32(j) - 8.0 * (sb.y + sb.z));
}
)";

/// Q4_1: planes qs 16, (d, m) 4.
constexpr std::string_view kQ4_1 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  let e = unpack2x16float(r.e.y);
  let i = d4$S$(r.a & m, a0) + d4$S$((r.a >> vec4<u32>(4u)) & m, a1);
  let j = d4$S$(r.b & m, a2) + d4$S$((r.b >> vec4<u32>(4u)) & m, a3);
  return d.x * sa.x * f32(i) + d.y * (sa.y + sa.z) + e.x * sb.x * f32(j) + e.y * (sb.y + sb.z);
}
)";

/// Q5_0: planes qs 16, qh 4, d 2. The multiplication spreads four bits of qh to bit 0 of four bytes.
constexpr std::string_view kQ5_0 = R"(
fn hi$S$(h: u32, i: u32) -> u32 { return ((((h >> (4u * i)) & 15u) * 0x00204081u) & 0x01010101u) << 4u; }
fn hv$S$(h: u32, i: u32) -> vec4<u32> { return vec4<u32>(hi$S$(h, i), hi$S$(h, i + 1u), hi$S$(h, i + 2u), hi$S$(h, i + 3u)); }
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.z);
  let i = d4$S$((r.a & m) | hv$S$(r.e.x, 0u), a0) + d4$S$(((r.a >> vec4<u32>(4u)) & m) | hv$S$(r.e.x, 4u), a1);
  let j = d4$S$((r.b & m) | hv$S$(r.e.y, 0u), a2) + d4$S$(((r.b >> vec4<u32>(4u)) & m) | hv$S$(r.e.y, 4u), a3);
  return d.x * (sa.x * f32(i) - 16.0 * (sa.y + sa.z)) + d.y * (sb.x * f32(j) - 16.0 * (sb.y + sb.z));
}
)";

/// Q8_0: planes qs 32, d 2.
constexpr std::string_view kQ8_0 = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let d = unpack2x16float(r.e.x);
  let i = d4$S$(r.a, a0) + d4$S$(r.b, a1);
  let j = d4$S$(r.c, a2) + d4$S$(r.d, a3);
  return d.x * sa.x * f32(i) + d.y * sb.x * f32(j);
}
)";

/// Scales and minima of sub-blocks 2p and 2p + 1 of a K block: (sc0, sc1, m0, m1).
constexpr std::string_view kScales = R"(
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

/// Q4_K: planes of the first and the second 16 of each 32 bytes, and 16 with the scales.
constexpr std::string_view kQ4_K = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let k = vec4<u32>(0x0f0f0f0fu);
  let dm = unpack2x16float(r.e.x);
  let s = sc$S$(r.e, u & 3u);
  let i = d4$S$(r.a & k, a0) + d4$S$(r.b & k, a1);
  let j = d4$S$((r.a >> vec4<u32>(4u)) & k, a2) + d4$S$((r.b >> vec4<u32>(4u)) & k, a3);
  return dm.x * (s.x * sa.x * f32(i) + s.y * sb.x * f32(j)) - dm.y * (s.z * (sa.y + sa.z) + s.w * (sb.y + sb.z));
}
)";

/// Q5_K: planes as Q4_K, with qh 32 before the scales; bit s of each byte of qh is the fifth bit in sub-block s.
constexpr std::string_view kQ5_K = R"(
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

/// Q6_K: planes of the first and the second 16 of each 32 bytes of ql, qh 64, sc 16, d 2. A unit is the two sub-blocks of a half that share bytes of ql.
constexpr std::string_view kQ6_K = R"(
fn qa$S$(u: u32) -> vec2<u32> { let b = (u >> 1u) * 4u + (u & 1u); return vec2<u32>(b, b + 2u); }
fn qi$S$(u: u32) -> vec2<u32> { let i = (u >> 1u) * 2u + select(0u, $HALF$, (u & 1u) != 0u); return vec2<u32>(i, i + 1u); }
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

// A unit in two parts: l8 asks memory for it, u8 unpacks what has arrived; a product's inner loop runs between them.
constexpr std::string_view kUnit = "struct R8 { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>, e: vec4<u32> };\n"
                                   "struct U8 { q0: vec4<u32>, q1: vec4<u32>, q2: vec4<u32>, q3: vec4<u32>, s: vec4<f32> };\n";

constexpr std::string_view kW4_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.x);
  return U8(r.a & m, (r.a >> vec4<u32>(4u)) & m, r.b & m, (r.b >> vec4<u32>(4u)) & m, vec4<f32>(d.x, -8.0 * d.x, d.y, -8.0 * d.y));
}
)";

constexpr std::string_view kW4_1 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 8u);
  r.e.y = wd$S$(rb, $P1$ + u * 8u + 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  return U8(r.a & m, (r.a >> vec4<u32>(4u)) & m, r.b & m, (r.b >> vec4<u32>(4u)) & m,
            vec4<f32>(unpack2x16float(r.e.x), unpack2x16float(r.e.y)));
}
)";

constexpr std::string_view kW5_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  var r: R8;
  r.a = W$S$[rb + 2u * u];
  r.b = W$S$[rb + 2u * u + 1u];
  r.e.x = wd$S$(rb, $P1$ + u * 8u);
  r.e.y = wd$S$(rb, $P1$ + u * 8u + 4u);
  r.e.z = wd$S$(rb, $P2$ + u * 4u);
  return r;
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let m = vec4<u32>(0x0f0f0f0fu);
  let d = unpack2x16float(r.e.z);
  return U8((r.a & m) | hv$S$(r.e.x, 0u), ((r.a >> vec4<u32>(4u)) & m) | hv$S$(r.e.x, 4u), (r.b & m) | hv$S$(r.e.y, 0u),
            ((r.b >> vec4<u32>(4u)) & m) | hv$S$(r.e.y, 4u), vec4<f32>(d.x, -16.0 * d.x, d.y, -16.0 * d.y));
}
)";

constexpr std::string_view kW8_0 = R"(
fn l8$S$(rb: u32, u: u32) -> R8 {
  let b = rb + 4u * u;
  return R8(W$S$[b], W$S$[b + 1u], W$S$[b + 2u], W$S$[b + 3u], vec4<u32>(wd$S$(rb, $P1$ + u * 4u), 0u, 0u, 0u));
}
fn u8$S$(r: R8, u: u32) -> U8 {
  let d = unpack2x16float(r.e.x);
  return U8(r.a, r.b, r.c, r.d, vec4<f32>(d.x, 0.0, d.y, 0.0));
}
)";

constexpr std::string_view kW4_K = R"(
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

constexpr std::string_view kW5_K = R"(
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

constexpr std::string_view kW6_K = R"(
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

std::string_view unit_source(Type type) {
  switch (type) {
    case Type::Q4_0: return kW4_0;
    case Type::Q4_1: return kW4_1;
    case Type::Q5_0: return kW5_0;
    case Type::Q8_0: return kW8_0;
    case Type::Q4_K: return kW4_K;
    case Type::Q5_K: return kW5_K;
    case Type::Q6_K: return kW6_K;
    default: return {};
  }
}

std::string source(Type type) {
  const std::string common = std::string(kCommon) + std::string(kNeighbours);
  switch (type) {
    case Type::Q4_0: return common + std::string(kQ4_0);
    case Type::Q4_1: return common + std::string(kQ4_1);
    case Type::Q5_0: return common + std::string(kQ5_0);
    case Type::Q8_0: return common + std::string(kQ8_0);
    case Type::Q4_K: return common + std::string(kScales) + std::string(kQ4_K);
    case Type::Q5_K: return common + std::string(kScales) + std::string(kQ5_K);
    case Type::Q6_K: return std::string(kCommon) + std::string(kQ6_K);
    default: return {};
  }
}

}  // namespace

bool has_dot8(Type type) { return !source(type).empty(); }

Result<std::string> dot8(const gguf::RowLayout& layout, std::string_view suffix) {
  const std::string text = source(layout.type);
  if (text.empty() || layout.k % 64) return fail(ErrorKind::Internal, "no integer dot product for this type or row length");
  const std::string s(suffix);
  return expand(text + std::string(unit_source(layout.type)), {{"S", s}, {"P1", layout.plane_offset[1]}, {"P2", layout.plane_offset[2]}, {"P3", layout.plane_offset[3]}, {"P4", layout.plane_offset[4]}, {"HALF", static_cast<uint32_t>(layout.k / 64)}});
}

std::string_view unit8_structs() { return kUnit; }

bool unpack8_halves(Type type) { return type == Type::Q6_K; }

Result<std::string> unpack8(const gguf::RowLayout& layout, std::string_view suffix) {
  const std::string_view unit = unit_source(layout.type);
  if (unit.empty() || layout.k % 64) return fail(ErrorKind::Internal, "no integer tile for this type or row length");
  const std::string s(suffix);
  return expand(source(layout.type) + std::string(unit), {{"S", s}, {"P1", layout.plane_offset[1]}, {"P2", layout.plane_offset[2]}, {"P3", layout.plane_offset[3]}, {"P4", layout.plane_offset[4]}, {"HALF", static_cast<uint32_t>(layout.k / 64)}});
}

}  // namespace gull::kernels
