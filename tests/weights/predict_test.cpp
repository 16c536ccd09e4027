// What loading says a model takes on the GPU, against what it then takes; and what it says when that is too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "engine/predict.h"
#include "support/models.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using testing::HasSubstr;

std::string fixture(const std::string& file) { return test::data("fixtures/models/" + file); }

/// The number after `option` in a message; 0 where it is not named.
uint64_t advised(const std::string& message, const std::string& option) {
  const size_t at = message.find(option + " ");
  return at == std::string::npos ? 0 : std::strtoull(message.c_str() + at + option.size() + 1, nullptr, 10);
}

Result<std::shared_ptr<Model>> load(const std::string& path, const LoadOptions& options = {}) { return Model::load(path, options); }

void expect_near(uint64_t predicted, uint64_t real, const char* what) {
  EXPECT_LE(std::max(predicted, real) - std::min(predicted, real), real / 20) << what << ": predicted " << predicted << ", took " << real;
}

/// Longer than what the kernels for a few tokens take: a prediction is for prompts of any length.
std::vector<int32_t> prompt() {
  std::vector<int32_t> ids(kernels::kFewTokens + 4);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i + 1);
  return ids;
}

void expect_predicted(const std::string& path, const LoadOptions& options) {
  auto model = load(path, options);
  ASSERT_TRUE(model) << model.error().message;
  auto prediction = engine::predict((*model)->impl());
  ASSERT_TRUE(prediction) << prediction.error().message;
  if ((*model)->is_embedding_model()) {
    auto session = Session::create(*model);
    ASSERT_TRUE((*session)->embed(prompt()));
    const MemoryUse real = (*model)->stats().memory;
    expect_near(prediction->memory.total, real.peak, "peak");
    return;
  }
  auto session = Session::create(*model);
  ASSERT_TRUE(session) << session.error().message;
  GenerateOptions generate;
  generate.max_tokens = 4;
  generate.ignore_eog = true;
  ASSERT_TRUE((*session)->generate(prompt(), generate));
  const MemoryUse real = (*model)->stats().memory;
  expect_near(prediction->memory.weights, real.weights, "weights");
  expect_near(prediction->memory.kv, real.kv, "KV cache");
  expect_near(prediction->memory.activations, real.activations, "activations");
  expect_near(prediction->memory.parameters, real.parameters, "parameters");
  expect_near(prediction->memory.total, real.peak, "peak");
}

TEST(PredictWithoutGpu, IsWithinFivePercentToo) {
  for (const char* name : {"llama.f32.gguf", "q256.Q4_K_M.gguf", "qwen3moe.f16.gguf"}) {
    SCOPED_TRACE(name);
    auto file = gguf::File::open_path(fixture(name));
    ASSERT_TRUE(file);
    LoadOptions options;
    options.context = 200;
    const auto predicted = predict_memory(*file, options);
    ASSERT_TRUE(predicted) << predicted.error().message;
    auto model = Model::load(*file, options);
    ASSERT_TRUE(model) << model.error().message;
    auto session = Session::create(*model);
    ASSERT_TRUE((*session)->generate(prompt(), {.max_tokens = 3, .ignore_eog = true}));
    expect_near(predicted->peak, (*model)->stats().memory.peak, "peak");
  }
  EXPECT_FALSE(predict_memory(*gguf::File::open_path(fixture("llama.f32.gguf")), {.context = 1u << 30}));
}

class Predict : public testing::TestWithParam<const char*> {};

TEST_P(Predict, IsWithinFivePercentOfThePeak) {
  LoadOptions options;
  options.context = 64;
  expect_predicted(fixture(GetParam()), options);
  options.precision = Precision::F32;
  expect_predicted(fixture(GetParam()), options);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Predict,
                         testing::Values("llama.f32.gguf", "gemma3.f16.gguf", "q256.Q4_K_M.gguf", "qwen3moe.f16.gguf", "bert-bge.f16.gguf"));

TEST(PredictReal, SmolLM2) {
  const auto found = test::smollm2();
  if (!found) return;
  const std::string& path = *found;
  LoadOptions options;
  expect_predicted(path, options);
  options.gpu_budget = 30 << 20;
  options.context = 1024;
  expect_predicted(path, options);
}

TEST(Refusal, TellsTheFiguresAndWhatWouldFit) {
  auto whole = load(fixture("llama.f32.gguf"), {.precision = Precision::F32, .context = 2048});
  ASSERT_TRUE(whole) << whole.error().message;
  const MemoryUse memory = engine::predict((*whole)->impl())->memory;
  LoadOptions options{.precision = Precision::F32, .context = 2048, .gpu_memory = memory.total - 100000};
  auto refused = load(fixture("llama.f32.gguf"), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::OutOfMemory);
  const std::string& message = refused.error().message;
  for (const char* part : {"weights", "KV cache", "for 2048 tokens", "activations", "there is room for"}) EXPECT_THAT(message, HasSubstr(part));
  // Each piece of advice is good by itself.
  LoadOptions smaller = options;
  smaller.gpu_budget = advised(message, "--gpu-budget");
  ASSERT_GT(smaller.gpu_budget, 0u) << message;
  EXPECT_TRUE(load(fixture("llama.f32.gguf"), smaller));
  smaller = options;
  smaller.context = static_cast<uint32_t>(advised(message, "--ctx"));
  ASSERT_GT(smaller.context, 0u) << message;
  EXPECT_TRUE(load(fixture("llama.f32.gguf"), smaller));
  EXPECT_THAT(message, HasSubstr("--kv f16"));
  smaller = options;
  smaller.kv_type = KvType::F16;
  EXPECT_TRUE(load(fixture("llama.f32.gguf"), smaller));
}

TEST(Refusal, WhenNothingWouldFit) {
  auto refused = load(fixture("llama.f32.gguf"), {.context = 64, .gpu_memory = 1000});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("not even the smallest budget of weights"));
}

TEST(Refusal, AKvCacheThatCannotBeBound) {
  LoadOptions options{.precision = Precision::F32, .context = 1u << 21};
  options.device.baseline_limits = true;   // 128 MiB a binding
  auto refused = load(fixture("llama.f32.gguf"), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::OutOfMemory);
  EXPECT_THAT(refused.error().message, HasSubstr("the KV cache of a layer takes 256.0 MiB for 2097152 tokens, this device binds at most 128.0 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("--ctx 1048576 or --kv f16 would fit"));
}

TEST(Loading, ReportsTheUploadAndCanBeCancelled) {
  std::vector<Progress> reports;
  LoadOptions options;
  options.progress = [&](const Progress& p) {
    if (std::string_view(p.stage) == "upload") reports.push_back(p);
  };
  auto model = load(fixture("llama.f32.gguf"), options);
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_GE(reports.size(), 2u);
  EXPECT_EQ(reports.front().done, 0u);
  EXPECT_EQ(reports.back().done, reports.back().total);
  EXPECT_EQ(reports.back().total, (*model)->stats().memory.weights);
  CancelFlag cancel = true;
  options.cancel = &cancel;
  auto cancelled = load(fixture("llama.f32.gguf"), options);
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::Cancelled);
}

}  // namespace
}  // namespace gull
