// Quantised KV caches: how far predictions move from the reference logits, what they save, and whom they are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/opened.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using nlohmann::json;

json case_of(const std::string& id) {
  for (const char* file : {"fixtures/index.json", "fixtures/more.json"}) {
    const json index = test::read_json(test::data(file));
    for (const auto& c : index["cases"])
      if (c["id"] == id && c["kind"] == "logits") return c;
  }
  ADD_FAILURE() << "no fixture " << id;
  return {};
}

/// Σ p·(log p − log q) of the softmax of two rows of logits.
double divergence(const float* p, const float* q, size_t n) {
  const auto log_sum = [n](const float* x) {
    double sum = 0;
    const double best = *std::max_element(x, x + n);
    for (size_t i = 0; i < n; ++i) sum += std::exp(x[i] - best);
    return best + std::log(sum);
  };
  const double lp = log_sum(p), lq = log_sum(q);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(p[i] - lp) * ((p[i] - lp) - (q[i] - lq));
  return sum;
}

/// The mean over the prompt's positions, fed at once or one by one.
double mean_divergence(const std::string& id, KvType type, bool one_by_one) {
  const json c = case_of(id);
  LoadOptions options = test::float32(0);
  options.kv_type = type;
  const auto opened = test::open(test::data("fixtures/" + c["model"].get<std::string>()), options);
  if (!opened) return INFINITY;
  const auto prompt = c["prompt"].get<std::vector<int32_t>>();
  const size_t vocabulary = opened.model->vocabulary(), first = c.value("first_position", 0);
  std::vector<float> logits;
  for (size_t at = 0, n = one_by_one ? 1 : prompt.size(); at < prompt.size(); at += n) {
    const auto more = opened.session->logits(std::span(prompt).subspan(at, n), true);
    EXPECT_TRUE(more) << more.error().message;
    if (!more) return INFINITY;
    logits.insert(logits.end(), more->begin(), more->end());
  }
  const auto expected = test::read_f32(test::data("fixtures/" + c["logits"].get<std::string>()));
  double sum = 0;
  for (size_t row = 0; row < prompt.size() - first; ++row)
    sum += divergence(&expected[row * vocabulary], &logits[(first + row) * vocabulary], vocabulary);
  return sum / static_cast<double>(prompt.size() - first);
}

TEST(KvTypes, StayCloseToTheReference) {
  // The fixtures whose heads are whole blocks: windows, norms of heads, one KV head of 32 and of 64.
  for (const char* id : {"mistral", "qwen3-yarn", "gemma", "q256-Q4_K_M"})
    for (const bool one_by_one : {false, true}) {
      SCOPED_TRACE(testing::Message() << id << (one_by_one ? ", one by one" : ""));
      const double q8 = mean_divergence(id, KvType::Q8_0, one_by_one), q4 = mean_divergence(id, KvType::Q4_0, one_by_one);
      std::printf("%s: q8_0 %.2g, q4_0 %.2g\n", id, q8, q4);
      // A step of q4_0 is 16 to 18 times one of q8_0, and the divergence goes with its square.
      EXPECT_LE(q8, 1e-3);
      EXPECT_LE(q4, 0.3);
      EXPECT_GT(q4, q8);
    }
}

TEST(KvTypes, TakeNineAndFiveBits) {
  const std::string path = test::data("fixtures/" + case_of("mistral")["model"].get<std::string>());
  LoadOptions options = test::float32();
  const auto full = test::open(path, options);
  for (const auto& [type, bits] : {std::pair{KvType::F16, 16u}, {KvType::Q8_0, 9u}, {KvType::Q4_0, 5u}}) {
    options.kv_type = type;
    const auto small = test::open(path, options);
    EXPECT_EQ(small.model->stats().memory.kv * 32, full.model->stats().memory.kv * bits);
  }
}

TEST(KvTypes, RefusedWhereHeadsAreNoWholeBlocks) {
  LoadOptions options;
  options.kv_type = KvType::Q8_0;
  const auto model = Model::load(test::data("fixtures/" + case_of("llama")["model"].get<std::string>()), options);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::Unsupported);
  EXPECT_THAT(model.error().message, testing::HasSubstr("--kv f16"));
}

}  // namespace
}  // namespace gull
