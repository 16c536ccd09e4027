// Random grammars against the regular expressions that say the same (tests/text/make_grammar_cases.py made the file).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/grammar/grammar.h"

namespace {

using namespace gull::text;

TEST(Gbnf, AgreesWithRegularExpressions) {
  std::ifstream in(std::string(GULL_TEST_DATA) + "/grammar/regex_cases.json", std::ios::binary);
  const auto cases = nlohmann::json::parse(in, nullptr, false);
  ASSERT_TRUE(cases.is_array());
  ASSERT_GE(cases.size(), 200u);
  size_t texts = 0;
  for (const auto& c : cases) {
    const auto grammar = Grammar::parse(c["gbnf"].get<std::string>());
    ASSERT_TRUE(grammar) << grammar.error().message << c["gbnf"];
    for (const char* verdict : {"yes", "begun", "no"}) {
      for (const auto& text : c[verdict]) {
        GrammarState state(*grammar);
        const bool read = state.advance(text.get<std::string>());
        EXPECT_EQ(!read ? "no" : state.is_complete() ? "yes" : "begun", std::string(verdict)) << c["gbnf"].get<std::string>() << text;
        texts++;
      }
    }
  }
  EXPECT_GT(texts, 2000u);
}

}  // namespace
