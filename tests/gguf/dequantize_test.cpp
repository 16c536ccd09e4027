// The CPU dequantisers against gguf-py, bit for bit.
#include <gtest/gtest.h>

#include <filesystem>

#include "gguf/test_files.h"
#include "gull/gguf.h"

using namespace gull;
using namespace gull::gguf;

// Rows of real tensors, dequantised by gguf-py.
class Rows : public testing::TestWithParam<std::string> {};

TEST_P(Rows, EqualGgufPy) {
  const auto type = type_from_name(GetParam());
  ASSERT_TRUE(type);
  const auto raw = read_file(data_path("dequant/" + GetParam() + ".raw")), expected = read_file(data_path("dequant/" + GetParam() + ".f32"));
  ASSERT_FALSE(expected.empty());
  std::vector<float> out(expected.size() / 4);
  const auto done = dequantize(*type, raw, out);
  ASSERT_TRUE(done) << done.error().message;
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(std::memcmp(&out[i], &expected[4 * i], 4), 0) << "weight " << i << ": " << out[i];
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Rows,
                         testing::Values("BF16", "IQ4_NL", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q8_0"),
                         [](const auto& info) { return info.param; });

TEST(Dequantize, RefusesSpansThatDoNotFit) {
  std::vector<std::byte> raw(18 * 2);
  std::vector<float> out(64);
  EXPECT_TRUE(dequantize(Type::Q4_0, raw, out));
  EXPECT_FALSE(dequantize(Type::Q4_0, std::span(raw).first(35), out));
  EXPECT_FALSE(dequantize(Type::Q4_0, raw, std::span(out).first(63)));
  EXPECT_EQ(dequantize(Type::I32, raw, out).error().kind, ErrorKind::Unsupported);
}
