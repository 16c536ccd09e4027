// Whole models under a budget of weights: the same bits as without one, and never a byte over it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "engine/impl.h"
#include "support/models.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using testing::HasSubstr;

/// What a model computes: all logits of a prompt, those of a step after it, and greedy ids (chosen on the GPU).
struct Results {
  std::vector<float> prompt, step;
  std::vector<int32_t> ids;
};

struct Loaded {
  std::shared_ptr<Model> model;
  uint64_t weights_peak() const { return model->impl().device->ledger().peak(gpu::Memory::Weights); }
};

Result<std::shared_ptr<Model>> load(const std::string& path, uint64_t budget, Precision precision = Precision::Fast) {
  LoadOptions options;
  options.gpu_budget = budget;
  options.precision = precision;
  options.context = 256;
  return Model::load(path, options);
}

Result<Results> compute(const std::shared_ptr<Model>& model, const std::vector<int32_t>& prompt, int steps) {
  Results out;
  auto session = Session::create(model);
  if (!session) return fail(session.error());
  auto all = (*session)->logits(prompt, true);
  if (!all) return fail(all.error());
  out.prompt = std::move(*all);
  const int32_t next[1] = {prompt[0]};
  auto step = (*session)->logits(next);
  if (!step) return fail(step.error());
  out.step = std::move(*step);
  (*session)->reset();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = steps;
  options.ignore_eog = true;
  auto made = (*session)->generate(prompt, options);
  if (!made) return fail(made.error());
  out.ids = made->ids;
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same(const Results& want, const Results& got) {
  EXPECT_TRUE(same_bits(want.prompt, got.prompt)) << test::max_difference(want.prompt.data(), got.prompt.data(), want.prompt.size());
  EXPECT_TRUE(same_bits(want.step, got.step)) << test::max_difference(want.step.data(), got.step.data(), want.step.size());
  EXPECT_EQ(want.ids, got.ids);
}

std::vector<int32_t> prompt_of(size_t n, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 31 + 5) % vocabulary));
  return ids;
}

/// The number behind "must be at least".
uint64_t least_in(const std::string& message) {
  const size_t at = message.find("must be at least ");
  return at == std::string::npos ? 0 : std::strtoull(message.c_str() + at + 17, nullptr, 10);
}

/// At a share of its weights a model computes the same; or one clear error says how little is enough, and that much is.
void expect_same_at(const std::string& path, Precision precision, const Results& want, const std::vector<int32_t>& prompt, uint64_t budget) {
  auto model = load(path, budget, precision);
  if (!model && model.error().kind == ErrorKind::OutOfMemory) {
    const uint64_t least = least_in(model.error().message);
    ASSERT_GT(least, budget) << model.error().message;
    budget = least;
    model = load(path, budget, precision);
  }
  ASSERT_TRUE(model) << model.error().message;
  auto got = compute(*model, prompt, static_cast<int>(want.ids.size()));
  ASSERT_TRUE(got) << got.error().message;
  expect_same(want, *got);
  EXPECT_LE(Loaded{*model}.weights_peak(), budget);
  const Stats stats = (*model)->stats();
  if ((*model)->impl().weights->bounded()) {
    EXPECT_GT(stats.weight_evictions, 0u);
    EXPECT_GT(stats.weight_upload_bytes, budget);
  }
  testing::Test::RecordProperty("weights_peak", std::to_string(Loaded{*model}.weights_peak()));
}

struct Case {
  const char* file;
  Precision precision;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.file << (c.precision == Precision::F32 ? " f32" : " fast"); }

class Budget : public testing::TestWithParam<Case> {};

