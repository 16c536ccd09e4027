// Thousands of generated strings a tokenizer, against hashes of the ids that llama.cpp and the tokenizers library give
// (make_tokenizer_cases.py); and the way back.
#include "tokenizer_strings.h"

namespace gull::text::test {
namespace {

TokenizerPtr open_case(const nlohmann::json& c) {
  std::string vocabulary = c["vocabulary"];
  auto tokenizer = vocabulary == "smollm2" ? make_tokenizer(smollm2(c["pre"])) : open_tokenizer(data("tokenizer/" + vocabulary + ".gguf"));
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return tokenizer ? *tokenizer : nullptr;
}

std::string without(std::string text, const std::string& part) {
  for (size_t at = 0; !part.empty() && (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

class Generated : public testing::TestWithParam<size_t> {
 protected:
  static const nlohmann::json& cases() {
    static const nlohmann::json all = read_json(data("tokenizer/cases.json"));
    return all;
  }
};

TEST_P(Generated, IdsEqualTheirs) {
  const auto& c = cases().at(GetParam());
  TokenizerPtr tokenizer = open_case(c);
  ASSERT_TRUE(tokenizer);
  Strings strings;
  size_t count = c["strings"], compared = 0;
  for (size_t begin = 0; begin < count; begin += 100) {
    IdsHash hash;
    for (size_t i = begin; i < begin + 100; ++i) {
      std::string text = without(strings.string(c["seed"], i), c.value("without", ""));
      auto ids = tokenizer->encode(text, {.add_special = false, .parse_special = i % 2 == 1});
      ASSERT_TRUE(ids) << ids.error().message;
      hash.add(*ids);
      // SmolLM2's vocabulary lacks some bytes, so byte-level text comes back unless one of them is in it.
      if (c["vocabulary"] == "smollm2" && text.find('\xF1') == std::string::npos) {
        ASSERT_EQ(tokenizer->decode(*ids, true), text);
      }
    }
    EXPECT_EQ(hash.text(), c["hashes"][begin / 100]) << c["vocabulary"] << " " << c.value("pre", "") << ", strings " << begin << "…";
    ++compared;
  }
  EXPECT_EQ(compared, c["hashes"].size());
}

INSTANTIATE_TEST_SUITE_P(All, Generated, testing::Range<size_t>(0, 34));

TEST(Generated, CoversAllCases) { EXPECT_EQ(read_json(data("tokenizer/cases.json")).size(), 34u); }

}  // namespace
}  // namespace gull::text::test
