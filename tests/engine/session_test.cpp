// What a session keeps, and what it forgets: repeated prompts, several sessions, turns, truncation, resets, stops and
// cancellation. The right answer is each fixture's greedy ids (transformers'), or a session that did nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "engine/impl.h"
#include "engine/opened.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using testing::ElementsAreArray;

json fixture(const std::string& id) {
  const json index = test::read_json(test::data("fixtures/index.json"));
  for (const auto& c : index["cases"])
    if (c["kind"] == "logits" && c["id"] == id) return c;
  return {};
}

GenerateOptions greedy(int32_t tokens) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = tokens;
  options.ignore_eog = true;
  return options;
}

/// The same choices read back one by one: what sampling does, without chance.
GenerateOptions on_the_cpu(int32_t tokens) {
  GenerateOptions options = greedy(tokens);
  options.logprobs = 1;
  return options;
}

/// Attention, windows, experts, shared caches, recurrent states: each kind of memory that a session has.
class Conversation : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    case_ = fixture(GetParam());
    ASSERT_FALSE(case_.is_null());
    prompt_ = case_["prompt"].get<Ids>();
    golden_ = case_["greedy"].get<Ids>();
    m_ = load(256);
    ASSERT_TRUE(m_);
    recurrent_ = m_.session->impl().m().family->config().recurrent;
  }
  test::Opened load(uint32_t context) { return test::open(path(), test::float32(context)); }
  std::string path() const { return test::data("fixtures/" + case_["model"].get<std::string>()); }
  Ids generate(Session& session, const Ids& prompt, const GenerateOptions& options) {
    auto made = session.generate(prompt, options);
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->ids : Ids{};
  }
  void expect_golden(Session& session, const char* after) {
    EXPECT_THAT(generate(session, prompt_, greedy(16)), ElementsAreArray(golden_)) << after;
  }
  /// Another prompt than the fixture's, of the same length.
  Ids other_prompt() const { return Ids(prompt_.rbegin(), prompt_.rend()); }

  json case_;
  Ids prompt_, golden_;
  test::Opened m_;
  bool recurrent_ = false;
};

TEST_P(Conversation, SamePromptAgain) {
  expect_golden(*m_.session, "first");
  expect_golden(*m_.session, "again");
  EXPECT_THAT(generate(*m_.session, prompt_, on_the_cpu(16)), ElementsAreArray(golden_));
  generate(*m_.session, other_prompt(), greedy(5));
  expect_golden(*m_.session, "after another prompt");
  generate(*m_.session, other_prompt(), on_the_cpu(5));
  expect_golden(*m_.session, "after another prompt, read back one by one");
  m_.session->reset();
  EXPECT_EQ(m_.session->position(), 0u);
  expect_golden(*m_.session, "after a reset");
  auto fresh = m_.another();
  expect_golden(*fresh, "in a new session");
}

TEST_P(Conversation, TwoInTurns) {
  auto alone = m_.another();
  const Ids other = other_prompt(), expected = generate(*alone, other, greedy(16));
  auto second = m_.another();
  // The second session goes one step on at each token of the first.
  auto other_logits = second->logits(other);
  ASSERT_TRUE(other_logits);
  Ids other_ids;
  auto made = m_.session->generate(prompt_, greedy(16), [&](const Piece&) {
    const auto best = std::max_element(other_logits->begin(), other_logits->end()) - other_logits->begin();
    other_ids.push_back(static_cast<int32_t>(best));
    other_logits = second->logits(Ids{other_ids.back()});
    return other_logits.has_value();
  });
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, ElementsAreArray(golden_));
  EXPECT_THAT(other_ids, ElementsAreArray(expected));
}

TEST_P(Conversation, FromSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<Ids> results(6);
  for (size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      auto session = m_.another();
      results[2 * t] = generate(*session, prompt_, t == 1 ? on_the_cpu(16) : greedy(16));
      session->reset();
      results[2 * t + 1] = generate(*session, prompt_, greedy(16));
    });
  for (auto& thread : threads) thread.join();
  for (const Ids& ids : results) EXPECT_THAT(ids, ElementsAreArray(golden_));
}

