// Real models in float32 mode against llama.cpp's logits on the same weights (tests/data/fixtures/real: short prompts and
// 64 tokens after each; tests/data/real: a text longer than a prefill step and than Gemma's window).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/opened.h"
#include "support/fixtures.h"
#include "support/models.h"

namespace gull {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using test::float32;
using test::open;
using testing::ElementsAreArray;
using test::Opened;

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

/// The mean difference of the recorded logits at most. Gemma's reference takes its GELU from a float16 table.
constexpr double kSmolLM2 = 0.001, kGemma3 = 0.01;

/// Compares rows of logits with what is recorded of them, by the criteria of a float32 engine.
class Comparison {
 public:
  Comparison(size_t vocabulary, double mean) : vocabulary_(vocabulary), mean_(mean) {}
  ~Comparison() {
    EXPECT_GT(count_, 0u);
    EXPECT_LE(sum_ / static_cast<double>(std::max<size_t>(count_, 1)), mean_) << "mean difference of the recorded logits";
  }

  /// `best`: [[id, logit]...], the first the best. Top-1 must be equal where the margin leaves no doubt.
  void logits(const float* row, const json& best, const std::string& where) {
    for (const auto& entry : best) {
      const double difference = std::fabs(row[entry[0].get<int32_t>()] - entry[1].get<double>());
      ASSERT_FALSE(std::isnan(difference)) << where;
      sum_ += difference;
      ++count_;
    }
    if (best[0][1].get<double>() - best[1][1].get<double>() < 0.2) return;
    EXPECT_EQ(std::max_element(row, row + vocabulary_) - row, best[0][0].get<int64_t>()) << where;
  }

  /// Whoever is in one list of twenty and not in the other is within 0.05 of the cut.
  void twenty(const float* row, const json& best, const std::string& where) {
    ASSERT_EQ(best.size(), 20u);
    const double cut = best[19][1];
    std::vector<int32_t> ours(vocabulary_), theirs;
    for (size_t i = 0; i < vocabulary_; ++i) ours[i] = static_cast<int32_t>(i);
    std::partial_sort(ours.begin(), ours.begin() + 20, ours.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    ours.resize(20);
    for (const auto& entry : best) {
      theirs.push_back(entry[0]);
      if (entry[1] <= cut + 0.05) continue;
      EXPECT_THAT(ours, testing::Contains(theirs.back())) << where;
    }
    for (int32_t id : ours) {
      if (row[id] <= cut + 0.05) continue;
      EXPECT_THAT(theirs, testing::Contains(id)) << where << ": it is at " << row[id];
    }
  }

 private:
  size_t vocabulary_;
  double mean_, sum_ = 0;
  size_t count_ = 0;
};

enum class Way { Batch, OneByOne };

/// The prompt, then the tokens that the reference made, each logit row against the recorded ones.
void teacher_forced(Opened& m, const json& prompt, Way way, double mean) {
  const Ids tokens = prompt["tokens"], made = prompt["gen_tokens"];
  const size_t vocabulary = m.model->vocabulary();
  const std::string name = "prompt " + prompt["id"].dump();
  Comparison comparison(vocabulary, mean);
  m.session->reset();
  auto first = m.session->logits(tokens);
  ASSERT_TRUE(first) << first.error().message;
  comparison.logits(first->data(), prompt["first_top20"], name);
  comparison.twenty(first->data(), prompt["first_top20"], name);
  comparison.logits(first->data(), prompt["gen_top5"][0], name);
  const std::span<const int32_t> forced(made.data(), made.size() - 1);
  std::vector<float> rest;
  if (way == Way::Batch) {
    auto all = m.session->logits(forced, true);
    ASSERT_TRUE(all) << all.error().message;
    rest = std::move(*all);
  }
  for (size_t i = 0; i < forced.size(); ++i) {
    if (way == Way::OneByOne) {
      auto one = m.session->logits(forced.subspan(i, 1));
      ASSERT_TRUE(one) << one.error().message;
      rest.insert(rest.end(), one->begin(), one->end());
    }
    comparison.logits(rest.data() + i * vocabulary, prompt["gen_top5"][i + 1], name + " step " + std::to_string(i + 1));
  }
}

/// Generation by itself gives the reference's ids up to the first near tie, and its text byte for byte.
void generated(Opened& m, const json& prompt, double doubt, size_t most) {
  const Ids tokens = prompt["tokens"], expected = prompt["gen_tokens"];
  const std::vector<double> margins = prompt["margins"];
  const size_t sure = std::find_if(margins.begin(), margins.begin() + most, [&](double v) { return v < doubt; }) - margins.begin();
  ASSERT_GE(sure, 10u);
  EXPECT_EQ(m.model->detokenize(expected, true), from_hex(prompt["gen_text_hex"]));
  auto ids = m.model->tokenize(from_hex(prompt["text_hex"]));
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, tokens);
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = static_cast<int32_t>(sure);
  options.ignore_eog = true;
  std::string streamed;
  auto made = m.session->generate(*ids, options, [&](const Piece& piece) { return streamed += piece.text, true; });
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, ElementsAreArray(expected.begin(), expected.begin() + sure));
  EXPECT_EQ(made->text, m.model->detokenize(made->ids));
  EXPECT_EQ(streamed, made->text);
}

