// From logits to text: sampling against the probabilities that the reference's logits give, log-probabilities, biases,
// end-of-generation, stop strings across tokens, characters split over tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "engine/forced.h"
#include "engine/opened.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using test::forced;
using testing::ElementsAreArray;

std::string model_path(const char* file) { return test::data(std::string("fixtures/models/") + file); }

/// The tiny llama: byte-level vocabulary, the golden logits of whose prompt are known.
class Tiny : public testing::Test {
 protected:
  void SetUp() override {
    const json index = test::read_json(test::data("fixtures/index.json"));
    for (const auto& c : index["cases"])
      if (c["kind"] == "logits" && c["id"] == "llama") case_ = c;
    prompt_ = case_["prompt"].get<Ids>();
    golden_ = case_["greedy"].get<Ids>();
    m_ = test::open(model_path("llama.f32.gguf"), test::float32());
    ASSERT_TRUE(m_);
    const auto logits = test::read_f32(test::data("fixtures/" + case_["logits"].get<std::string>()));
    last_.assign(logits.end() - 288, logits.end());
  }
  /// Probabilities of the token after the prompt, by the reference.
  std::vector<double> probabilities(double temperature = 1) const {
    std::vector<double> p;
    double sum = 0;
    for (float v : last_) sum += p.emplace_back(std::exp((v - *std::max_element(last_.begin(), last_.end())) / temperature));
    for (double& v : p) v /= sum;
    return p;
  }
  GenerateResult generate(const GenerateOptions& options, const std::function<bool(const Piece&)>& on_piece = {}) {
    auto made = m_.session->generate(prompt_, options, on_piece);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : GenerateResult{};
  }
  /// How often each token comes first over seeds 1 … n.
  std::map<int32_t, int> first_tokens(SamplingOptions sampling, int n) {
    std::map<int32_t, int> counts;
    GenerateOptions options;
    options.max_tokens = 1;
    options.ignore_eog = true;
    for (int seed = 1; seed <= n; ++seed) {
      options.sampling = sampling;
      options.sampling.seed = static_cast<uint64_t>(seed);
      const auto made = generate(options);
      if (!made.ids.empty()) ++counts[made.ids[0]];
    }
    return counts;
  }
  static SamplingOptions open_sampling(float temperature) {
    SamplingOptions s;
    s.temperature = temperature;
    s.top_k = 0, s.top_p = 1, s.min_p = 0;
    return s;
  }
  /// Frequencies within five standard deviations (and one, for rare tokens) of what the probabilities say; those left out never come.
  static void expect_frequencies(const std::map<int32_t, int>& counts, const std::vector<double>& p, int n) {
    for (size_t i = 0; i < p.size(); ++i) {
      const auto it = counts.find(static_cast<int32_t>(i));
      const double seen = it == counts.end() ? 0 : it->second;
      EXPECT_LE(std::fabs(seen - n * p[i]), 5 * std::sqrt(n * p[i] * (1 - p[i])) + (p[i] > 0 ? 1 : 0)) << "token " << i << " of probability " << p[i];
    }
  }

  json case_;
  Ids prompt_, golden_;
  std::vector<float> last_;
  test::Opened m_;
};

TEST_F(Tiny, SamplesAsTheProbabilitiesSay) {
  expect_frequencies(first_tokens(open_sampling(1), 400), probabilities(), 400);
  expect_frequencies(first_tokens(open_sampling(0.5f), 200), probabilities(0.5), 200);
}

TEST_F(Tiny, TruncatedSampling) {
  std::vector<int32_t> order(288);
  for (int i = 0; i < 288; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return last_[a] > last_[b]; });
  const auto p = probabilities();
  const auto expect_first = [&](const SamplingOptions& s, size_t keep) {
    std::vector<double> left(288, 0);
    double sum = 0;
    for (size_t i = 0; i < keep; ++i) sum += left[order[i]] = p[order[i]];
    for (double& v : left) v /= sum;
    expect_frequencies(first_tokens(s, 150), left, 150);
  };
  SamplingOptions s = open_sampling(1);
  s.top_k = 3;
  expect_first(s, 3);
  s = open_sampling(1);
  s.top_p = 0.6f;
  size_t keep = 0;
  for (double mass = 0; mass < 0.6; ++keep) mass += p[order[keep]];
  expect_first(s, keep);
  s = open_sampling(1);
  s.min_p = 0.3f;
  keep = 1;
  while (p[order[keep]] >= 0.3 * p[order[0]]) ++keep;
  expect_first(s, keep);
}

