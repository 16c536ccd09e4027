// Ids and text that llama.cpp gave for the fixture models (tests/data/fixtures/README.md says how they were made).
#include "tokenizer_strings.h"

namespace gull::text::test {
namespace {

class TinyModel : public testing::TestWithParam<const char*> {};

TEST_P(TinyModel, GivesLlamaCppsIds) {
  nlohmann::json file = read_json(data("fixtures/tokenizer/tiny-") + GetParam() + ".json");
  auto tokenizer = open_tokenizer(data("fixtures/" + file["model_file"].get<std::string>()));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(run_cases(**tokenizer, file["cases"]), 9u);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TinyModel, testing::Values("llama", "mistral", "gemma3", "gemma4-e2b", "bert-bge"));

/// fixtures/real/*.json: what llama.cpp says of a real model's tokenizer.
void run_real(const Tokenizer& tokenizer, const nlohmann::json& real) {
  EXPECT_EQ(tokenizer.size(), real["n_vocab"]);
  EXPECT_EQ(tokenizer.bos(), real["bos"]);
  EXPECT_EQ(tokenizer.eos(), real["eos"]);
  EXPECT_EQ(tokenizer.add_bos(), real["add_bos"]);
  std::vector<int32_t> ends(tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end());
  EXPECT_EQ(ends, real["eog_tokens"].get<std::vector<int32_t>>());
  EXPECT_TRUE(tokenizer.is_end_of_generation(real["eot"]));
  for (const auto& c : real["tokenization"]) {
    std::string text = from_hex(c["text_hex"]);
    std::vector<int32_t> all = c["ids_special_parse"], bare = c["ids_nospecial_noparse"], parsed = c["ids_nospecial_parse"];
    EXPECT_EQ(*tokenizer.encode(text, {true, true}), all) << testing::PrintToString(text);
    EXPECT_EQ(*tokenizer.encode(text, {false, false}), bare) << testing::PrintToString(text);
    EXPECT_EQ(*tokenizer.encode(text, {false, true}), parsed) << testing::PrintToString(text);
    std::string joined;
    ASSERT_EQ(c["pieces_hex"].size(), parsed.size());
    for (size_t i = 0; i < parsed.size(); ++i) {
      EXPECT_EQ(to_hex(tokenizer.piece(parsed[i], true)), c["pieces_hex"][i]);
      joined += tokenizer.piece(parsed[i], true);
    }
    EXPECT_EQ(to_hex(tokenizer.decode(parsed, true)), c["detok_hex"]);
    if (c["roundtrip"]) {
      EXPECT_EQ(joined, text);
    }
  }
  EXPECT_EQ(real["tokenization"].size(), 28u);
}

void run_smollm2(const Result<TokenizerPtr>& tokenizer) {
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(run_cases(**tokenizer, read_json(data("fixtures/tokenizer/smollm2.json"))["cases"]), 88u);
  run_real(**tokenizer, read_json(data("fixtures/real/smollm2-135m-instruct-q4_1.json")));
}

TEST(RealModel, SmolLM2Vocabulary) { run_smollm2(make_tokenizer(smollm2())); }

TEST(RealModel, SmolLM2) {
  auto path = big_model("GULL_SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf");
  if (path) run_smollm2(open_tokenizer(*path));
}

TEST(RealModel, Gemma3) {
  auto path = big_model("GULL_GEMMA3", "gemma-3-270m-q4_k_m.gguf");
  if (!path) return;
  auto tokenizer = open_tokenizer(*path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(run_cases(**tokenizer, read_json(data("fixtures/tokenizer/gemma3-270m.json"))["cases"]), 88u);
  run_real(**tokenizer, read_json(data("fixtures/real/gemma-3-270m-q4_k_m.json")));
}

}  // namespace
}  // namespace gull::text::test
