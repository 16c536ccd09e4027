// What the tests of the compute backend share: opening it in each way, the generated inputs, float16.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gull/compute.h"

namespace gull::test {

/// A backend that works, or a failed test.
inline std::unique_ptr<ComputeBackend> open_backend(ComputeOptions options = {}) {
  auto backend = std::make_unique<ComputeBackend>(std::move(options));
  const auto ok = backend->init();
  EXPECT_TRUE(ok) << ok.error().message;
  return backend;
}

inline uint32_t mix(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// The inputs of make_cases.py: n values in [low, high), from a seed.
inline std::vector<float> values(size_t n, uint32_t seed, double low = -1, double high = 1) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(low + (high - low) * ((mix(static_cast<uint32_t>(i) + seed * 0x9e3779b9u) >> 21) / 2048.0));
  return out;
}

/// To float16 and back, for finite values in its normal range (rounding to nearest even).
inline uint16_t to_half(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude < 0x38800000) {   // below 2^-14: subnormal, or zero
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::lrint(std::fabs(f) * 16777216.0f)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

inline float from_half(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float sign = h & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  return sign * (exponent ? std::ldexp(1.0f + fraction / 1024.0f, exponent - 15) : std::ldexp(fraction / 1024.0f, -14));
}

inline std::vector<uint16_t> to_half(const std::vector<float>& in) {
  std::vector<uint16_t> out;
  for (float f : in) out.push_back(to_half(f));
  return out;
}

/// Memory with these contents.
template <class T>
Handle upload(ComputeBackend& gpu, const std::vector<T>& data) {
  const auto handle = gpu.alloc(data.size() * sizeof(T));
  EXPECT_TRUE(handle) << handle.error().message;
  if (!handle) return 0;
  const auto ok = gpu.copy_to_device(*handle, std::span<const T>(data));
  EXPECT_TRUE(ok) << ok.error().message;
  return *handle;
}

inline Handle upload_as(ComputeBackend& gpu, const std::vector<float>& data, bool half) {
  return half ? upload(gpu, to_half(data)) : upload(gpu, data);
}

template <class T = float>
std::vector<T> download(ComputeBackend& gpu, Handle handle, size_t n, uint64_t offset = 0) {
  std::vector<T> out(n);
  const auto ok = gpu.copy_to_host(handle, std::span<T>(out), offset);
  EXPECT_TRUE(ok) << ok.error().message;
  return out;
}

inline std::vector<float> download_as(ComputeBackend& gpu, Handle handle, size_t n, bool half) {
  if (!half) return download(gpu, handle, n);
  std::vector<float> out;
  for (uint16_t h : download<uint16_t>(gpu, handle, n)) out.push_back(from_half(h));
  return out;
}

}  // namespace gull::test