TEST_F(Tiny, SeedsReproduce) {
  GenerateOptions options;
  options.sampling = open_sampling(1.5f);
  options.max_tokens = 24;
  options.ignore_eog = true;
  options.sampling.seed = 42;
  const Ids first = generate(options).ids;
  EXPECT_EQ(generate(options).ids, first);
  m_.session->reset();
  EXPECT_EQ(generate(options).ids, first);
  options.sampling.seed = 43;
  EXPECT_NE(generate(options).ids, first);
  options.sampling.seed = 0;   // a fresh one each time
  EXPECT_NE(generate(options).ids, generate(options).ids);
}

TEST_F(Tiny, GreedyByEachName) {
  GenerateOptions options;
  options.max_tokens = 16;
  options.ignore_eog = true;
  for (int way = 0; way < 4; ++way) {
    options.sampling = open_sampling(way == 0 ? 0.0f : 1.0f);
    if (way == 1) options.sampling.top_k = 1;
    if (way == 2) options.sampling.top_p = 0;
    if (way == 3) options.sampling.min_p = 1;
    EXPECT_THAT(generate(options).ids, ElementsAreArray(golden_)) << way;
  }
}

TEST_F(Tiny, Biases) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 1;
  options.sampling.logit_bias = {{golden_[0], -INFINITY}};
  auto second = last_;
  second[golden_[0]] = -INFINITY;
  EXPECT_EQ(generate(options).ids, Ids{static_cast<int32_t>(std::max_element(second.begin(), second.end()) - second.begin())});
  for (float bias : {1e4f, INFINITY})
    for (float temperature : {0.0f, 1.0f}) {
      options.sampling = open_sampling(temperature);
      options.sampling.logit_bias = {{100, bias}, {-1, bias}, {5000, bias}};   // ids that there are not are passed over
      EXPECT_EQ(generate(options).ids, Ids{100}) << bias << " at temperature " << temperature;
    }
}

TEST_F(Tiny, LogProbabilities) {
  const auto p = probabilities();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 4;
  options.ignore_eog = true;
  for (uint32_t top : {1u, 5u, 288u, 1000u}) {
    options.logprobs = top;
    size_t i = 0;
    const auto made = generate(options, [&](const Piece& piece) {
      if (piece.id < 0) return true;
      EXPECT_EQ(piece.id, golden_[i]);
      EXPECT_EQ(piece.logprobs.size(), 1 + std::min(top, 288u));
      EXPECT_EQ(piece.logprobs[0].id, piece.id);
      double sum = 0;
      for (size_t k = 1; k < piece.logprobs.size(); ++k) {
        sum += std::exp(double{piece.logprobs[k].logprob});
        EXPECT_TRUE(k == 1 || piece.logprobs[k].logprob <= piece.logprobs[k - 1].logprob);
        EXPECT_TRUE(i > 0 || std::fabs(piece.logprobs[k].logprob - std::log(p[piece.logprobs[k].id])) < 0.002);
      }
      EXPECT_EQ(piece.logprobs[1].id, piece.id);
      if (top < 288) EXPECT_LE(sum, 1.0);
      else EXPECT_NEAR(sum, 1.0, 1e-4);
      ++i;
      return true;
    });
    EXPECT_EQ(i, 4u);
  }
  // They are the model's, whatever the sampler does.
  options.sampling.logit_bias = {{100, 1e4f}};
  options.max_tokens = 1;
  generate(options, [&](const Piece& piece) {
    EXPECT_EQ(piece.id, 100);
    EXPECT_NEAR(piece.logprobs[0].logprob, std::log(p[100]), 0.002);
    EXPECT_EQ(piece.logprobs[1].id, golden_[0]);
    return true;
  });
}

TEST_F(Tiny, EndOfGeneration) {
  const int32_t eos = 285, letter = m_.model->tokenize("Q", false)->at(0);
  GenerateOptions options = forced({letter, eos});
  auto made = generate(options);
  EXPECT_EQ(made.ids, Ids{letter});
  EXPECT_EQ(made.stop, StopReason::EndOfGeneration);
  EXPECT_EQ(made.text, "Q");
  options.ignore_eog = true;
  made = generate(options);
  EXPECT_EQ(made.ids, (Ids{letter, eos}));
  EXPECT_EQ(made.stop, StopReason::MaxTokens);
  EXPECT_EQ(made.text, "Q");   // a control token has no text
  EXPECT_TRUE(m_.model->is_end_of_generation(eos));
}

