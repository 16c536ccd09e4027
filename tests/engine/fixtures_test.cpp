// Every tiny fixture of an architecture that gull runs: logits within the stated tolerance and the greedy ids, on the
// device as it is, on WebGPU's default limits, and with each optional feature forced off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gull/engine.h"
#include "support/fixtures.h"

namespace gull {
namespace {

struct Variant {
  const char* name;
  LoadOptions options;
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  const auto add = [&](const char* name, auto&& change) {
    LoadOptions options;
    options.precision = Precision::F32;
    change(options);
    out.push_back({name, options});
  };
  add("plain", [](LoadOptions&) {});
  add("baseline", [](LoadOptions& o) { o.device.baseline_limits = true; });
  add("no_subgroups_no_f16", [](LoadOptions& o) { o.device.no_subgroups = o.device.no_f16 = true; });
  add("checked", [](LoadOptions& o) { o.device.checked_shaders = true; });
  add("fast", [](LoadOptions& o) { o.precision = Precision::Fast; });
  return out;
}

struct Case {
  nlohmann::json json;
  Variant variant;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.json["id"] << " " << c.variant.name; }

std::vector<Case> cases() {
  std::vector<Case> out;
  const nlohmann::json index = test::read_json(test::data("fixtures/index.json"));
  for (const auto& c : index["cases"])
    if (c["kind"] == "logits")
      for (const Variant& v : variants()) out.push_back({c, v});
  return out;
}

class Fixture : public testing::TestWithParam<Case> {};

TEST_P(Fixture, LogitsAndGreedyIds) {
  const auto& c = GetParam().json;
  auto model = Model::load(test::data("fixtures/" + c["model"].get<std::string>()), GetParam().variant.options);
  ASSERT_TRUE(model) << model.error().message;
  auto session = Session::create(*model);
  ASSERT_TRUE(session) << session.error().message;
  const auto prompt = c["prompt"].get<std::vector<int32_t>>();
  auto logits = (*session)->logits(prompt, true);
  ASSERT_TRUE(logits) << logits.error().message;
  const auto expected = test::read_f32(test::data("fixtures/" + c["logits"].get<std::string>()));
  const size_t vocabulary = (*model)->vocabulary();
  const size_t first = c.value("first_position", 0);
  ASSERT_EQ(logits->size(), prompt.size() * vocabulary);
  ASSERT_EQ(expected.size(), (prompt.size() - first) * vocabulary);
  const float worst = test::max_difference(logits->data() + first * vocabulary, expected.data(), expected.size());
  const bool fast = GetParam().variant.options.precision == Precision::Fast;
  const float tolerance = c[fast ? "tol_f16" : "tol_f32"].get<float>();
  EXPECT_LE(worst, tolerance);
  RecordProperty("max_difference", std::to_string(worst));

  // Decoding one token at a time, where the margin leaves no doubt.
  if (worst > c["greedy_min_margin"].get<float>() / 2) return;
  (*session)->reset();
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 16;
  options.ignore_eog = true;
  auto made = (*session)->generate(prompt, options);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->ids, testing::ElementsAreArray(c["greedy"].get<std::vector<int32_t>>()));
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.json["id"].get<std::string>() + "_" + info.param.variant.name;
  for (char& ch : name)
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Fixture, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace gull
