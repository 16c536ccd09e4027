// JSON Schema as a grammar: fixed texts that Python's jsonschema has judged (tests/text/make_schema_cases.py), and random
// walks, whose every result must be valid JSON and valid against the schema.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "text/grammar/grammar.h"
#include "text/grammar/json_schema.h"

namespace {

using namespace gull::text;
using Json = nlohmann::ordered_json;

Json load() {
  std::ifstream in(std::string(GULL_TEST_DATA) + "/grammar/schemas.json", std::ios::binary);
  return Json::parse(in, nullptr, false);
}

/// A validator of the keywords that the schemas of this test use, written for it alone.
class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool fits(const Json& v, const Json& s) const {
    if (s.is_boolean()) return s.get<bool>();
    for (const auto& [key, want] : s.items())
      if (!keyword(v, s, key, want)) return false;
    return true;
  }

 private:
  static bool is_type(const Json& v, const std::string& t) {
    if (t == "integer") return v.is_number_integer() || (v.is_number_float() && v.get<double>() == static_cast<double>(static_cast<int64_t>(v.get<double>())));
    return t == "null" ? v.is_null() : t == "boolean" ? v.is_boolean() : t == "number" ? v.is_number() : t == "string" ? v.is_string() : t == "array" ? v.is_array() : v.is_object();
  }
  static size_t characters(const std::string& s) {
    return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }
  bool any(const Json& v, const Json& list) const {
    return std::any_of(list.begin(), list.end(), [&](const Json& s) { return fits(v, s); });
  }

  bool keyword(const Json& v, const Json& s, const std::string& k, const Json& want) const {
    if (k == "$ref") {
      std::string pointer = want.get<std::string>().substr(1);
      return fits(v, root_[Json::json_pointer(pointer)]);
    }
    if (k == "type") return want.is_string() ? is_type(v, want) : std::any_of(want.begin(), want.end(), [&](const Json& t) { return is_type(v, t); });
    if (k == "const") return v == want;
    if (k == "enum") return std::find(want.begin(), want.end(), v) != want.end();
    if (k == "anyOf") return any(v, want);
    if (k == "oneOf") return std::count_if(want.begin(), want.end(), [&](const Json& b) { return fits(v, b); }) == 1;
    if (k == "allOf") return std::all_of(want.begin(), want.end(), [&](const Json& b) { return fits(v, b); });
    if (v.is_number()) {
      if (k == "minimum") return v >= want;
      if (k == "maximum") return v <= want;
      if (k == "exclusiveMinimum") return v > want;
      if (k == "exclusiveMaximum") return v < want;
    }
    if (v.is_string()) {
      if (k == "minLength") return characters(v) >= want.get<size_t>();
      if (k == "maxLength") return characters(v) <= want.get<size_t>();
      // std::regex knows no UTF-8; patterns with negated classes are left to jsonschema.
      if (k == "pattern" && want.get<std::string>().find("[^") == std::string::npos) return std::regex_search(v.get<std::string>(), std::regex(want.get<std::string>()));
    }
    if (v.is_array()) {
      const size_t first = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
      if (k == "minItems") return v.size() >= want.get<size_t>();
      if (k == "maxItems") return v.size() <= want.get<size_t>();
      for (size_t i = 0; i < v.size(); i++) {
        if (k == "prefixItems" && i < first && !fits(v[i], want[i])) return false;
        if (k == "items" && i >= first && !fits(v[i], want)) return false;
      }
    }
    if (v.is_object()) {
      if (k == "required") return std::all_of(want.begin(), want.end(), [&](const Json& n) { return v.contains(n.get<std::string>()); });
      for (const auto& [name, value] : v.items()) {
        if (k == "properties" && want.contains(name) && !fits(value, want[name])) return false;
        if (k == "additionalProperties" && !(s.contains("properties") && s["properties"].contains(name)) && !fits(value, want)) return false;
      }
    }
    return true;
  }

  const Json& root_;
};

/// All single bytes, whole and broken characters, and pieces of JSON as real vocabularies have them.
std::vector<std::string> vocabulary(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> pieces(256);
  for (size_t i = 0; i < 256; i++) pieces[i] = std::string(1, static_cast<char>(i));
  for (const char* p : {"{\"", "\":", "\": ", "\",", "\", \"", "\"}", "},", "}]", "]}", "[{\"", "[\"", "\"]", "true", "false", "null", "tr", "ue", "\":{\"", "\":[", ": ", ", ", "\n", "\n  ",
                        "id", "kind", "order", "refund", "lines", "sku", "count", "customer", "name", "-", "AB", "é", "🙂", "\xF0\x9F", "\x99\x82", "\xC3", "\\u", "\\n", "\\\"", "00", "12", "1.", ".5", "e1", "ab"})
    pieces.emplace_back(p);
  const std::string_view alphabet = "{}[]\",: -0123456789.eEabcdefinorstuxyzABZ\\\n_@/";
  for (int i = 0; i < 3000; i++) {
    std::string piece;
    for (size_t n = 1 + random() % 4; n > 0; n--) piece += alphabet[random() % alphabet.size()];
    pieces.push_back(piece);
  }
  return pieces;
}

