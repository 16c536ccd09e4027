#include "kernels/dot8/dot8.h"

#include "base/log.h"
#include "kernels/decode/code_book.h"
#include "kernels/dot8/code_book.h"
#include "kernels/dot8/iq1.h"
#include "kernels/dot8/iq2.h"
#include "kernels/dot8/iq3.h"
#include "kernels/dot8/iq4.h"
#include "kernels/dot8/mxfp4.h"
#include "kernels/dot8/q_k.h"
#include "kernels/dot8/q_simple.h"
#include "kernels/dot8/ternary.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

using gguf::Type;
namespace t = dot8_types;

/// What the four numbers of U8.s mean.
enum class Form {
  Pairs,    ///< (scale, offset) of each block of 32: Σ w·a = scale·d·Σq·q' + offset·(s0 + s1)
  Scaled,   ///< the same, but that each offset is −`offset` times the scale
  Halves,   ///< a scale for each 16; their offset is −`offset` times it, and not written
  Minima,   ///< (d, −dmin) of all 64, then for each block of 32 the 4-bit minima of its halves, as a number below 256
};

/// A type: what several share, how a unit is loaded and unpacked, and, for some, the dot product in the type's own terms.
/// (It could always be had from the unit, but spares a few operations, which decoding feels: 6 % of the tokens a second of an
/// 8b model on an H200.)
struct Source {
  const char* unit = nullptr;
  Form form = Form::Pairs;
  int offset = 0;
  const char* shared = "";
  const char* dot = nullptr;
};

Source source(Type type) {
  switch (type) {
    case Type::Q4_0: return {.unit = t::kUnitQ4_0, .form = Form::Scaled, .offset = 8, .dot = t::kQ4_0};
    case Type::Q4_1: return {.unit = t::kUnitQ4_1, .dot = t::kQ4_1};
    case Type::Q5_0: return {.unit = t::kUnitQ5_0, .form = Form::Scaled, .offset = 16, .shared = t::kFifthBits, .dot = t::kQ5_0};
    case Type::Q5_1: return {.unit = t::kUnitQ5_1, .shared = t::kFifthBits};
    case Type::Q8_0: return {.unit = t::kUnitQ8_0, .form = Form::Scaled, .dot = t::kQ8_0};
    case Type::Q2_K: return {.unit = t::kUnitQ2_K, .form = Form::Minima};
    case Type::Q3_K: return {.unit = t::kUnitQ3_K, .form = Form::Halves, .offset = 4};
    case Type::Q4_K: return {.unit = t::kUnitQ4_K, .shared = t::kScales, .dot = t::kQ4_K};
    case Type::Q5_K: return {.unit = t::kUnitQ5_K, .shared = t::kScales, .dot = t::kQ5_K};
    case Type::Q6_K: return {.unit = t::kUnitQ6_K, .form = Form::Halves, .offset = 32, .dot = t::kQ6_K};
    case Type::IQ4_NL: return {.unit = t::kUnitIQ4_NL, .form = Form::Scaled, .shared = t::kIq4Values};
    case Type::IQ4_XS: return {.unit = t::kUnitIQ4_XS, .form = Form::Scaled, .shared = t::kIq4Values};
    case Type::MXFP4: return {.unit = t::kUnitMXFP4, .form = Form::Scaled, .offset = 12};
    case Type::TQ1_0: return {.unit = t::kUnitTQ1_0, .form = Form::Scaled, .offset = 1};
    case Type::TQ2_0: return {.unit = t::kUnitTQ2_0, .form = Form::Scaled, .offset = 1};
    case Type::IQ1_S: return {.unit = t::kUnitIQ1_S, .form = Form::Scaled, .offset = 9, .shared = t::kIq1Entries};
    case Type::IQ1_M: return {.unit = t::kUnitIQ1_M, .form = Form::Halves, .offset = 9, .shared = t::kIq1Entries};
    case Type::IQ2_XXS: return {.unit = t::kUnitIQ2_XXS, .form = Form::Scaled, .shared = t::kIq2Entries};
    case Type::IQ2_XS: return {.unit = t::kUnitIQ2_XS, .form = Form::Halves, .shared = t::kIq2Entries};
    case Type::IQ2_S: return {.unit = t::kUnitIQ2_S, .form = Form::Halves, .shared = t::kIq2Entries};
    case Type::IQ3_XXS: return {.unit = t::kUnitIQ3_XXS, .form = Form::Scaled};
    case Type::IQ3_S: return {.unit = t::kUnitIQ3_S, .form = Form::Scaled};
    default: return {};
  }
}

