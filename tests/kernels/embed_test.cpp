// Weights as the GPU decodes them, against the CPU dequantisers, which equal gguf-py bit for bit (tests/gguf).
// All products are exact in float32 and at most one sum is rounded, so nothing but the sign of a zero may differ
// (d·q − 8·d is +0 where d·(q − 8) is −0), and what a GPU flushes below 2⁻¹²⁶ (WGSL lets it).
#include <cmath>

#include "kernels/random_blocks.h"

namespace gull::test {
namespace {

class Decode : public testing::TestWithParam<gguf::Type> {};

/// All rows of a table by look-ups in a scrambled order.
std::vector<float> looked_up(Mode mode, gguf::Type type, uint32_t k, uint32_t rows, const std::vector<std::byte>& raw, uint64_t max_tile,
                             std::vector<uint32_t> order) {
  const auto n = static_cast<uint32_t>(order.size());
  Lab lab(mode, n, max_tile);
  lab.tensor("table", type, {k, rows}, raw);
  const auto ids = lab.ids(order);
  const auto x = lab.rows("x", k);
  lab.run(n, 0, exact_choices(mode), [&](kernels::Recorder& r) { kernels::embed(r, lab.weight("table"), ids, x); }, false);
  return lab.output(x, n);
}

std::vector<uint32_t> scrambled(uint32_t rows) {
  std::vector<uint32_t> order(rows);
  for (uint32_t i = 0; i < rows; ++i) order[i] = (i * 5 + 3) % rows;
  return order;
}

TEST_P(Decode, EveryWeightEqualsTheCpuDecoder) {
  const auto& traits = *gguf::type_traits(GetParam());
  const uint32_t rows = 16;
  for (const uint32_t k : {traits.block, traits.block * 3, traits.block == 1 ? 100u : traits.block * 5}) {
    Random random(k);
    const auto raw = any_blocks(GetParam(), size_t{rows} * k / traits.block, random);
    const auto expected = dequantized(GetParam(), raw);
    const auto order = scrambled(rows);
    for (const Mode mode : {Mode::Plain, Mode::Checked}) {
      SCOPED_TRACE(testing::Message() << name(mode) << ", k " << k);
      const auto got = looked_up(mode, GetParam(), k, rows, raw, 0, order);
      for (size_t i = 0; i < got.size(); ++i) {
        const float want = expected[order[i / k] * k + i % k];
        if (std::fabs(want) < 0x1p-126f) ASSERT_LT(std::fabs(got[i]), 0x1p-126f) << "weight " << i;
        else ASSERT_EQ(got[i], want) << "weight " << i;
      }
    }
  }
}

TEST_P(Decode, TilesGiveTheSame) {
  const auto& traits = *gguf::type_traits(GetParam());
  const uint32_t k = traits.block == 1 ? 96 : traits.block * 3, rows = 21;
  Random random(7);
  const auto raw = any_blocks(GetParam(), size_t{rows} * k / traits.block, random);
  const auto layout = must(gguf::row_layout(GetParam(), k));
  const uint64_t five_rows = uint64_t{5} * layout.row_bytes + layout.table_bytes;
  const auto whole = looked_up(Mode::Plain, GetParam(), k, rows, raw, 0, scrambled(rows));
  const auto tiled = looked_up(Mode::Plain, GetParam(), k, rows, raw, five_rows, scrambled(rows));
  EXPECT_EQ(0, std::memcmp(whole.data(), tiled.data(), whole.size() * 4));
}

INSTANTIATE_TEST_SUITE_P(Types, Decode, testing::ValuesIn(kTypes), type_test_name);

}  // namespace
}  // namespace gull::test
