// The CPU dequantisers against gguf-py, bit for bit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/sha256.h"
#include "gguf/test_files.h"
#include "gull/gguf.h"

using namespace gull;
using namespace gull::gguf;

// Rows of real tensors, dequantised by gguf-py.
class Rows : public testing::TestWithParam<std::string> {};

TEST_P(Rows, EqualGgufPy) {
  const auto type = type_from_name(GetParam());
  ASSERT_TRUE(type);
  const auto raw = read_file(data_path("dequant/" + GetParam() + ".raw")),
             expected = read_file(data_path("dequant/" + GetParam() + ".f32"));
  ASSERT_FALSE(expected.empty());
  std::vector<float> out(expected.size() / 4);
  const auto done = dequantize(*type, raw, out);
  ASSERT_TRUE(done) << done.error().message;
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(std::memcmp(&out[i], &expected[4 * i], 4), 0) << "weight " << i << ": " << out[i];
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Rows,
                         testing::Values("BF16", "IQ4_NL", "Q2_K", "Q3_K", "Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_1", "Q5_K", "Q6_K",
                                         "Q8_0"),
                         [](const auto& info) { return info.param; });

namespace {

/// The bytes that make_dequant_cases.py makes.
std::vector<std::byte> random_blocks(Type type, size_t blocks) {
  const size_t size = type_traits(type)->bytes;
  std::vector<std::byte> raw(blocks * size);
  uint64_t x = 1;
  for (std::byte& b : raw) b = static_cast<std::byte>((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
  const auto finite = [&](size_t high) {
    for (size_t at = high; at < raw.size(); at += size)
      if ((raw[at] & std::byte{0x7C}) == std::byte{0x7C}) raw[at] &= std::byte{0xBF};
  };
  switch (type) {
    case Type::MXFP4: break;
    case Type::IQ1_M:
      for (size_t at = 55; at < raw.size(); at += size) raw[at] &= std::byte{0xBF};
      break;
    case Type::Q2_K: finite(81), finite(83); break;
    case Type::Q3_K: finite(109); break;
    case Type::Q6_K: finite(209); break;
    case Type::TQ1_0: finite(53); break;
    case Type::TQ2_0: finite(65); break;
    case Type::Q4_1:
    case Type::Q5_1:
    case Type::Q4_K:
    case Type::Q5_K: finite(1), finite(3); break;
    default: finite(1);
  }
  return raw;
}

}  // namespace

// Random blocks of every type, against gguf-py's values.
TEST(Dequantize, RandomBlocksEqualGgufPy) {
  std::ifstream cases(data_path("dequant_cases.txt"));
  std::string name, raw_hash, values_hash, first;
  size_t blocks = 0, count = 0;
  while (cases >> name >> blocks >> raw_hash >> values_hash >> first) {
    SCOPED_TRACE(name);
    const auto type = type_from_name(name);
    ASSERT_TRUE(type);
    const auto raw = random_blocks(*type, blocks);
    ASSERT_EQ(sha256_hex(raw), raw_hash) << "the test makes other bytes than the script";
    std::vector<float> out(blocks * type_traits(*type)->block);
    ASSERT_TRUE(dequantize(*type, raw, out));
    std::string begin;
    for (size_t i = 0; i < 32; ++i) begin += fmt::format("{:02x}", reinterpret_cast<const unsigned char*>(out.data())[i]);
    EXPECT_EQ(begin, first);
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(out))), values_hash);
    ++count;
  }
  EXPECT_EQ(count, 23u);
}

TEST(Dequantize, RefusesSpansThatDoNotFit) {
  std::vector<std::byte> raw(18 * 2);
  std::vector<float> out(64);
  EXPECT_TRUE(dequantize(Type::Q4_0, raw, out));
  EXPECT_FALSE(dequantize(Type::Q4_0, std::span(raw).first(35), out));
  EXPECT_FALSE(dequantize(Type::Q4_0, raw, std::span(out).first(63)));
  EXPECT_EQ(dequantize(Type::I32, raw, out).error().kind, ErrorKind::Unsupported);
}