TEST(SmolLM2, ShortPrompts) {
  const auto path = test::smollm2();
  if (!path) return;
  Opened m = open(*path, float32());
  ASSERT_TRUE(m);
  const json golden = test::read_json(test::data("fixtures/real/smollm2-135m-instruct-q4_1.json"));
  for (const auto& prompt : golden["prompts"]) {
    teacher_forced(m, prompt, prompt["id"] == 1 ? Way::OneByOne : Way::Batch, kSmolLM2);
    generated(m, prompt, 0.01, prompt["id"] == 0 ? 64 : 16);
  }
}

/// In the reference's text of prompt 0 the model ends its message after 29 tokens.
TEST(SmolLM2, StopsWhereTheMessageEnds) {
  const auto path = test::smollm2();
  if (!path) return;
  Opened m = open(*path, float32());
  ASSERT_TRUE(m);
  const json prompt = test::read_json(test::data("fixtures/real/smollm2-135m-instruct-q4_1.json"))["prompts"][0];
  const Ids made = prompt["gen_tokens"];
  Ids turn = prompt["tokens"];
  ASSERT_EQ(made[29], 2);
  turn.insert(turn.end(), made.begin(), made.begin() + 20);
  GenerateOptions options;
  options.sampling.temperature = 0;
  auto rest = m.session->generate(turn, options);
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->stop, StopReason::EndOfGeneration);
  EXPECT_THAT(rest->ids, ElementsAreArray(made.begin() + 20, made.begin() + 29));
  EXPECT_EQ(rest->timings.cached_tokens, 0u);
  // The text goes "... is: 2018-01-22 12:12:53.", a token a digit.
  const Ids tokens = prompt["tokens"];
  options.stop = {"nothing", "018-0"};
  auto stopped = m.session->generate(tokens, options);
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(stopped->text, " Paris.\n\nThe answer is: 2");
  EXPECT_EQ(stopped->stop_string, "018-0");
  EXPECT_EQ(stopped->timings.cached_tokens, tokens.size() - 1);
}

TEST(Gemma3, ShortPrompts) {
  const auto path = test::gemma3();
  if (!path) return;
  Opened m = open(*path, float32());
  ASSERT_TRUE(m);
  const json golden = test::read_json(test::data("fixtures/real/gemma-3-270m-q4_k_m.json"));
  teacher_forced(m, golden["prompts"][0], Way::Batch, kGemma3);
  generated(m, golden["prompts"][2], 0.05, 64);
}

/// An embedding of 262,144 rows does not fit one binding of WebGPU's default limits.
TEST(Gemma3, DefaultLimits) {
  const auto path = test::gemma3();
  if (!path) return;
  LoadOptions options = float32();
  options.device.baseline_limits = true;
  Opened m = open(*path, options);
  ASSERT_TRUE(m);
  json prompt = test::read_json(test::data("fixtures/real/gemma-3-270m-q4_k_m.json"))["prompts"][2];
  teacher_forced(m, prompt, Way::Batch, kGemma3);
}

/// For phones: an embedding of 27 MiB in buffers of at most 8.
TEST(SmolLM2, TightMemory) {
  const auto path = test::smollm2();
  if (!path) return;
  LoadOptions options = float32();
  options.memory_tight = true;
  Opened m = open(*path, options);
  ASSERT_TRUE(m);
  EXPECT_GE(m.model->stats().weight_uploads, m.model->file().tensors().size() + 3);
  teacher_forced(m, test::read_json(test::data("fixtures/real/smollm2-135m-instruct-q4_1.json"))["prompts"][0], Way::Batch, kSmolLM2);
}

/// A text longer than a prefill step; then batches and single steps that see all of it.
void long_text(const std::string& path, const std::string& golden_file, double mean) {
  Opened m = open(path, float32(768));
  ASSERT_TRUE(m);
  const json golden = test::read_json(test::data(golden_file));
  const Ids tokens = golden["tokens"];
  auto ids = m.model->tokenize(golden["text"].get<std::string>());
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, tokens);
  const std::span<const int32_t> all(tokens);
  Comparison comparison(m.model->vocabulary(), mean);
  size_t at = 0;
  for (const auto& step : golden["steps"]) {
    // To each recorded position in one call: 512 and one, then one, batches of 7, 40 and 30, and six single steps.
    const size_t position = step["position"];
    auto row = m.session->logits(all.subspan(at, position + 1 - at));
    ASSERT_TRUE(row) << row.error().message;
    at = position + 1;
    const std::string where = "position " + std::to_string(position);
    comparison.logits(row->data(), step["top20"], where);
    comparison.twenty(row->data(), step["top20"], where);
  }
}

TEST(SmolLM2, LongText) {
  if (const auto path = test::smollm2()) long_text(*path, "real/smollm2-long.json", kSmolLM2);
}

TEST(Gemma3, BeyondTheWindow) {
  if (const auto path = test::gemma3()) long_text(*path, "real/gemma3-long.json", kGemma3);
}

}  // namespace
}  // namespace gull