constexpr std::string_view kCommon = R"(
fn wd$S$(rb: u32, at: u32) -> u32 { let i = rb * 4u + (at >> 2u); return W$S$[i >> 2u][i & 3u]; }
fn d4$S$(w: vec4<u32>, a: vec4<u32>) -> i32 {
  return dot4I8Packed(w.x, a.x) + dot4I8Packed(w.y, a.y) + dot4I8Packed(w.z, a.z) + dot4I8Packed(w.w, a.w);
}
)";

/// A unit for several tokens: bytes below 128, less what is taken off each. No borrow crosses a byte whose highest bit is set.
constexpr std::string_view kCentred = R"(
fn less$S$(q: vec4<u32>) -> vec4<u32> { return ((q | vec4<u32>(0x80808080u)) - vec4<u32>($OFF$)) ^ vec4<u32>(0x80808080u); }
fn t8$S$(r: R8, u: u32) -> U8 {
  let w = u8$S$(r, u);
  return U8(less$S$(w.q0), less$S$(w.q1), less$S$(w.q2), less$S$(w.q3), w.s);
}
)";
constexpr std::string_view kAsItIs = "fn t8$S$(r: R8, u: u32) -> U8 { return u8$S$(r, u); }\n";

/// Which blocks of activations a unit takes, and where they lie: neighbours, but for Q6_K.
constexpr std::string_view kNeighbours = "fn qa$S$(u: u32) -> vec2<u32> { return vec2<u32>(2u * u, 2u * u + 1u); }\n"
                                         "fn qi$S$(u: u32) -> vec2<u32> { return vec2<u32>(u, $HALF$ + u); }\n";
constexpr std::string_view kApart =
    "fn qa$S$(u: u32) -> vec2<u32> { let b = (u >> 1u) * 4u + (u & 1u); return vec2<u32>(b, b + 2u); }\n"
    "fn qi$S$(u: u32) -> vec2<u32> { let i = (u >> 1u) * 2u + select(0u, $HALF$, (u & 1u) != 0u); return vec2<u32>(i, i + 1u); }\n";

/// A unit in two parts: l8 asks memory for it, u8 unpacks what has arrived; a product's inner loop runs between them.
constexpr std::string_view kUnit = "struct R8 { a: vec4<u32>, b: vec4<u32>, c: vec4<u32>, d: vec4<u32>, e: vec4<u32> };\n"
                                   "struct U8 { q0: vec4<u32>, q1: vec4<u32>, q2: vec4<u32>, q3: vec4<u32>, s: vec4<f32> };\n";

/// The dot product of types that have none in their own terms.
constexpr std::string_view kDot = R"(
fn qm$S$(r: R8, u: u32, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, sa: vec4<f32>, sb: vec4<f32>) -> f32 {
  let w = u8$S$(r, u);
  let xa = vec4<f32>(sa.xyz, sa.y + sa.z);
  let xb = vec4<f32>(sb.xyz, sb.y + sb.z);
  return $FIRST$ + $SECOND$;
}
)";

std::string common(const gguf::RowLayout& layout) {
  std::string text(kCommon);
  text += layout.type == Type::Q6_K ? kApart : kNeighbours;
  if (layout.table_bytes) text += std::string(decode::kCodeBook) + t::kFields;
  return text + source(layout.type).shared;
}

