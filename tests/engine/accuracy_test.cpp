// What the fast mode (8-bit activations, float16 cache) costs on real models: the divergence of its predictions from those
// of float32 arithmetic on the same tokens. That float32 mode is llama.cpp's float32 is for real_test to show.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/opened.h"
#include "support/fixtures.h"
#include "support/models.h"

namespace gull {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

/// Σ p·(log p − log q) of the softmax of two rows of logits.
double divergence(const float* p, const float* q, size_t n) {
  const auto log_sum = [n](const float* x) {
    const double best = *std::max_element(x, x + n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += std::exp(x[i] - best);
    return best + std::log(sum);
  };
  const double lp = log_sum(p), lq = log_sum(q);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(p[i] - lp) * ((p[i] - lp) - (q[i] - lq));
  return sum;
}

/// Logits of the prompt's tokens and of those after it; the latter in one batch, or each by a decode step.
std::vector<float> logits_of(Session& session, const Ids& tokens, const Ids& made, bool one_by_one) {
  session.reset();
  auto out = session.logits(tokens, true);
  EXPECT_TRUE(out) << out.error().message;
  const std::span<const int32_t> forced(made.data(), made.size() - 1);
  for (size_t at = 0, n = one_by_one ? 1 : forced.size(); out && at < forced.size(); at += n) {
    auto more = session.logits(forced.subspan(at, n), !one_by_one);
    EXPECT_TRUE(more) << more.error().message;
    if (!more) return {};
    out->insert(out->end(), more->begin(), more->end());
  }
  return out ? *out : std::vector<float>{};
}

struct Tally {
  double divergence = 0;
  size_t rows = 0;
  double mean() const { return divergence / static_cast<double>(std::max<size_t>(rows, 1)); }
};

void compare(const std::vector<float>& exact, const std::vector<float>& fast, size_t vocabulary, Tally& tally) {
  ASSERT_EQ(exact.size(), fast.size());
  for (size_t at = 0; at < exact.size(); at += vocabulary) {
    const float *p = exact.data() + at, *q = fast.data() + at;
    tally.divergence += divergence(p, q, vocabulary);
    ++tally.rows;
    const int64_t best = std::max_element(p, p + vocabulary) - p;
    float second = -INFINITY;
    for (size_t i = 0; i < vocabulary; ++i)
      if (static_cast<int64_t>(i) != best) second = std::max(second, p[i]);
    if (p[best] - second >= 0.5f) {
      EXPECT_EQ(std::max_element(q, q + vocabulary) - q, best) << "row " << at / vocabulary << ", margin " << p[best] - second;
    }
  }
}

void run(const std::string& path, const char* golden_file, std::vector<int> prompts, size_t most) {
  LoadOptions quick = test::float32();
  quick.precision = Precision::Fast;
  test::Opened exact = test::open(path, test::float32()), fast = test::open(path, quick);
  ASSERT_TRUE(exact && fast);
  const json golden = test::read_json(test::data(golden_file));
  const size_t vocabulary = exact.model->vocabulary();
  Tally batch, steps;
  for (int i : prompts) {
    const json& prompt = golden["prompts"][i];
    const Ids tokens = prompt["tokens"];
    Ids made = prompt["gen_tokens"];
    made.resize(most);
    const auto reference = logits_of(*exact.session, tokens, made, false);
    compare(reference, logits_of(*fast.session, tokens, made, false), vocabulary, batch);
    if (i == prompts.back()) compare(reference, logits_of(*fast.session, tokens, made, true), vocabulary, steps);
  }
  std::printf("mean KL(float32 || fast): %.5f in batches (%zu positions), %.5f step by step (%zu)\n", batch.mean(), batch.rows, steps.mean(), steps.rows);
  EXPECT_LE(batch.mean(), 5e-3);
  EXPECT_LE(steps.mean(), 5e-3);
  EXPECT_GT(batch.mean(), 1e-9) << "the fast mode takes no shortcut: this compares float32 with itself";
}

TEST(FastMode, SmolLM2) {
  if (const auto path = test::smollm2()) run(*path, "fixtures/real/smollm2-135m-instruct-q4_1.json", {0, 1, 2}, 33);
}

TEST(FastMode, Gemma3) {
  if (const auto path = test::gemma3()) run(*path, "fixtures/real/gemma-3-270m-q4_k_m.json", {1}, 33);
}

}  // namespace
}  // namespace gull