TEST_P(Conversation, TurnsReuseWhatIsThere) {
  Ids turn = prompt_;
  for (const GenerateOptions& options : {greedy(8), on_the_cpu(8), greedy(1)}) {
    const Ids made = generate(*m_.session, turn, options);
    turn.insert(turn.end(), made.begin(), made.end());
    turn.insert(turn.end(), {40, 50, 60});
    auto again = m_.session->generate(turn, greedy(8));
    ASSERT_TRUE(again) << again.error().message;
    if (again->timings.cached_tokens != 0 || !recurrent_) {   // states cannot go back where steps were run ahead
      EXPECT_EQ(again->timings.cached_tokens, turn.size() - 4);   // all but the last id made, and three new ones
    }
    auto fresh = m_.another();
    EXPECT_THAT(again->ids, ElementsAreArray(generate(*fresh, turn, greedy(8))));
    turn.insert(turn.end(), again->ids.begin(), again->ids.end());
  }
  expect_golden(*m_.session, "back to the first prompt");
}

TEST_P(Conversation, Truncate) {
  Session& session = *m_.session;
  const auto keep = static_cast<uint32_t>(prompt_.size() - 1);
  ASSERT_TRUE(session.logits(prompt_));
  ASSERT_TRUE(session.logits(other_prompt()));
  ASSERT_TRUE(session.truncate(1000));
  EXPECT_EQ(session.position(), 2 * prompt_.size());
  ASSERT_TRUE(session.truncate(keep));
  EXPECT_EQ(session.position(), recurrent_ ? 0 : keep);   // states cannot go back
  auto last = session.logits(recurrent_ ? prompt_ : Ids{prompt_.back()});
  ASSERT_TRUE(last) << last.error().message;
  const auto expected = test::read_f32(test::data("fixtures/" + case_["logits"].get<std::string>()));
  EXPECT_LE(test::max_difference(last->data(), expected.data() + expected.size() - last->size(), last->size()), case_["tol_f32"].get<float>());
  ASSERT_TRUE(session.truncate(0));
  EXPECT_EQ(session.position(), 0u);
}

/// Fills all that a session remembers with NaN.
void poison(Session::Impl& s) {
  std::vector<gpu::BufferRef> memory = s.states;
  for (const kernels::KvLayer& layer : s.inputs.kv)
    for (const gpu::BufferRef& buffer : {layer.k, layer.v})
      if (buffer) memory.push_back(buffer);
  memory.push_back(s.logits);
  for (const gpu::BufferRef& buffer : memory) {
    const std::vector<uint32_t> bad(buffer->size() / 4, 0x7fff7fff);   // NaN as float32 and as two float16
    ASSERT_TRUE(s.m().device->write(*buffer, 0, std::span<const uint32_t>(bad)));
  }
}

TEST_P(Conversation, NothingOfNaNStays) {
  LoadOptions baseline = test::float32(), fast = test::float32();
  baseline.device.baseline_limits = true;
  fast.precision = Precision::Fast;
  for (const LoadOptions& options : {test::float32(), baseline, fast}) {
    const test::Opened m = test::open(path(), options);
    ASSERT_TRUE(m);
    const Ids before = generate(*m.session, prompt_, greedy(16));
    poison(m.session->impl());
    m.session->reset();
    EXPECT_EQ(generate(*m.session, prompt_, greedy(16)), before);
    poison(m.session->impl());
    m.session->reset();
    auto one = m.session->logits(Ids{prompt_[0]});
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_FALSE(std::isnan((*one)[0]));
  }
}

/// For phones: nothing else comes out, and no submission is longer than a layer.
TEST_P(Conversation, TightMemory) {
  for (const uint64_t budget : {uint64_t{0}, m_.model->stats().memory.weights - 1}) {
    LoadOptions tight = test::float32();
    tight.memory_tight = true;
    tight.gpu_budget = budget;
    const test::Opened m = test::open(path(), tight);
    ASSERT_TRUE(m);
    const uint64_t before = m.model->stats().submissions;
    expect_golden(*m.session, budget ? "under a budget" : "all weights there");
    EXPECT_GE(m.model->stats().submissions - before, golden_.size() * m.session->impl().m().family->config().layers);
  }
}

TEST_P(Conversation, NoLogitsAreAnError) {
  for (const GenerateOptions& options : {greedy(4), on_the_cpu(4)}) {
    ASSERT_TRUE(m_.session->logits(prompt_));
    poison(m_.session->impl());
    auto made = m_.session->generate(Ids{prompt_}, options);   // all but the last token are still there, as NaN
    if (!recurrent_) {
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().kind, ErrorKind::Device);
    }
    expect_golden(*m_.session, "after no logits");
    m_.session->reset();
  }
}

