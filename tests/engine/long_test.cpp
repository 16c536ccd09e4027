// 560 tokens through tiny models, more than the 512 of one prefill step: in one call, step by step, and in uneven pieces,
// against llama.cpp's logits (make_long_goldens.py) on every kind of device.
#include <gtest/gtest.h>

#include "engine/opened.h"
#include "engine/variants.h"

namespace gull {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

struct LongCase {
  std::string model;
  test::Variant variant;
};

void PrintTo(const LongCase& c, std::ostream* out) { *out << c.model << " " << c.variant.name; }

class LongPrompt : public testing::TestWithParam<LongCase> {
 protected:
  void SetUp() override {
    const json index = test::read_json(test::data("real/tiny.json"));
    ids_ = index["ids"].get<Ids>();
    positions_ = index["positions"].get<std::vector<size_t>>();
    expected_ = test::read_f32(test::data("real/tiny-" + GetParam().model + ".f32"));
    LoadOptions options = GetParam().variant.options;
    options.context = 600;
    m_ = test::open(test::data("fixtures/models/" + index["models"][GetParam().model].get<std::string>()), options);
    ASSERT_TRUE(m_);
    // The tiny models' own tolerances; GELU comes from a float16 table in this reference, so gemma3 gets llama.cpp's own distance
    // to transformers thrice.
    tolerance_ = options.precision == Precision::Fast ? 0.08f : GetParam().model == "gemma3" ? 0.02f : 0.002f;
  }

  void expect(size_t position, const float* row, const char* way) {
    for (size_t i = 0; i < positions_.size(); ++i) {
      if (positions_[i] != position) continue;
      EXPECT_LE(test::max_difference(row, expected_.data() + i * m_.model->vocabulary(), m_.model->vocabulary()), tolerance_) << way << ", position " << position;
    }
  }

  /// Feeds [from, to) in one call and compares the last row.
  void feed(size_t from, size_t to, const char* way) {
    auto row = m_.session->logits(std::span<const int32_t>(ids_).subspan(from, to - from));
    ASSERT_TRUE(row) << row.error().message;
    expect(to - 1, row->data(), way);
  }

  Ids ids_;
  std::vector<size_t> positions_;
  std::vector<float> expected_;
  test::Opened m_;
  float tolerance_ = 0;
};

TEST_P(LongPrompt, AtOnce) {
  ASSERT_EQ(ids_.size(), 560u);
  feed(0, ids_.size(), "at once");
  m_.session->reset();
  auto all = m_.session->logits(ids_, true);
  ASSERT_TRUE(all) << all.error().message;
  for (size_t position : positions_) expect(position, all->data() + position * m_.model->vocabulary(), "all rows");
}

TEST_P(LongPrompt, StepByStep) {
  for (size_t i = 0; i < ids_.size(); ++i) feed(i, i + 1, "step by step");
}

TEST_P(LongPrompt, InPieces) {
  size_t at = 0;
  for (size_t n : {1, 63, 65, 128, 44, 210, 1, 1, 1, 40}) feed(at, at + n, "in pieces"), at += n;
  feed(at, ids_.size(), "in pieces");
}

std::vector<LongCase> long_cases() {
  std::vector<LongCase> out;
  for (const char* model : {"llama", "gemma3", "mamba", "lfm2", "falcon-h1"})
    for (const test::Variant& variant : test::variants()) out.push_back({model, variant});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Tiny, LongPrompt, testing::ValuesIn(long_cases()), [](const auto& info) {
  std::string name = info.param.model + "_" + info.param.variant.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace gull
