// The GPU layout against its description in words: planes written out block by block from a table of its own.
#include "gguf/row_layout.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace gull;
using namespace gull::gguf;

namespace {

/// For each plane, the file bytes of a block that it takes, in order.
using Planes = std::vector<std::vector<int>>;

std::vector<int> range(int first, int count) {
  std::vector<int> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Four times 16 bytes, each second one.
std::vector<int> sixteens(int first) {
  std::vector<int> out;
  for (int i = 0; i < 4; ++i) out = joined(out, range(first + 32 * i, 16));
  return out;
}

struct Case {
  Type type;
  Planes planes;
};

const Case kCases[] = {
    {Type::Q4_0, {range(2, 16), range(0, 2)}},
    {Type::Q4_1, {range(4, 16), range(0, 4)}},
    {Type::Q5_0, {range(6, 16), range(2, 4), range(0, 2)}},
    {Type::Q5_1, {range(8, 16), range(4, 4), range(0, 4)}},
    {Type::Q8_0, {range(2, 32), range(0, 2)}},
    {Type::Q2_K, {range(16, 64), range(0, 16), range(80, 4)}},
    {Type::Q3_K, {range(32, 64), range(0, 32), range(96, 12), range(108, 2)}},
    {Type::Q4_K, {sixteens(16), sixteens(32), range(0, 16)}},
    {Type::Q5_K, {sixteens(48), sixteens(64), range(16, 32), range(0, 16)}},
    {Type::Q6_K, {sixteens(0), sixteens(16), range(128, 64), range(192, 16), range(208, 2)}},
    {Type::IQ4_NL, {range(2, 16), range(0, 2)}},
    {Type::IQ4_XS, {range(8, 128), range(0, 8)}},
    {Type::MXFP4, {range(1, 16), range(0, 1)}},
    {Type::TQ1_0, {range(0, 48), range(48, 4), range(52, 2)}},
    {Type::TQ2_0, {range(0, 64), range(64, 2)}},
    {Type::IQ1_S, {range(2, 32), range(34, 16), range(0, 2)}},
    {Type::IQ1_M, {range(0, 32), range(32, 16), range(48, 8)}},
    {Type::IQ2_XXS, {range(2, 64), range(0, 2)}},
    {Type::IQ2_XS, {range(2, 64), range(66, 8), range(0, 2)}},
    {Type::IQ2_S, {range(2, 64), range(66, 16), range(0, 2)}},
    {Type::IQ3_XXS, {range(2, 96), range(0, 2)}},
    {Type::IQ3_S, {range(2, 64), range(74, 32), joined(range(66, 8), range(106, 4)), range(0, 2)}},
};

std::vector<std::byte> numbered(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 2654435761u >> 13 | 1);  // never 0, so that padding shows
  return out;
}

}  // namespace

TEST(RowLayout, PlanesAreAsDescribed) {
  for (const Case& c : kCases) {
    const TypeTraits& traits = *type_traits(c.type);
    SCOPED_TRACE(traits.name);
    for (uint32_t blocks : {1u, 3u, 16u, 17u}) {
      const auto layout = row_layout(c.type, blocks * traits.block);
      ASSERT_TRUE(layout) << layout.error().message;
      ASSERT_EQ(layout->n_planes, c.planes.size());
      EXPECT_EQ(layout->blocks, blocks);
      EXPECT_EQ(layout->row_bytes, (blocks * traits.bytes + 15) / 16 * 16);
      const size_t rows = 3;
      const auto file = numbered(rows * blocks * traits.bytes);
      std::vector<std::byte> expected(rows * layout->row_bytes), got(expected.size(), std::byte{0xEE});
      for (size_t r = 0; r < rows; ++r) {
        size_t at = r * layout->row_bytes;
        for (size_t p = 0; p < c.planes.size(); ++p) {
          EXPECT_EQ(layout->plane_offset[p], at - r * layout->row_bytes);
          EXPECT_EQ(layout->plane_block_bytes[p], c.planes[p].size());
          for (uint32_t b = 0; b < blocks; ++b)
            for (int from : c.planes[p]) expected[at++] = file[(r * blocks + b) * traits.bytes + from];
        }
      }
      relay_rows(*layout, file, got);
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(RowLayout, PlainTypesArePaddedTo32Weights) {
  for (auto [type, bytes] : {std::pair{Type::F32, 4u}, {Type::F16, 2u}, {Type::BF16, 2u}}) {
    for (uint32_t k : {1u, 31u, 32u, 33u, 64u}) {
      const auto layout = row_layout(type, k);
      ASSERT_TRUE(layout);
      EXPECT_EQ(layout->n_planes, 0u);
      ASSERT_EQ(layout->row_bytes, (k + 31) / 32 * 32 * bytes);
      const auto file = numbered(2 * k * bytes);
      std::vector<std::byte> got(2 * layout->row_bytes, std::byte{0xEE}), expected(got.size());
      for (size_t r = 0; r < 2; ++r)
        std::copy_n(file.begin() + r * k * bytes, k * bytes, expected.begin() + r * layout->row_bytes);
      relay_rows(*layout, file, got);
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(RowLayout, LargePlanesStartAtMultiplesOf16) {
  for (const Case& c : kCases)
    for (uint32_t blocks = 1; blocks < 20; ++blocks) {
      const auto layout = row_layout(c.type, blocks * type_traits(c.type)->block);
      for (uint32_t p = 0; p < layout->n_planes; ++p) {
        const uint32_t bytes = layout->plane_block_bytes[p];
        EXPECT_EQ(layout->plane_offset[p] % (bytes % 16 == 0  ? 16
                                             : bytes % 4 == 0 ? 4
                                             : bytes % 2 == 0 ? 2
                                                              : 1),
                  0u)
            << type_traits(c.type)->name << " plane " << p;
      }
    }
}

TEST(RowLayout, Refusals) {
  EXPECT_EQ(row_layout(Type::Q4_0, 33).error().kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(row_layout(Type::Q4_0, 0).error().kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(row_layout(Type::I32, 32).error().kind, ErrorKind::Unsupported);
  EXPECT_EQ(row_layout(Type::Q8_K, 256).error().kind, ErrorKind::Unsupported);
  EXPECT_EQ(row_layout(Type::F32, 1ull << 30).error().kind, ErrorKind::Unsupported);
  EXPECT_EQ(row_layout(Type::F32, ~0ull).error().kind, ErrorKind::Unsupported);
}