TEST_P(Conversation, GoesOnWhereGenerationEnded) {
  for (const GenerateOptions& options : {greedy(4), on_the_cpu(4)}) {
    ASSERT_THAT(generate(*m_.session, prompt_, options), ElementsAreArray(golden_.begin(), golden_.begin() + 4));
    EXPECT_EQ(m_.session->position(), prompt_.size() + 3);   // the last one was only chosen
    auto next = m_.session->logits(Ids{golden_[3]});
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(std::max_element(next->begin(), next->end()) - next->begin(), golden_[4]);
  }
}

TEST_P(Conversation, FullContext) {
  const auto exact = static_cast<uint32_t>(prompt_.size());
  test::Opened m = load(exact);
  ASSERT_TRUE(m);
  for (const GenerateOptions& options : {greedy(-1), on_the_cpu(-1), greedy(-1)}) {
    auto made = m.session->generate(prompt_, options);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->ids, Ids{golden_[0]});
    EXPECT_EQ(made->stop, StopReason::ContextFull);
  }
  Ids longer = prompt_;
  longer.push_back(golden_[0]);
  auto refused = m.session->generate(longer, greedy(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::InvalidArgument);
  auto limited = m.session->generate(prompt_, greedy(1));
  ASSERT_TRUE(limited) << limited.error().message;
  EXPECT_EQ(limited->stop, StopReason::MaxTokens);
  EXPECT_EQ(limited->ids, Ids{golden_[0]});
  auto beyond = m.session->logits(longer);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, ErrorKind::InvalidArgument);

  test::Opened four = load(exact + 3);
  auto made = four.session->generate(prompt_, greedy(-1));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, ElementsAreArray(golden_.begin(), golden_.begin() + 4));
  EXPECT_EQ(made->stop, StopReason::ContextFull);
}

TEST_P(Conversation, StopsAndGoesOn) {
  for (const GenerateOptions& plain : {greedy(16), on_the_cpu(16)}) {
    GenerateOptions options = plain;
    CancelFlag cancel = false;
    options.cancel = &cancel;
    int pieces = 0;
    auto made = m_.session->generate(prompt_, options, [&](const Piece&) { return cancel = cancel || ++pieces == 3, true; });
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->stop, StopReason::Cancelled);
    EXPECT_THAT(made->ids, ElementsAreArray(golden_.begin(), golden_.begin() + 3));
    auto none = m_.session->generate(prompt_, options);   // still set
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_EQ(none->stop, StopReason::Cancelled);
    EXPECT_TRUE(none->ids.empty());
    expect_golden(*m_.session, "after cancelling");

    pieces = 0;
    options.cancel = nullptr;
    made = m_.session->generate(prompt_, options, [&](const Piece&) { return ++pieces < 5; });
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->stop, StopReason::Callback);
    EXPECT_THAT(made->ids, ElementsAreArray(golden_.begin(), golden_.begin() + 5));
    expect_golden(*m_.session, "after the callback's stop");

    options.max_tokens = 0;
    made = m_.session->generate(prompt_, options);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->stop, StopReason::MaxTokens);
    EXPECT_TRUE(made->ids.empty() && made->text.empty());
    expect_golden(*m_.session, "after no tokens");
  }
}

TEST_P(Conversation, MistakesLeaveItUsable) {
  ASSERT_TRUE(m_.session->logits(prompt_));
  EXPECT_FALSE(m_.session->generate({}, greedy(4)));
  EXPECT_FALSE(m_.session->logits({}));
  EXPECT_FALSE(m_.session->logits(Ids{-1}));
  EXPECT_FALSE(m_.session->generate(Ids{1, 288}, greedy(4)));
  EXPECT_FALSE(m_.session->generate(Ids(300, 5), greedy(4)));
  EXPECT_FALSE(m_.session->embed(prompt_));
  expect_golden(*m_.session, "after what was refused");
}

INSTANTIATE_TEST_SUITE_P(Tiny, Conversation, testing::Values("llama", "gemma3", "gemma4-e2b", "qwen3moe", "lfm2", "mamba", "falcon-h1"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gull
