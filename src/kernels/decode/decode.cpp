#include "kernels/decode/decode.h"

#include "base/log.h"
#include "kernels/decode/code_book.h"
#include "kernels/decode/iq1.h"
#include "kernels/decode/iq2.h"
#include "kernels/decode/iq3.h"
#include "kernels/decode/iq4.h"
#include "kernels/decode/mxfp4.h"
#include "kernels/decode/plain.h"
#include "kernels/decode/q_k.h"
#include "kernels/decode/q_simple.h"
#include "kernels/decode/ternary.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

using gguf::Type;

/// Reads 4 or 2 bytes at a byte offset (a multiple of 4, or of 2) from the start of a row.
constexpr std::string_view kReaders = R"(
fn word$S$(rb: u32, at: u32) -> u32 { let i = rb * 4u + (at >> 2u); return W$S$[i >> 2u][i & 3u]; }
fn half$S$(rb: u32, at: u32) -> f32 {
  let v = unpack2x16float(word$S$(rb, at));
  return select(v.x, v.y, (at & 2u) != 0u);
}
fn byte$S$(rb: u32, at: u32) -> u32 { return (word$S$(rb, at) >> ((at & 3u) * 8u)) & 0xffu; }
)";

/// The WGSL of a type: what several types share, and its own. $S$ is the suffix of the tensor, $P1$…$P3$ the byte offsets
/// of the row's planes (gguf/row_layout.h).
struct Source { const char* shared = nullptr; const char* own = nullptr; };

Source source(Type type) {
  switch (type) {
    case Type::F32: return {"", decode::kF32};
    case Type::F16: return {"", decode::kF16};
    case Type::BF16: return {"", decode::kBF16};
    case Type::Q4_0: return {"", decode::kQ4_0};
    case Type::Q4_1: return {"", decode::kQ4_1};
    case Type::Q5_0: return {"", decode::kQ5_0};
    case Type::Q5_1: return {"", decode::kQ5_1};
    case Type::Q8_0: return {"", decode::kQ8_0};
    case Type::Q2_K: return {"", decode::kQ2_K};
    case Type::Q3_K: return {"", decode::kQ3_K};
    case Type::Q4_K: return {"", decode::kQ4_K};
    case Type::Q5_K: return {"", decode::kQ5_K};
    case Type::Q6_K: return {"", decode::kQ6_K};
    case Type::IQ4_NL: return {decode::kIq4Values, decode::kIQ4_NL};
    case Type::IQ4_XS: return {decode::kIq4Values, decode::kIQ4_XS};
    case Type::MXFP4: return {"", decode::kMXFP4};
    case Type::TQ1_0: return {"", decode::kTQ1_0};
    case Type::TQ2_0: return {"", decode::kTQ2_0};
    case Type::IQ1_S: return {decode::kIq1Entry, decode::kIQ1_S};
    case Type::IQ1_M: return {decode::kIq1Entry, decode::kIQ1_M};
    case Type::IQ2_XXS: return {decode::kIq2Entry, decode::kIQ2_XXS};
    case Type::IQ2_XS: return {decode::kIq2Entry, decode::kIQ2_XS};
    case Type::IQ2_S: return {decode::kIq2Entry, decode::kIQ2_S};
    case Type::IQ3_XXS: return {"", decode::kIQ3_XXS};
    case Type::IQ3_S: return {"", decode::kIQ3_S};
    default: return {};
  }
}

}  // namespace

bool has_decoder(Type type) { return source(type).own != nullptr; }

Result<std::string> decoder(const gguf::RowLayout& layout, std::string_view suffix) {
  const Source text = source(layout.type);
  const auto* traits = gguf::type_traits(layout.type);
  if (!text.own) return fail_f(ErrorKind::Unsupported, "no kernel reads tensors of type {}", traits ? traits->name : "unknown");
  const std::string s(suffix);
  return expand(std::string(kReaders) + (layout.table_bytes ? decode::kCodeBook : "") + text.shared + text.own,
                {{"S", s}, {"P1", layout.plane_offset[1]}, {"P2", layout.plane_offset[2]}, {"P3", layout.plane_offset[3]}, {"P4", layout.plane_offset[4]},
                 {"TABLE", layout.table_bytes / 16}});
}

}  // namespace gull::kernels