/// Texts given token by token: byte-level tokens, and SentencePiece's bytes.
class Streaming : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    m_ = test::open(model_path(GetParam()), test::float32());
    ASSERT_TRUE(m_);
    prompt_ = {20};
  }
  /// Tokens of one byte each, as no merge joins them here.
  Ids bytes(const std::string& text) {
    Ids out;
    for (char c : text) out.push_back(byte_token(static_cast<uint8_t>(c)));
    return out;
  }
  int32_t byte_token(uint8_t byte) {
    for (int32_t id = 0; id < 288; ++id)
      if (m_.model->detokenize(Ids{id}, true) == std::string(1, static_cast<char>(byte))) return id;
    return -1;
  }
  GenerateResult say(const Ids& ids, std::vector<std::string> stop = {}, int32_t max_tokens = -2) {
    GenerateOptions options = forced(ids);
    options.stop = std::move(stop);
    if (max_tokens != -2) options.max_tokens = max_tokens;
    pieces_.clear();
    auto made = m_.session->generate(prompt_, options, [&](const Piece& piece) {
      pieces_.push_back({piece.id, std::string(piece.text)});
      return true;
    });
    EXPECT_TRUE(made) << made.error().message;
    std::string joined;
    for (const auto& [id, text] : pieces_) joined += text;
    EXPECT_EQ(joined, made->text);
    return *made;
  }

  test::Opened m_;
  Ids prompt_;
  std::vector<std::pair<int32_t, std::string>> pieces_;
};

TEST_P(Streaming, CharactersSplitOverTokens) {
  const Ids emoji = bytes("\xf0\x9f\x98\x80");
  ASSERT_THAT(emoji, testing::Each(testing::Ge(0)));
  auto made = say(emoji);
  EXPECT_EQ(made.text, "\xf0\x9f\x98\x80");
  ASSERT_EQ(pieces_.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(pieces_[i].second, "");
  EXPECT_EQ(pieces_[3].second, "\xf0\x9f\x98\x80");
  // Cut in the middle: one replacement character, in a piece without a token.
  made = say(emoji, {}, 2);
  EXPECT_EQ(made.text, "\xef\xbf\xbd");
  ASSERT_EQ(pieces_.size(), 3u);
  EXPECT_EQ(pieces_[2].first, -1);
  EXPECT_EQ(made.ids.size(), 2u);
  // Bytes that are no text do not hold up what follows.
  made = say(bytes("A\x98Z"));
  EXPECT_EQ(made.text, "A\xef\xbf\xbdZ");
}

TEST_P(Streaming, StopStringsAcrossTokens) {
  auto made = say(bytes("xSTOPy"), {"STOP"});
  EXPECT_EQ(made.text, "x");
  EXPECT_EQ(made.stop, StopReason::StopString);
  EXPECT_EQ(made.stop_string, "STOP");
  EXPECT_EQ(made.ids, bytes("xSTOP"));
  made = say(bytes("xSTOy"), {"STOP"});   // it only began like one
  EXPECT_EQ(made.text, "xSTOy");
  EXPECT_EQ(made.stop, StopReason::MaxTokens);
  made = say(bytes("xSTO"), {"STOP"});    // and the end came: what was held back comes out
  EXPECT_EQ(made.text, "xSTO");
  EXPECT_EQ(pieces_.back().first, -1);
  made = say(bytes("abcdef"), {"zz", "de", "cdx"});
  EXPECT_EQ(made.text, "abc");
  EXPECT_EQ(made.stop_string, "de");
  made = say(bytes("\xf0\x9f\x98\x80!"), {"\xf0\x9f\x98\x80"});   // a stop string of one character in four tokens
  EXPECT_EQ(made.text, "");
  EXPECT_EQ(made.ids.size(), 4u);
  made = say(bytes("xSTOP"), {"", "STOP"});   // an empty one never matches
  EXPECT_EQ(made.text, "x");
}

TEST_P(Streaming, StopStringWithinAToken) {
  // " the" or "the" is one token of these vocabularies: the part before the stop string is output.
  Ids word;
  for (int32_t id = 0; id < 288 && word.empty(); ++id)
    if (m_.model->detokenize(Ids{id}, true).ends_with("the")) word = {id};
  ASSERT_FALSE(word.empty());
  const std::string before = m_.model->detokenize(prompt_, true), text = m_.model->detokenize(Ids{prompt_[0], word[0]}, true).substr(before.size());
  auto made = say(word, {"he"});
  EXPECT_EQ(made.text, text.substr(0, text.size() - 2));
  EXPECT_EQ(made.stop, StopReason::StopString);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, Streaming, testing::Values("llama.f32.gguf", "mistral.f16.gguf"),
                         [](const auto& info) { return std::string(info.param).substr(0, std::string(info.param).find('.')); });

}  // namespace
}  // namespace gull
