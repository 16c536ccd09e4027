#include "gguf/row_layout.h"

#include <cassert>
#include <cstring>

#include "base/log.h"
#include "gguf/iq_tables.h"

namespace gull::gguf {
namespace {

/// A piece of a block in the file; pieces with the same plane number follow each other in that plane.
struct Piece {
  uint8_t plane;
  uint16_t file_offset, bytes;
};

/// The pieces of a type's blocks, by plane; empty for the types that have no planes.
std::span<const Piece> pieces_of(Type type) {
  static constexpr Piece q4_0[] = {{0, 2, 16}, {1, 0, 2}};
  static constexpr Piece q4_1[] = {{0, 4, 16}, {1, 0, 4}};
  static constexpr Piece q5_0[] = {{0, 6, 16}, {1, 2, 4}, {2, 0, 2}};
  static constexpr Piece q5_1[] = {{0, 8, 16}, {1, 4, 4}, {2, 0, 4}};
  static constexpr Piece q8_0[] = {{0, 2, 32}, {1, 0, 2}};
  static constexpr Piece mxfp4[] = {{0, 1, 16}, {1, 0, 1}};
  static constexpr Piece q2_k[] = {{0, 16, 64}, {1, 0, 16}, {2, 80, 4}};
  static constexpr Piece q3_k[] = {{0, 32, 64}, {1, 0, 32}, {2, 96, 12}, {3, 108, 2}};
  static constexpr Piece q4_k[] = {{0, 16, 16}, {0, 48, 16}, {0, 80, 16}, {0, 112, 16}, {1, 32, 16}, {1, 64, 16}, {1, 96, 16}, {1, 128, 16}, {2, 0, 16}};
  static constexpr Piece q5_k[] = {{0, 48, 16}, {0, 80, 16},  {0, 112, 16}, {0, 144, 16}, {1, 64, 16},
                                   {1, 96, 16}, {1, 128, 16}, {1, 160, 16}, {2, 16, 32},  {3, 0, 16}};
  static constexpr Piece q6_k[] = {{0, 0, 16},  {0, 32, 16}, {0, 64, 16},  {0, 96, 16},  {1, 16, 16}, {1, 48, 16},
                                   {1, 80, 16}, {1, 112, 16}, {2, 128, 64}, {3, 192, 16}, {4, 208, 2}};
  static constexpr Piece iq4_xs[] = {{0, 8, 128}, {1, 0, 8}};
  static constexpr Piece tq1_0[] = {{0, 0, 48}, {1, 48, 4}, {2, 52, 2}};
  static constexpr Piece tq2_0[] = {{0, 0, 64}, {1, 64, 2}};
  static constexpr Piece iq1_s[] = {{0, 2, 32}, {1, 34, 16}, {2, 0, 2}};
  static constexpr Piece iq1_m[] = {{0, 0, 32}, {1, 32, 16}, {2, 48, 8}};
  static constexpr Piece iq2_xxs[] = {{0, 2, 64}, {1, 0, 2}};
  static constexpr Piece iq2_xs[] = {{0, 2, 64}, {1, 66, 8}, {2, 0, 2}};
  static constexpr Piece iq2_s[] = {{0, 2, 64}, {1, 66, 16}, {2, 0, 2}};
  static constexpr Piece iq3_xxs[] = {{0, 2, 96}, {1, 0, 2}};
  static constexpr Piece iq3_s[] = {{0, 2, 64}, {1, 74, 32}, {2, 66, 8}, {2, 106, 4}, {3, 0, 2}};
  switch (type) {
    case Type::Q4_0:
    case Type::IQ4_NL: return q4_0;
    case Type::Q4_1: return q4_1;
    case Type::Q5_0: return q5_0;
    case Type::Q5_1: return q5_1;
    case Type::Q8_0: return q8_0;
    case Type::MXFP4: return mxfp4;
    case Type::Q2_K: return q2_k;
    case Type::Q3_K: return q3_k;
    case Type::Q4_K: return q4_k;
    case Type::Q5_K: return q5_k;
    case Type::Q6_K: return q6_k;
    case Type::IQ4_XS: return iq4_xs;
    case Type::TQ1_0: return tq1_0;
    case Type::TQ2_0: return tq2_0;
    case Type::IQ1_S: return iq1_s;
    case Type::IQ1_M: return iq1_m;
    case Type::IQ2_XXS: return iq2_xxs;
    case Type::IQ2_XS: return iq2_xs;
    case Type::IQ2_S: return iq2_s;
    case Type::IQ3_XXS: return iq3_xxs;
    case Type::IQ3_S: return iq3_s;
    default: return {};
  }
}

bool is_plain(Type type) { return type == Type::F32 || type == Type::F16 || type == Type::BF16; }

uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// Copies `Bytes` of every block; the size is known to the compiler, so each copy is a few moves.
template <size_t Bytes>
void gather(const std::byte* in, size_t in_stride, std::byte* out, size_t out_stride, uint32_t blocks) {
  for (uint32_t b = 0; b < blocks; ++b, in += in_stride, out += out_stride) std::memcpy(out, in, Bytes);
}

void gather_piece(size_t bytes, const std::byte* in, size_t in_stride, std::byte* out, size_t out_stride, uint32_t blocks) {
  switch (bytes) {
    case 1: return gather<1>(in, in_stride, out, out_stride, blocks);
    case 2: return gather<2>(in, in_stride, out, out_stride, blocks);
    case 4: return gather<4>(in, in_stride, out, out_stride, blocks);
    case 8: return gather<8>(in, in_stride, out, out_stride, blocks);
    case 12: return gather<12>(in, in_stride, out, out_stride, blocks);
    case 16: return gather<16>(in, in_stride, out, out_stride, blocks);
    case 32: return gather<32>(in, in_stride, out, out_stride, blocks);
    case 48: return gather<48>(in, in_stride, out, out_stride, blocks);
    case 64: return gather<64>(in, in_stride, out, out_stride, blocks);
    case 96: return gather<96>(in, in_stride, out, out_stride, blocks);
    case 128: return gather<128>(in, in_stride, out, out_stride, blocks);
    default:
      for (uint32_t b = 0; b < blocks; ++b) std::memcpy(out + b * out_stride, in + b * in_stride, bytes);
  }
}

}  // namespace

Result<RowLayout> row_layout(Type type, uint64_t k) {
  const TypeTraits* traits = type_traits(type);
  const std::span<const Piece> pieces = pieces_of(type);
  if (traits == nullptr || (pieces.empty() && !is_plain(type)))
    return fail_f(ErrorKind::Unsupported, "weights of type {} cannot be used on the GPU",
                  traits == nullptr ? fmt::format("{}", static_cast<uint32_t>(type)) : traits->name);
  if (k == 0 || k % traits->block != 0)
    return fail_f(ErrorKind::InvalidArgument, "a row of {} weights is no multiple of the {} in a {} block", k, traits->block,
                  traits->name);
  if (k / traits->block > (UINT32_MAX - 256) / traits->bytes)
    return fail_f(ErrorKind::Unsupported, "a row of {} weights of type {} is longer than 4 GiB", k, traits->name);
  RowLayout layout{.type = type, .k = k, .blocks = static_cast<uint32_t>(k / traits->block)};
  layout.table_bytes = static_cast<uint32_t>(iq_grid(type).size() * 2);
  for (const Piece& piece : pieces) {
    layout.plane_block_bytes[piece.plane] += piece.bytes;
    layout.n_planes = piece.plane + 1u;
  }
  uint32_t offset = 0;
  for (uint32_t p = 0; p < layout.n_planes; ++p) {
    layout.plane_offset[p] = offset;
    offset += layout.plane_block_bytes[p] * layout.blocks;
  }
  layout.row_bytes = static_cast<uint32_t>(is_plain(type) ? round_up(k, 32) * traits->bytes : round_up(offset, 16));
  return layout;
}

uint64_t file_row_bytes(const RowLayout& layout) { return uint64_t{layout.blocks} * type_traits(layout.type)->bytes; }

bool as_in_file(const RowLayout& layout) { return pieces_of(layout.type).size() <= 1 && layout.row_bytes == file_row_bytes(layout); }

void relay_rows(const RowLayout& layout, std::span<const std::byte> rows, std::span<std::byte> out) {
  const size_t block = type_traits(layout.type)->bytes, in_row = block * layout.blocks;
  const size_t count = in_row == 0 ? 0 : rows.size() / in_row;
  const bool fits = count * in_row == rows.size() && out.size() == count * layout.row_bytes;
  assert(fits && "whole rows only");
  if (!fits) return;
  const std::span<const Piece> pieces = pieces_of(layout.type);
  for (size_t r = 0; r < count; ++r) {
    const std::byte* in = rows.data() + r * in_row;
    std::byte* to = out.data() + r * layout.row_bytes;
    if (pieces.size() <= 1) {
      std::memcpy(to, in, in_row);
    } else {
      size_t inside = 0;   // where in the plane's block the piece begins
      for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& piece = pieces[i];
        inside = i > 0 && pieces[i - 1].plane == piece.plane ? inside + pieces[i - 1].bytes : 0;
        gather_piece(piece.bytes, in + piece.file_offset, block, to + layout.plane_offset[piece.plane] + inside,
                     layout.plane_block_bytes[piece.plane], layout.blocks);
      }
    }
    std::memset(to + in_row, 0, layout.row_bytes - in_row);
  }
}

std::vector<std::byte> row_table(Type type) {
  const std::span<const uint16_t> grid = iq_grid(type);
  std::vector<std::byte> out;
  out.reserve(grid.size() * 2);
  for (const uint16_t entry : grid) out.push_back(static_cast<std::byte>(entry & 0xFF)), out.push_back(static_cast<std::byte>(entry >> 8));
  return out;
}

}  // namespace gull::gguf