/// Random tokens until the grammar is content; towards the end those that close something (or are the "ab" that one
/// schema waits for) are preferred.
std::string walk(const std::shared_ptr<const Grammar>& grammar, const TokenTrie& trie, const std::vector<std::string>& pieces, uint32_t seed) {
  std::mt19937 random(seed);
  GrammarState state(grammar);
  std::string text;
  for (int step = 0; step < 4000; step++) {
    if (state.is_complete() && (state.is_finished() || random() % 3 == 0 || step > 60)) return text;
    std::vector<int> open, closing;
    bool quote = false;
    const auto mask = state.allowed_tokens(trie);
    for (size_t i = 0; i < pieces.size(); i++) {
      if (!(mask[i / 32] >> (i % 32) & 1)) continue;
      open.push_back(static_cast<int>(i));
      if (pieces[i] == "]" || pieces[i] == "}" || pieces[i] == "ab") closing.push_back(static_cast<int>(i));
      quote = quote || pieces[i] == "\"";
    }
    if (quote) closing.assign(1, '"');
    if (open.empty()) {
      ADD_FAILURE() << "a dead end after " << text;
      return text;
    }
    const auto& from = !closing.empty() && random() % (step > 60 ? 2 : 4) == 0 ? closing : open;
    const std::string& piece = pieces[static_cast<size_t>(from[random() % from.size()])];
    if (!state.advance(piece)) ADD_FAILURE() << "an allowed token was refused after " << text;
    text += piece;
  }
  ADD_FAILURE() << "no end: " << text.substr(0, 200);
  return text;
}

TEST(JsonSchema, TextsThatJsonschemaJudged) {
  const Json all = load();
  ASSERT_TRUE(all.is_object());
  for (const Json& c : all["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto grammar = Grammar::from_json_schema(c["schema"].dump());
    if (!grammar) {
      ADD_FAILURE() << grammar.error().message;
      continue;
    }
    const auto reads = [&](const Json& text) {
      GrammarState state(*grammar);
      return state.advance(text.get<std::string>()) && state.is_complete();
    };
    for (const Json& text : c["accept"]) EXPECT_TRUE(reads(text)) << text;
    for (const Json& text : c["reject"]) EXPECT_FALSE(reads(text)) << text;
    for (const Json& text : c["reject_though_valid"]) EXPECT_FALSE(reads(text)) << text;
  }
}

TEST(JsonSchema, WhatCannotBeKeptIsRefusedByName) {
  const Json all = load();
  for (const Json& c : all["refused"]) {
    const auto grammar = Grammar::from_json_schema(c["schema"].dump());
    EXPECT_FALSE(grammar) << c["schema"];
    if (!grammar) {
      EXPECT_NE(grammar.error().message.find(c["names"].get<std::string>()), std::string::npos) << grammar.error().message;
    }
  }
  EXPECT_FALSE(Grammar::from_json_schema("{"));
  EXPECT_FALSE(Grammar::from_json_schema(""));
  EXPECT_FALSE(Grammar::from_json_schema("[1]"));
}

TEST(JsonSchema, RandomWalksAlwaysGiveValidTexts) {
  const Json all = load();
  const auto pieces = vocabulary(1);
  const TokenTrie trie(pieces);
  const char* path = std::getenv("GULL_SCHEMA_WALKS");   // for make_schema_cases.py --check
  std::ofstream out;
  if (path) out.open(path);
  for (const Json& c : all["cases"]) {
    const std::string name = c["name"];
    SCOPED_TRACE(name);
    const auto grammar = Grammar::from_json_schema(c["schema"].dump());
    ASSERT_TRUE(grammar) << grammar.error().message;
    const Validator validator(c["schema"]);
    const uint32_t walks = name == "nested" ? 200 : 20;
    for (uint32_t seed = 0; seed < walks; seed++) {
      const std::string text = walk(*grammar, trie, pieces, seed);
      const Json value = Json::parse(text, nullptr, false);
      EXPECT_TRUE(!value.is_discarded() && validator.fits(value, c["schema"])) << text;
      if (path) {
        Json line;
        line["name"] = name;
        line["text"] = text;
        out << line.dump() << "\n";
      }
    }
  }
}

TEST(JsonSchema, HostileSchemasAreRefused) {
  std::string deep = "true";
  for (int i = 0; i < 300; i++) deep = "{\"type\":\"array\",\"items\":" + deep + "}";
  EXPECT_FALSE(json_schema_to_gbnf(deep));
  std::string wide = "{\"type\":\"string\",\"minLength\":100000}";
  for (int i = 0; i < 5; i++) wide = "{\"type\":\"array\",\"minItems\":100000,\"items\":" + wide + "}";
  EXPECT_FALSE(Grammar::from_json_schema(wide));
  // Many names for additionalProperties, with long shared beginnings.
  std::string names;
  for (int i = 0; i < 50; i++) names += fmt::format("{}\"{}{}\":true", i ? "," : "", std::string(350, 'n'), i);
  EXPECT_TRUE(Grammar::from_json_schema("{\"type\":\"object\",\"properties\":{" + names + "},\"additionalProperties\":true}"));
  // References in a circle.
  EXPECT_FALSE(Grammar::from_json_schema(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})"));
  EXPECT_FALSE(Grammar::from_json_schema(R"({"allOf":[{"$ref":"#"}]})"));
  EXPECT_FALSE(Grammar::from_json_schema(R"({"anyOf":[{"$ref":"#"},{"$ref":"#"}]})"));
  for (const char* broken : {R"({"type":5})", R"({"properties":[]})", R"({"required":"a"})", R"({"required":[1],"type":"object"})", R"({"enum":5})", R"({"anyOf":5})", R"({"allOf":[]})",
                             R"({"$ref":5})", R"({"minLength":"x"})", R"({"minLength":-1})", R"({"minimum":"x"})", R"({"pattern":5})", R"({"prefixItems":5})", R"({"items":5})",
                             R"({"minimum":1e300})", R"({"minItems":1e10})", R"({"type":[5]})", R"({"pattern":"("})", R"({"pattern":"["})", R"({"pattern":"a{2"})", R"({"pattern":"\\"})", R"({"pattern":"*"})",
                             R"({"pattern":"a)b"})", R"({"pattern":"a{9999999999}"})"})
    EXPECT_FALSE(Grammar::from_json_schema(broken)) << broken;
}

}  // namespace
