// A KV cache with known contents.
#pragma once

#include <cmath>

#include "gguf/half.h"
#include "kernels/lab.h"

namespace gull::test {

/// The nearest f16 (ties to even) of a number in f16's normal range or below it.
inline uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000u;
  const double magnitude = std::fabs(value);
  if (magnitude < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24)));
  const uint32_t low = bits & 0x7FFFFFFFu;
  return static_cast<uint16_t>(sign | ((low - (112u << 23) + 0xFFFu + (low >> 13 & 1)) >> 13));
}

/// Keys or values: [positions, heads·head_dim], as stored; `values` becomes what the storage keeps of them. Positions past the
/// end hold NaN, so that a kernel that reads them is found out.
inline gpu::BufferRef kv_buffer(Lab& lab, KvType type, std::vector<float>& values, size_t positions, size_t row) {
  if (type == KvType::F32) {
    std::vector<float> all(positions * row, NAN);
    std::copy(values.begin(), values.end(), all.begin());
    return lab.buffer(all.size() * 4, std::as_bytes(std::span(all)));
  }
  std::vector<uint16_t> all(positions * row, 0x7E00);
  for (size_t i = 0; i < values.size(); ++i) {
    all[i] = to_half(values[i]);
    values[i] = gguf::half_to_float(all[i]);
  }
  return lab.buffer(all.size() * 2, std::as_bytes(std::span(all)));
}

/// What a cache buffer holds.
inline std::vector<float> kv_values(Lab& lab, KvType type, const gpu::BufferRef& buffer) {
  if (type == KvType::F32) return lab.read<float>(buffer, buffer->size() / 4);
  std::vector<float> out;
  for (const uint16_t half : lab.read<uint16_t>(buffer, buffer->size() / 2)) out.push_back(gguf::half_to_float(half));
  return out;
}

}  // namespace gull::test