/// The product of block `h` of a unit as U8 has it with a block of activations whose scales `s` are (d, s0, s1, s0 + s1).
std::string block_dot(Type type, int h, std::string_view suffix, std::string_view p, std::string_view q, std::string_view a, std::string_view b, std::string_view s) {
  constexpr const char* w = "w.s";
  const Source of = source(type);
  const std::string i = fmt::format("d4{}({}, {})", suffix, p, a), j = fmt::format("d4{}({}, {})", suffix, q, b);
  const char* first = h ? "z" : "x";
  const char* second = h ? "w" : "y";
  switch (of.form) {
    case Form::Pairs:
    case Form::Scaled:
      return fmt::format("({0}.{1} * {3}.x) * f32({4} + {5}) + {0}.{2} * {3}.w", w, first, second, s, i, j);
    case Form::Halves: {
      const auto half = [&](const char* scale, const std::string& sum, const char* part) {
        const std::string offset = of.offset ? fmt::format(" - {}.0 * {}.{}", of.offset, s, part) : "";
        return fmt::format("{}.{} * ({}.x * f32({}){})", w, scale, s, sum, offset);
      };
      return half(first, i, "y") + " + " + half(second, j, "z");
    }
    case Form::Minima: {
      const char* minima = h ? "w" : "z";
      return fmt::format("({0}.x * {2}.x) * f32({3} + {4}) + {0}.y * (f32(u32({0}.{1}) & 15u) * {2}.y + f32(u32({0}.{1}) >> 4u) * {2}.z)", w, minima, s, i, j);
    }
  }
  return {};
}

std::string finish(const gguf::RowLayout& layout, std::string_view suffix, const std::string& text) {
  const auto& at = layout.plane_offset;
  return expand(text, {{"S", std::string(suffix)}, {"P1", at[1]}, {"P2", at[2]}, {"P3", at[3]}, {"P4", at[4]}, {"TABLE", layout.table_bytes / 16},
                       {"HALF", static_cast<uint32_t>(layout.k / 64)}});
}

}  // namespace

bool has_dot8(Type type) { return source(type).unit != nullptr; }

Result<std::string> dot8(const gguf::RowLayout& layout, std::string_view suffix) {
  const Source type = source(layout.type);
  if (!type.unit || layout.k % 64) return fail(ErrorKind::Internal, "no integer dot product for this type or row length");
  if (type.dot) return finish(layout, suffix, common(layout) + type.unit + type.dot);
  const std::string dot = expand(kDot, {{"FIRST", block_dot(layout.type, 0, suffix, "w.q0", "w.q1", "a0", "a1", "xa")},
                                        {"SECOND", block_dot(layout.type, 1, suffix, "w.q2", "w.q3", "a2", "a3", "xb")}});
  return finish(layout, suffix, common(layout) + type.unit + dot);
}

Result<std::string> unpack8(const gguf::RowLayout& layout, std::string_view suffix) {
  const Source type = source(layout.type);
  if (!type.unit || layout.k % 64) return fail(ErrorKind::Internal, "no integer tile for this type or row length");
  const std::string centred = type.offset ? expand(kCentred, {{"OFF", fmt::format("{}u", 0x01010101u * static_cast<uint32_t>(type.offset))}}) : std::string(kAsItIs);
  return finish(layout, suffix, common(layout) + type.unit + centred);
}

std::string_view unit8_structs() { return kUnit; }

bool has_minima8(Type type) { return source(type).form == Form::Minima; }

std::string scales8(Type type, int h, std::string_view s) {
  if (has_minima8(type))
    return fmt::format("vec4<f32>({0}.x, {0}.y * f32(u32({0}.{1}) & 15u), {0}.y * f32(u32({0}.{1}) >> 4u), 0.0)", s, h ? "w" : "z");
  return fmt::format("vec4<f32>({}.{}, 0.0, 0.0)", s, h ? "zw" : "xy");
}

std::string product8(Type type, std::string_view suffix, std::string_view p, std::string_view q, std::string_view w,
                     std::string_view a, std::string_view b, std::string_view s, std::string_view c) {
  const std::string i = fmt::format("d4{}({}, {})", suffix, p, a), j = fmt::format("d4{}({}, {})", suffix, q, b);
  switch (source(type).form) {
    case Form::Scaled: return fmt::format("fma({0}.x * {1}.x, f32({2} + {3}), {4})", w, s, i, j, c);
    case Form::Pairs: return fmt::format("fma({0}.x * {1}.x, f32({2} + {3}), fma({0}.y, {1}.y, {4}))", w, s, i, j, c);
    case Form::Halves: return fmt::format("fma({1}.x, fma({0}.x, f32({2}), {0}.y * f32({3})), {4})", w, s, i, j, c);
    case Form::Minima: return fmt::format("fma({0}.x * {1}.x, f32({2} + {3}), fma({0}.y, {1}.y, fma({0}.z, {1}.z, {4})))", w, s, i, j, c);
  }
  return {};
}

}  // namespace gull::kernels
