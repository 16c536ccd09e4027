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

/// Which two blocks of 32 a unit is: neighbours; or (Q6_K) the two of a half of 128 that share bytes of ql.
constexpr std::string_view kNeighbours = "fn qa$S$(u: u32) -> vec2<u32> { return vec2<u32>(2u * u, 2u * u + 1u); }\n";
constexpr std::string_view kHalves = "fn qa$S$(u: u32) -> vec2<u32> { let b = (u >> 1u) * 4u + (u & 1u); return vec2<u32>(b, b + 2u); }\n";

/// The product of a unit: integers within a block (of 16 where a scale goes with each 16), then f32.
constexpr std::string_view kProduct = R"(
fn qd$S$(rb: u32, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let w = u8$S$(l8$S$(rb, u), u);
  return w.s.x * sa.x * f32(d4$S$(w.q0, a0) + d4$S$(w.q1, a1)) + w.s.y * (sa.y + sa.z) +
         w.s.z * sb.x * f32(d4$S$(w.q2, a2) + d4$S$(w.q3, a3)) + w.s.w * (sb.y + sb.z);
}
)";
constexpr std::string_view kProductHalves = R"(
fn qd$S$(rb: u32, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let w = u8$S$(l8$S$(rb, u), u);
  return w.s.x * (sa.x * f32(d4$S$(w.q0, a0)) - 32.0 * sa.y) + w.s.y * (sa.x * f32(d4$S$(w.q1, a1)) - 32.0 * sa.z) +
         w.s.z * (sb.x * f32(d4$S$(w.q2, a2)) - 32.0 * sb.y) + w.s.w * (sb.x * f32(d4$S$(w.q3, a3)) - 32.0 * sb.z);
}
)";

/// Q5_0's fifth bits: the multiplication spreads four bits of qh to bit 0 of four bytes.
constexpr std::string_view kFifth = R"(
fn hi$S$(h: u32, i: u32) -> u32 { return ((((h >> (4u * i)) & 15u) * 0x00204081u) & 0x01010101u) << 4u; }
fn hv$S$(h: u32, i: u32) -> vec4<u32> { return vec4<u32>(hi$S$(h, i), hi$S$(h, i + 1u), hi$S$(h, i + 2u), hi$S$(h, i + 3u)); }
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
  let base = rb + (u >> 2u) * 9u;
  let p = u & 3u;
  var r: R8;
  r.a = W$S$[base + 1u + 2u * p];
  r.b = W$S$[base + 2u + 2u * p];
  r.e = W$S$[base];
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
  let base = rb + (u >> 2u) * 11u;
  let p = u & 3u;
  return R8(W$S$[base + 3u + 2u * p], W$S$[base + 4u + 2u * p], W$S$[base + 1u], W$S$[base + 2u], W$S$[base]);
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
  let lb = rb + block * 8u + h * 4u + (u & 1u) * 2u;
  let hb = rb + $P1$ / 16u + block * 4u + h * 2u;
  let at = $P2$ + block * 16u + h * 8u;
  return R8(W$S$[lb], W$S$[lb + 1u], W$S$[hb], W$S$[hb + 1u],
            vec4<u32>(wd$S$(rb, $P3$ + (block & 0xfffffffeu) * 2u), wd$S$(rb, at), wd$S$(rb, at + 4u), 0u));
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

/// Loading and unpacking of a type, with what they need.
std::string source(Type type) {
  const auto with = [](std::string_view a, std::string_view b = {}) { return std::string(kCommon) + std::string(a) + std::string(b); };
  switch (type) {
    case Type::Q4_0: return with(kW4_0);
    case Type::Q4_1: return with(kW4_1);
    case Type::Q5_0: return with(kFifth, kW5_0);
    case Type::Q8_0: return with(kW8_0);
    case Type::Q4_K: return with(kScales, kW4_K);
    case Type::Q5_K: return with(kScales, kW5_K);
    case Type::Q6_K: return with(kW6_K);
    default: return {};
  }
}

Result<std::string> complete(const gguf::RowLayout& layout, std::string_view suffix, std::string_view more) {
  const std::string text = source(layout.type);
  if (text.empty() || layout.k % 64) return fail(ErrorKind::Internal, "no integer dot product for this type or row length");
  const std::string s(suffix);
  return expand(text + std::string(unpack8_halves(layout.type) ? kHalves : kNeighbours) + std::string(more),
                {{"S", s}, {"P1", layout.plane_offset[1]}, {"P2", layout.plane_offset[2]}, {"P3", layout.plane_offset[3]}});
}

}  // namespace

bool has_dot8(Type type) { return !source(type).empty(); }
bool unpack8_halves(Type type) { return type == Type::Q6_K; }
std::string_view dot8_structs() { return kUnit; }

Result<std::string> dot8(const gguf::RowLayout& layout, std::string_view suffix) {
  return complete(layout, suffix, unpack8_halves(layout.type) ? kProductHalves : kProduct);
}

Result<std::string> unpack8(const gguf::RowLayout& layout, std::string_view suffix) { return complete(layout, suffix, {}); }

}  // namespace gull::kernels
