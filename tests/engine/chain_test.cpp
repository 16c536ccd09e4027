// Steps joined into one dispatch (dispatch/chain.h) give what the same steps give one by one, and what llama.cpp gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/impl.h"
#include "engine/opened.h"
#include "engine/variants.h"

namespace gull {
namespace {

using Ids = std::vector<int32_t>;

LoadOptions options(Joined joined) {
  LoadOptions out;
  out.joined = joined;
  out.context = 512;
  return out;
}

/// Dispatches that are chains, of the Plan for single tokens within the short context.
size_t chains(const test::Opened& m) {
  const auto& plans = m.session->impl().plans;
  const auto it = plans.find(engine::PlanKind::DecodeShort);
  size_t count = 0;
  for (size_t i = 0; it != plans.end() && i < it->second.plan->steps(); ++i) count += it->second.plan->step(i).pipeline->label().starts_with("chain");
  return count;
}

/// The logits of one token after another.
std::vector<std::vector<float>> decode(const test::Opened& m, const Ids& ids) {
  std::vector<std::vector<float>> rows;
  for (int32_t id : ids) {
    auto row = m.session->logits(std::span<const int32_t>(&id, 1));
    EXPECT_TRUE(row) << row.error().message;
    if (!row) break;
    rows.push_back(std::move(*row));
  }
  return rows;
}

/// The fixtures with types that have 8-bit kernels.
std::vector<test::Case> quantised() {
  std::vector<test::Case> out;
  for (const test::Case& c : test::cases("logits")) {
    const std::string model = c.json["model"];
    const bool wanted = model.find("Q4_0") != std::string::npos || model.find("Q8_0") != std::string::npos || model.find("K_M") != std::string::npos;
    if (wanted && std::string_view(c.variant.name) == "fast") out.push_back(c);
  }
  return out;
}

class JoinedFixture : public testing::TestWithParam<test::Case> {};

TEST_P(JoinedFixture, LogitsAndGreedyIds) {
  const auto& c = GetParam().json;
  const auto m = test::open(GetParam().path("model"), options(Joined::On));
  ASSERT_TRUE(m);
  const auto prompt = c["prompt"].get<Ids>();
  const auto expected = test::read_f32(GetParam().path("logits"));
  const size_t vocabulary = m.model->vocabulary(), first = c.value("first_position", 0);
  const auto rows = decode(m, prompt);
  ASSERT_EQ(rows.size(), prompt.size());
  float worst = 0;
  for (size_t i = first; i < rows.size(); ++i) worst = std::max(worst, test::max_difference(rows[i].data(), expected.data() + (i - first) * vocabulary, vocabulary));
  EXPECT_LE(worst, c["tol_f16"].get<float>());
  EXPECT_EQ(chains(m), m.session->impl().m().family->config().layers);
  if (worst > c["greedy_min_margin"].get<float>() / 2) return;
  GenerateOptions greedy;
  greedy.sampling.temperature = 0;
  greedy.max_tokens = 16;
  greedy.ignore_eog = true;
  auto made = m.session->generate(prompt, greedy);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, testing::ElementsAreArray(c["greedy"].get<Ids>()));
}

INSTANTIATE_TEST_SUITE_P(Quantised, JoinedFixture, testing::ValuesIn(quantised()), test::case_name);

/// GULL_JOINED_MODEL names another file, GULL_JOINED_TOKENS how many tokens: for devices with kernels that no processor has.
TEST(Joined, EqualsStepByStep) {
  const char* file = std::getenv("GULL_JOINED_MODEL");
  const char* count = std::getenv("GULL_JOINED_TOKENS");
  const std::string path = file ? file : test::data("fixtures/models/q256.Q4_K_M.gguf");
  const auto joined = test::open(path, options(Joined::On)), apart = test::open(path, options(Joined::Off));
  ASSERT_TRUE(joined && apart);
  Ids ids;
  for (int32_t i = 0; i < (count ? std::atoi(count) : 12); ++i) ids.push_back((i * 37 + 5) % static_cast<int32_t>(joined.model->vocabulary()));
  const auto a = decode(joined, ids), b = decode(apart, ids);
  EXPECT_GT(chains(joined), 1u);
  EXPECT_EQ(chains(apart), 0u);
  ASSERT_EQ(a.size(), b.size());
  // Other shapes add up in another order, and 8-bit activations round what is left of that.
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(test::max_difference(a[i].data(), b[i].data(), a[i].size()), file ? 0.05f : 2e-3f) << "token " << i;
}

/// Steps that a budget of weights runs one by one are not joined, whatever is asked for.
TEST(Joined, NotUnderABudget) {
  LoadOptions bounded = options(Joined::On);
  bounded.gpu_budget = 64u << 20;
  const auto m = test::open(test::data("fixtures/models/q256.Q4_K_M.gguf"), bounded);
  ASSERT_TRUE(m);
  ASSERT_EQ(decode(m, {5, 6, 7}).size(), 3u);
  EXPECT_EQ(chains(m), 0u);
}

}  // namespace
}  // namespace gull