TEST_P(Budget, GivesTheSameBits) {
  const std::string path = test::data(std::string("fixtures/models/") + GetParam().file);
  auto whole = load(path, 0, GetParam().precision);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto prompt = prompt_of(19, (*whole)->vocabulary());
  auto want = compute(*whole, prompt, 6);
  ASSERT_TRUE(want) << want.error().message;
  const uint64_t total = (*whole)->impl().weights->total_bytes();
  for (const uint64_t percent : {100, 50, 25, 10}) {
    SCOPED_TRACE(percent);
    expect_same_at(path, GetParam().precision, *want, prompt, total * percent / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Budget,
                         testing::Values(Case{"llama.f32.gguf", Precision::F32}, Case{"llama-rope3-tied.f16.gguf", Precision::Fast},
                                         Case{"gemma3.f16.gguf", Precision::Fast}, Case{"q256.Q4_K_M.gguf", Precision::Fast},
                                         Case{"q128.Q8_0.gguf", Precision::Fast}, Case{"q128.Q8_0.gguf", Precision::F32},
                                         Case{"qwen2moe.f16.gguf", Precision::F32}, Case{"qwen3moe.f16.gguf", Precision::Fast}));

TEST(BudgetOfExperts, OnlyChosenExpertsComeIn) {
  const std::string path = test::data("fixtures/models/qwen3moe.f16.gguf");
  auto whole = load(path, 0);
  ASSERT_TRUE(whole) << whole.error().message;
  const uint64_t total = (*whole)->impl().weights->total_bytes();
  auto model = load(path, total / 2);
  ASSERT_TRUE(model) << model.error().message;
  auto session = Session::create(*model);
  ASSERT_TRUE(session);
  const int32_t id[1] = {7};
  ASSERT_TRUE((*session)->logits(id));
  // One token goes through 2 of 6 experts a layer, and reads one row of one tile of the embedding.
  uint64_t rest = 0, experts = 0;
  for (const auto& info : (*model)->file().tensors())
    (info.name.find("_exps") != std::string::npos ? experts : rest) += weights::gpu_bytes(info);
  EXPECT_LE((*model)->stats().weight_upload_bytes, rest + experts / 3);
}

TEST(BudgetOfSessions, ManyAtOnceGetTheirOwnResults) {
  const std::string path = test::data("fixtures/models/llama.f32.gguf");
  auto whole = load(path, 0, Precision::F32);
  ASSERT_TRUE(whole) << whole.error().message;
  auto model = load(path, (*whole)->impl().weights->total_bytes() / 2, Precision::F32);
  ASSERT_TRUE(model) << model.error().message;
  std::vector<Results> want(3), got(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) want[i] = *compute(*whole, prompt_of(5 + 4 * i, 288), 5);
  for (size_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      if (auto result = compute(*model, prompt_of(5 + 4 * i, 288), 5)) got[i] = *result;
    });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 3; ++i) expect_same(want[i], got[i]);
  EXPECT_LE(Loaded{*model}.weights_peak(), (*model)->impl().weights->budget());
}

TEST(BudgetTooSmall, SaysHowMuchIsEnough) {
  const std::string path = test::data("fixtures/models/llama.f32.gguf");
  auto model = load(path, 1000);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::OutOfMemory);
  const uint64_t least = least_in(model.error().message);
  ASSERT_GT(least, 0u) << model.error().message;
  EXPECT_FALSE(load(path, least - 1));
  auto enough = load(path, least);
  ASSERT_TRUE(enough) << enough.error().message;
  EXPECT_TRUE(compute(*enough, prompt_of(9, 288), 3));
}

TEST(BudgetOfAFile, ThatIsCutShortIsOneClearError) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("gull-budget-" + std::to_string(::getpid()) + ".gguf");
  std::filesystem::copy_file(test::data("fixtures/models/llama.f32.gguf"), path, std::filesystem::copy_options::overwrite_existing);
  {
    auto whole = load(path, 0);
    ASSERT_TRUE(whole) << whole.error().message;
    auto model = load(path, (*whole)->impl().weights->total_bytes() / 2);
    ASSERT_TRUE(model) << model.error().message;
    const auto prompt = prompt_of(9, 288);
    ASSERT_TRUE(compute(*model, prompt, 3));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 3);
    auto failed = compute(*model, prompt, 3);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, testing::StartsWith(path.string() + ": was "));
    EXPECT_THAT(failed.error().message, HasSubstr("load it again"));
    EXPECT_TRUE(compute(*whole, prompt, 3)) << "what is on the GPU stays there";
  }
  std::filesystem::remove(path);
}

/// The real models, where `gull pull` puts them.
class RealBudget : public testing::TestWithParam<std::optional<std::string> (*)()> {};

TEST_P(RealBudget, GivesTheSameBits) {
  const auto found = GetParam()();
  if (!found) return;
  const std::string& path = *found;
  auto whole = load(path, 0);
  ASSERT_TRUE(whole) << whole.error().message;
  const auto prompt = *(*whole)->tokenize("The capital of France is");
  auto want = compute(*whole, prompt, 3);
  ASSERT_TRUE(want) << want.error().message;
  const uint64_t total = (*whole)->impl().weights->total_bytes();
  whole->reset();
  for (const uint64_t percent : {100, 50, 25, 10}) {
    SCOPED_TRACE(percent);
    expect_same_at(path, Precision::Fast, *want, prompt, total * percent / 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealBudget, testing::Values(&test::smollm2, &test::gemma3));

}  // namespace
}  // namespace gull
