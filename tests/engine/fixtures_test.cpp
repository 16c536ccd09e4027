// Every tiny fixture of an architecture that gull runs: logits within the stated tolerance and the greedy ids, on the
// device as it is, on WebGPU's default limits, and with each optional feature forced off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/variants.h"
#include "gull/engine.h"
#include "support/fixtures.h"

namespace gull {
namespace {

class Fixture : public testing::TestWithParam<test::Case> {};

TEST_P(Fixture, LogitsAndGreedyIds) {
  const auto& c = GetParam().json;
  auto model = Model::load(GetParam().path("model"), GetParam().variant.options);
  ASSERT_TRUE(model) << model.error().message;
  auto session = Session::create(*model);
  ASSERT_TRUE(session) << session.error().message;
  const auto prompt = c["prompt"].get<std::vector<int32_t>>();
  auto logits = (*session)->logits(prompt, true);
  ASSERT_TRUE(logits) << logits.error().message;
  const auto expected = test::read_f32(GetParam().path("logits"));
  const size_t vocabulary = (*model)->vocabulary();
  const size_t first = c.value("first_position", 0);
  ASSERT_EQ(logits->size(), prompt.size() * vocabulary);
  ASSERT_EQ(expected.size(), (prompt.size() - first) * vocabulary);
  const float worst = test::max_difference(logits->data() + first * vocabulary, expected.data(), expected.size());
  const bool fast = GetParam().variant.options.precision == Precision::Fast;
  const float tolerance = c[fast ? "tol_f16" : "tol_f32"].get<float>();
  EXPECT_LE(worst, tolerance);
  RecordProperty("max_difference", std::to_string(worst));

  // The same prompt in three pieces: what the session keeps between them (cache, states) is all that the last one needs.
  (*session)->reset();
  const std::span<const int32_t> ids(prompt);
  ASSERT_TRUE((*session)->logits(ids.first(5)));
  ASSERT_TRUE((*session)->logits(ids.subspan(5, ids.size() - 6)));
  auto last = (*session)->logits(ids.last(1));
  ASSERT_TRUE(last) << last.error().message;
  EXPECT_LE(test::max_difference(last->data(), expected.data() + expected.size() - vocabulary, vocabulary), tolerance);

  // Decoding one token at a time, where the margin leaves no doubt.
  if (worst > c["greedy_min_margin"].get<float>() / 2) return;
  (*session)->reset();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 16;
  options.ignore_eog = true;
  auto made = (*session)->generate(prompt, options);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, testing::ElementsAreArray(c["greedy"].get<std::vector<int32_t>>()));
}

INSTANTIATE_TEST_SUITE_P(All, Fixture, testing::ValuesIn(test::cases("logits")), test::case_name);

}  // namespace
}  // namespace gull
