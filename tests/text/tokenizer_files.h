// Models and cases for the tokenizer tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "gull/gguf.h"
#include "text/tokenizer.h"

namespace gull::text::test {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

inline std::string data(const std::string& name) { return std::string(GULL_TEST_DATA) + "/" + name; }

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return nlohmann::json::parse(in, nullptr, false);
}

inline std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

inline std::string to_hex(std::string_view bytes) {
  std::string out;
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

inline Result<TokenizerPtr> open_tokenizer(const std::string& path) {
  auto file = gguf::File::open_path(path);
  if (!file) return fail(file.error());
  return Tokenizer::from_gguf(**file);
}

/// The tokenizer of the file that a writer holds.
inline Result<TokenizerPtr> make_tokenizer(const gguf::Writer& writer) {
  auto bytes = writer.bytes();
  if (!bytes) return fail(bytes.error());
  auto file = gguf::File::open(memory_source("made for a test", std::move(*bytes)));
  if (!file) return fail(file.error());
  return Tokenizer::from_gguf(**file);
}

/// A model that is too big for the repository: named by an environment variable, or in gull's cache. Where it is
/// missing, the test passes with a notice, unless GULL_REQUIRE_MODELS=1.
inline std::optional<std::string> big_model(const char* variable, const std::string& file) {
  std::vector<std::string> places;
  if (const char* path = std::getenv(variable)) places.push_back(path);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache) places.push_back(std::string(cache) + "/gull/" + file);
  else if (home) places.push_back(std::string(home) + "/.cache/gull/" + file);
  for (const std::string& place : places) {
    if (std::filesystem::exists(place)) return place;
  }
  const char* required = std::getenv("GULL_REQUIRE_MODELS");
  if (required && std::string(required) == "1") ADD_FAILURE() << file << " is missing; set " << variable << " or run gull pull";
  else std::cout << "notice: " << file << " is not in the cache (" << variable << "); its cases were not run\n";
  return std::nullopt;
}

/// Runs a file of cases like fixtures/tokenizer/*.json. Returns how many.
inline size_t run_cases(const Tokenizer& tokenizer, const nlohmann::json& cases) {
  size_t count = 0;
  for (const auto& c : cases) {
    std::string text = from_hex(c["text_hex"]);
    for (bool special : {false, true}) {
      for (bool parse : {false, true}) {
        auto ids = tokenizer.encode(text, {.add_special = special, .parse_special = parse});
        EXPECT_TRUE(ids) << ids.error().message;
        std::vector<int32_t> expected = c[fmt::format("ids_special{}_parse{}", int{special}, int{parse})];
        EXPECT_EQ(ids.value_or(std::vector<int32_t>{-1}), expected) << "text " << testing::PrintToString(text) << " special " << special << " parse " << parse;
      }
    }
    std::vector<int32_t> plain = c["ids_special0_parse1"];
    EXPECT_EQ(to_hex(tokenizer.decode(plain)), c["detok_hex"]) << testing::PrintToString(text);
    if (c["detok_special"] == 1) {
      EXPECT_EQ(tokenizer.decode(plain, true), text);
    }
    ++count;
  }
  return count;
}

}  // namespace gull::text::test
