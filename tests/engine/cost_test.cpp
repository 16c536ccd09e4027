// What a decode step costs the CPU: no allocation in the replay of a Plan, at most one submission a step, few dispatches a layer.
#include <gtest/gtest.h>

#include "compute/allocations.h"
#include "engine/impl.h"
#include "engine/opened.h"
#include "support/fixtures.h"
#include "support/models.h"

namespace gull {
namespace {

using Ids = std::vector<int32_t>;

LoadOptions fast() {
  LoadOptions options = test::float32();
  options.precision = Precision::Fast;
  return options;
}

GenerateOptions greedy(int32_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = tokens;
  options.ignore_eog = true;
  return options;
}

GenerateOptions drawn(int32_t tokens) {
  GenerateOptions options = greedy(tokens);
  options.sampling = {};
  return options;
}

class DecodeCost : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    m_ = test::open(test::data(std::string("fixtures/models/") + GetParam()), fast());
    ASSERT_TRUE(m_);
    for (const auto& options : {greedy(8), drawn(8)}) ASSERT_TRUE(m_.session->generate(prompt_, options));   // Plans are recorded, pipelines and bind groups made
  }
  test::Opened m_;
  const Ids prompt_{20, 30, 40};
};

TEST_P(DecodeCost, ReplayAllocatesNothing) {
  Session::Impl& s = m_.session->impl();
  ASSERT_FALSE(s.plans.empty());
  auto commands = s.m().device->begin();
  ASSERT_TRUE(commands);
  const uint64_t before = test::allocations();
  size_t steps = 0;
  for (const auto& [kind, recorded] : s.plans) {
    if (kind == engine::PlanKind::Prefill) continue;
    recorded.plan->replay(*commands, {1, 1, 1}, 0, recorded.plan->segments());
    steps += recorded.plan->steps();
  }
  EXPECT_EQ(test::allocations(), before);
  EXPECT_GE(commands->dispatches(), 10u);
  EXPECT_LE(commands->dispatches(), steps);
}

/// The difference of two runs of one length after another is what the steps themselves take.
TEST_P(DecodeCost, SubmissionsAndDispatchesOfAStep) {
  const auto counts = [&](int32_t tokens, bool draws = false) {
    const Stats before = m_.model->stats();
    EXPECT_TRUE(m_.session->generate(prompt_, draws ? drawn(tokens) : greedy(tokens)));
    const Stats after = m_.model->stats();
    return std::pair(after.submissions - before.submissions, after.dispatches - before.dispatches);
  };
  const auto few = counts(20), many = counts(60);
  EXPECT_LE(many.first - few.first, 40u);
  const uint32_t layers = m_.session->impl().m().family->config().layers;
  const uint64_t dispatches = (many.second - few.second) / 40;   // five besides the layers: embedding, a norm, head, choice in two
  RecordProperty("dispatches_a_step", std::to_string(dispatches));
  EXPECT_LE(dispatches, 8u * layers + 5);
  const auto few_drawn = counts(20, true), many_drawn = counts(60, true);   // a draw costs no more than argmax
  EXPECT_LE(many_drawn.first - few_drawn.first, 40u);
  EXPECT_EQ(many_drawn.second - few_drawn.second, many.second - few.second);
  const Stats stats = m_.model->stats();
  EXPECT_TRUE(m_.session->generate(prompt_, greedy(30)));
  EXPECT_TRUE(m_.session->generate(prompt_, drawn(30)));
  const Stats again = m_.model->stats();
  EXPECT_EQ(again.pipeline_builds, stats.pipeline_builds);
  EXPECT_EQ(again.weight_uploads, stats.weight_uploads);
  EXPECT_EQ(again.memory.total, stats.memory.total);
}

INSTANTIATE_TEST_SUITE_P(Llama, DecodeCost, testing::Values("llama.f32.gguf", "q128.Q4_0.gguf", "q128.Q8_0.gguf", "q256.Q4_K_M.gguf"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(DecodeCost, SmolLM2) {
  const auto path = test::smollm2();
  if (!path) return;
  const test::Opened m = test::open(*path, fast());
  ASSERT_TRUE(m);
  ASSERT_TRUE(m.session->generate(Ids{504, 3575}, greedy(4)));
  Session::Impl& s = m.session->impl();
  const auto recorded = s.plan(s.decode_kind(10));
  ASSERT_TRUE(recorded);
  const size_t steps = (*recorded)->plan->steps();
  std::printf("%zu dispatches for 30 layers and the head\n", steps);
  EXPECT_LE(steps, 30u * 8);
}

}  // namespace
}  // namespace gull
