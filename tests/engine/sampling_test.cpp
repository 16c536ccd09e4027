// Sampling on the GPU against engine::Sampler, which reads logits back and is forced by asking for log-probabilities: the same
// tokens for the same seed, whatever is in flight; and what a session is after it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/forced.h"
#include "engine/impl.h"
#include "engine/opened.h"
#include "engine/sampler.h"
#include "engine/token_stream.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using engine::PlanKind;
using Ids = std::vector<int32_t>;
using testing::ElementsAre;
using testing::ElementsAreArray;

SamplingOptions sampling(float temperature, uint32_t top_k, float top_p, float min_p) {
  SamplingOptions s;
  s.temperature = temperature, s.top_k = top_k, s.top_p = top_p, s.min_p = min_p;
  return s;
}

/// Each way through the kernels, with and without penalties and biases.
std::vector<SamplingOptions> many() {
  std::vector<SamplingOptions> out{SamplingOptions{}, sampling(1.5f, 40, 0.95f, 0.05f), sampling(2, 128, 1, 0), sampling(1, 0, 1, 0), sampling(1, 0, 1, 0.1f),
                                   sampling(1.3f, 0, 0.8f, 0), sampling(1, 200, 0.9f, 0.01f), sampling(3, 150, 1, 0), sampling(0.7f, 5000, 1, 0)};
  for (size_t i = out.size(); i-- > 0;) {
    SamplingOptions s = out[i];
    s.repeat_penalty = 1.2f, s.frequency_penalty = 0.3f, s.presence_penalty = 0.1f, s.repeat_last = i % 2 ? 8 : 64;
    if (i % 3 == 0) s.logit_bias = {{40, 2.5f}, {41, -INFINITY}, {42, 1.0f}, {42, 0.5f}, {-1, 9}, {5000, 9}};
    out.push_back(s);
  }
  return out;
}

class Sampled : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    m_ = test::open(path(), test::float32());
    ASSERT_TRUE(m_);
  }
  std::string path() const { return test::data(std::string("fixtures/models/") + GetParam()); }
  GenerateResult generate(Session& session, const GenerateOptions& options) {
    auto made = session.generate(prompt_, options);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : GenerateResult{};
  }
  static GenerateOptions options(const SamplingOptions& s, uint64_t seed, int32_t tokens) {
    GenerateOptions out;
    out.sampling = s;
    out.sampling.seed = seed;
    out.max_tokens = tokens;
    out.ignore_eog = true;
    return out;
  }
  static GenerateOptions on_the_cpu(GenerateOptions o) {
    o.logprobs = 1;
    return o;
  }
  test::Opened m_;
  const Ids prompt_{20, 30, 40, 30, 50};
};

TEST_P(Sampled, TheSameOnGpuAndCpu) {
  uint64_t seed = 0x100000001;
  for (const SamplingOptions& s : many()) {
    const auto o = options(s, ++seed, 40);
    ASSERT_TRUE(engine::gpu_choice(o, 288));
    const auto on_gpu = generate(*m_.session, o), on_cpu = generate(*m_.session, on_the_cpu(o));
    EXPECT_EQ(on_gpu.ids, on_cpu.ids) << "temperature " << s.temperature << ", top_k " << s.top_k << ", top_p " << s.top_p << ", min_p " << s.min_p
                                      << ", repeat " << s.repeat_penalty;
    EXPECT_EQ(on_gpu.text, on_cpu.text);
    EXPECT_EQ(on_gpu.stop, StopReason::MaxTokens);
  }
}

TEST_P(Sampled, TheSameUnderABudgetOfWeights) {
  LoadOptions bounded = test::float32();
  bounded.gpu_budget = 1 << 20;
  const test::Opened small = test::open(path(), bounded);
  ASSERT_TRUE(small);
  for (const size_t i : {1u, 5u, 17u}) {
    const auto o = options(many()[i], 7 + i, 12);
    EXPECT_EQ(generate(*small.session, o).ids, generate(*m_.session, o).ids);
  }
}

/// After a generation the cache holds all tokens but the last, which was only chosen; steps run ahead leave no trace.
TEST_P(Sampled, GoesOnWhereItEnded) {
  const auto o = options(sampling(1.5f, 40, 0.95f, 0.05f), 3, 30);
  const Ids all = generate(*m_.session, o).ids;
  for (int32_t stop_after : {1, 5, 18}) {
    int pieces = 0;
    auto made = m_.session->generate(prompt_, o, [&](const Piece&) { return ++pieces < stop_after; });
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->stop, StopReason::Callback);
    EXPECT_THAT(made->ids, ElementsAreArray(all.begin(), all.begin() + stop_after));
    EXPECT_EQ(m_.session->position(), prompt_.size() + stop_after - 1);
    auto next = m_.session->logits(Ids{made->ids.back()});
    ASSERT_TRUE(next) << next.error().message;
    Ids whole = prompt_;
    whole.insert(whole.end(), made->ids.begin(), made->ids.end());
    auto fresh = m_.another();
    auto expected = fresh->logits(whole);
    ASSERT_TRUE(expected);
    EXPECT_LE(test::max_difference(next->data(), expected->data(), next->size()), 1e-3f);
  }
  EXPECT_EQ(generate(*m_.session, o).ids, all);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Sampled, testing::Values("llama.f32.gguf", "gemma3.f16.gguf", "mamba.f16.gguf"),
                         [](const auto& info) { return std::string(info.param).substr(0, std::string(info.param).find('.')); });

