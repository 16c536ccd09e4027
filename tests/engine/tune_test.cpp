// Tuning: what `tune` measures and leaves behind, and that every shape it may choose gives a model's right logits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/impl.h"
#include "engine/opened.h"
#include "kernels/tuning.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using Ids = std::vector<int32_t>;

/// Longer than 64 tokens, so that the shapes of large batches are used.
Ids prompt() {
  Ids ids(70);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + i * 7 % 90);
  return ids;
}

LoadOptions fast(const Tuning& tuning = {}) {
  LoadOptions options;
  options.context = 96;
  options.tuning = [tuning](const DeviceInfo&) { return tuning; };
  return options;
}

std::string model() { return test::data("fixtures/models/q256.Q4_K_M.gguf"); }

/// Logits of a prompt, then of nine more tokens at once, then of one.
std::vector<float> logits(const test::Opened& m) {
  m.session->reset();
  std::vector<float> all;
  const Ids first = prompt(), few{5, 6, 7, 8, 9, 10, 11, 12, 13}, one{14};
  for (const Ids* ids : {&first, &few, &one}) {
    auto some = m.session->logits(*ids);
    EXPECT_TRUE(some) << some.error().message;
    if (some) all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

TEST(Tune, EveryShapeGivesTheSameLogits) {
  const test::Opened plain = test::open(model(), fast());
  ASSERT_TRUE(plain);
  const auto want = logits(plain);
  const auto known = kernels::tuning_choices(plain.model->impl().device->caps());
  for (size_t i = 0; i < std::max({known.matmul8.size(), known.matmul.size(), known.matvec8.size(), known.few.size()}); ++i) {
    const auto at = [i](const auto& list) { return list[i % list.size()]; };
    const Tuning tuning{at(known.matmul8), at(known.matmul), at(known.matvec8), at(known.gated8), at(known.few)};
    SCOPED_TRACE(testing::Message() << "number " << i);
    const test::Opened tuned = test::open(model(), fast(tuning));
    ASSERT_TRUE(tuned);
    EXPECT_TRUE(tuned.model->impl().choices.tuning == tuning);
    const auto got = logits(tuned);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LE(test::max_difference(got.data(), want.data(), got.size()), 2e-3f);   // sums in another order, then rounded to 8 bits
  }
}

TEST(Tune, UnknownShapesAreIgnored) {
  const test::Opened m = test::open(model(), fast({{7, 7, 7}, {1u << 31, 64, 1}, {0, 32}, {3, 5}, {64, 1}}));
  ASSERT_TRUE(m);
  EXPECT_TRUE(m.model->impl().choices.tuning == Tuning{});
  EXPECT_EQ(logits(m), logits(test::open(model(), fast())));
}

TEST(Tune, MeasuresEveryKernelAndLeavesTheModelAsItWas) {
  const test::Opened m = test::open(model(), fast());
  ASSERT_TRUE(m);
  const auto before = logits(m);
  uint32_t last = 0, all = 0;
  auto result = tune(m.model, [&](uint32_t done, uint32_t total, const std::string& what) {
    EXPECT_GE(done, last);
    EXPECT_LT(done, total);
    EXPECT_FALSE(what.empty());
    last = done, all = total;
  });
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE(all, result->measured.size());
  std::map<std::string, int> own, chosen;
  for (const TuneMeasurement& t : result->measured) {
    EXPECT_GT(t.seconds, 0);
    own[t.kernel] += t.shape == "gull's own", chosen[t.kernel] += t.chosen;
  }
  const bool packed = m.model->impl().choices.packed_dot;
  EXPECT_EQ(own.size(), packed ? 5u : 2u);
  for (const auto& [kernel, count] : own) EXPECT_TRUE(count == 1 && chosen[kernel] == 1) << kernel;
  EXPECT_TRUE(kernels::proven(m.model->impl().device->caps(), result->tuning) == result->tuning);
  EXPECT_EQ(logits(m), before);
}

TEST(Tune, CanBeCancelled) {
  const test::Opened m = test::open(model(), fast());
  ASSERT_TRUE(m);
  CancelFlag cancel = false;
  auto result = tune(m.model, [&](uint32_t done, uint32_t, const std::string&) { cancel = done == 1; }, &cancel);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::Cancelled);
  EXPECT_TRUE(m.model->impl().choices.tuning == Tuning{});
  auto embedding = Model::load(test::data("fixtures/models/bert-bge.f16.gguf"));
  ASSERT_TRUE(embedding);
  EXPECT_EQ(tune(*embedding).error().kind, ErrorKind::Unsupported);
}

}  // namespace
}  // namespace gull
