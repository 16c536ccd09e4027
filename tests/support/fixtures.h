// The reference cases of tests/data/fixtures: tiny models, and what they must compute.
#pragma once

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gull::test {

inline std::string data(const std::string& path) { return std::string(GULL_TEST_DATA) + "/" + path; }

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

inline std::vector<float> read_f32(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::vector<float> out(static_cast<size_t>(in.tellg()) / 4);
  in.seekg(0);
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size() * 4));
  return out;
}

/// The largest difference; infinite when a value is not a number or the sizes differ.
inline float max_difference(const float* a, const float* b, size_t n) {
  float worst = 0;
  for (size_t i = 0; i < n; ++i) {
    const float d = std::fabs(a[i] - b[i]);
    if (!(d <= 1e30f)) return INFINITY;
    worst = std::max(worst, d);
  }
  return worst;
}

}  // namespace gull::test