/// The tiny llama, whose tokens are made to come by biases that a draw cannot overcome.
class Forced : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    m_ = test::open(test::data("fixtures/models/llama.f32.gguf"), test::float32());
    ASSERT_TRUE(m_);
  }
  GenerateOptions forced(const Ids& ids) const {
    GenerateOptions o = test::forced(ids);
    o.sampling.temperature = 0.8f;
    o.sampling.top_k = GetParam();
    return o;
  }
  int32_t letter(const char* text) const { return m_.model->tokenize(text, false)->at(0); }
  test::Opened m_;
};
INSTANTIATE_TEST_SUITE_P(TopK, Forced, testing::Values(40u, 0u, 200u));

TEST_P(Forced, EndsExactly) {
  const int32_t eos = 285, q = letter("Q"), x = letter("X");
  GenerateOptions o = forced({q, x, eos, letter("Z")});
  auto made = m_.session->generate(Ids{20}, o);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, ElementsAre(q, x));
  EXPECT_EQ(made->stop, StopReason::EndOfGeneration);
  o.ignore_eog = true;
  made = m_.session->generate(Ids{20}, o);
  EXPECT_THAT(made->ids, ElementsAre(q, x, eos, letter("Z")));
  EXPECT_EQ(made->stop, StopReason::MaxTokens);
  o.max_tokens = 2;
  EXPECT_THAT(m_.session->generate(Ids{20}, o)->ids, ElementsAre(q, x));
  o.max_tokens = 4;
  o.stop = {"X"};
  made = m_.session->generate(Ids{20}, o);
  EXPECT_EQ(made->stop, StopReason::StopString);
  EXPECT_EQ(made->text, "Q");
  CancelFlag cancel = false;
  o.stop.clear();
  o.cancel = &cancel;
  made = m_.session->generate(Ids{20}, o, [&](const Piece&) { return cancel = true, true; });
  EXPECT_EQ(made->stop, StopReason::Cancelled);
  EXPECT_THAT(made->ids, ElementsAre(q));
}

TEST(Choice, WhatTheGpuTakes) {
  const auto choice = [](const GenerateOptions& o) { return engine::gpu_choice(o, 1000).value_or(std::vector<PlanKind>{}); };
  const auto with = [&](auto change) {
    GenerateOptions o;
    change(o);
    return choice(o);
  };
  EXPECT_THAT(choice({}), ElementsAre(PlanKind::DrawTop));
  EXPECT_THAT(with([](auto& o) { o.sampling.temperature = 0; }), ElementsAre(PlanKind::Greedy));
  EXPECT_THAT(with([](auto& o) { o.sampling.temperature = 0, o.sampling.presence_penalty = 1; }), ElementsAre(PlanKind::Penalise, PlanKind::Greedy));
  EXPECT_THAT(with([](auto& o) { o.sampling.presence_penalty = 1, o.sampling.repeat_last = 0; }), ElementsAre(PlanKind::DrawTop));
  EXPECT_THAT(with([](auto& o) { o.sampling.top_k = 0; }), ElementsAre(PlanKind::DrawCut));
  EXPECT_THAT(with([](auto& o) { o.sampling.top_k = 129, o.sampling.top_p = 1; }), ElementsAre(PlanKind::DrawCut));
  EXPECT_THAT(with([](auto& o) { o.sampling.top_k = 1000, o.sampling.top_p = 1; }), ElementsAre(PlanKind::DrawAll));
  const std::vector<PlanKind> none;
  EXPECT_EQ(with([](auto& o) { o.logprobs = 1; }), none);
  EXPECT_EQ(with([](auto& o) { o.grammar = "root ::= \"a\""; }), none);
  EXPECT_EQ(with([](auto& o) { o.sampling.typical_p = 0.9f; }), none);
  EXPECT_EQ(with([](auto& o) { o.sampling.mirostat_tau = 5; }), none);
  EXPECT_EQ(with([](auto& o) { o.sampling.dry_multiplier = 1; }), none);
}

/// Two thousand choices from random logits: the GPU's and the Sampler's differ in one of a thousand at most.
TEST(Choice, AgreesOnRandomLogits) {
  const test::Opened m = test::open(test::data("fixtures/models/llama.f32.gguf"), test::float32());
  ASSERT_TRUE(m);
  Session::Impl& s = m.session->impl();
  uint64_t state = 9;
  const auto next = [&] { return static_cast<float>(static_cast<int32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 32)) * 0x1p-31f; };
  const Ids prompt{3, 7, 7, 9};
  int wrong = 0, total = 0;
  for (const SamplingOptions& base : many())
    for (uint64_t seed = 1; seed <= 110; ++seed) {
      GenerateOptions o;
      o.sampling = base;
      o.sampling.seed = seed;
      std::vector<float> logits(288);
      for (float& v : logits) v = 8 * next() * next();
      ASSERT_TRUE(s.m().device->write(*s.logits, 0, std::span<const float>(logits)));
      ASSERT_TRUE(s.write_state(0, static_cast<uint32_t>(prompt.size())));
      const auto choice = *engine::gpu_choice(o, 288);
      ASSERT_TRUE(engine::prepare_choice(s, choice, o.sampling, seed, prompt));
      ASSERT_TRUE(s.run(choice, 1, 4));
      int32_t id[1];
      ASSERT_TRUE(s.m().device->read(*s.history, 0, std::span<int32_t>(id)));
      engine::Sampler sampler(o.sampling);
      for (int32_t p : prompt) sampler.accept(p);
      wrong += id[0] != sampler.sample(logits);
      ++total;
    }
  EXPECT_LE(wrong, total / 1000);
}

}  // namespace
}  // namespace gull
