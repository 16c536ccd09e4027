// Models that are too big for the repository, where `gull pull` puts them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

namespace gull::test {

/// The model's file: named by an environment variable, or in gull's cache. Where it is missing, the test passes with a
/// notice, unless GULL_REQUIRE_MODELS=1.
inline std::optional<std::string> real_model(const char* variable, const std::string& file) {
  const char* path = std::getenv(variable);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string place = path ? path : cache && cache[0] == '/' ? std::string(cache) + "/gull/" + file : std::string(home ? home : "") + "/.cache/gull/" + file;
  if (std::filesystem::exists(place)) return place;
  const char* required = std::getenv("GULL_REQUIRE_MODELS");
  if (required && std::string(required) == "1") ADD_FAILURE() << place << " is missing: set " << variable << " or run gull pull";
  else std::cout << "notice: " << place << " is missing (" << variable << "); this was not tested\n";
  return std::nullopt;
}

inline std::optional<std::string> smollm2() { return real_model("GULL_SMOLLM2", "SmolLM2-135M-Instruct.Q4_1.gguf"); }
inline std::optional<std::string> gemma3() { return real_model("GULL_GEMMA3", "gemma-3-270m-q4_k_m.gguf"); }

}  // namespace gull::test
