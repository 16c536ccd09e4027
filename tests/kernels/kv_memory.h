// A KV cache with known contents.
#pragma once

#include <algorithm>
#include <bit>
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

/// Words of a block of 32 (kernels::KvLayer): the scale, then bytes or nibbles, the first lowest.
inline size_t block_words(KvType type) { return type == KvType::Q8_0 ? 9 : 5; }
inline bool in_blocks(KvType type) { return type == KvType::Q8_0 || type == KvType::Q4_0; }

/// A number of a block.
inline float block_value(KvType type, const uint32_t* block, size_t i) {
  const float d = std::bit_cast<float>(block[0]);
  if (type == KvType::Q8_0) return d * static_cast<float>(static_cast<int8_t>(block[1 + i / 4] >> (8 * (i % 4))));
  return d * (static_cast<float>(block[1 + i / 8] >> (4 * (i % 8)) & 15) - 8);
}

/// 32 numbers as a block: nearest multiples of a step that holds the largest.
inline void make_block(KvType type, const float* values, uint32_t* block) {
  float most = 0;
  for (size_t i = 0; i < 32; ++i) most = std::max(most, std::fabs(values[i]));
  const float d = most / (type == KvType::Q8_0 ? 127.0f : 7.0f);
  std::fill(block, block + block_words(type), 0u);
  block[0] = std::bit_cast<uint32_t>(d);
  for (size_t i = 0; i < 32; ++i) {
    const int q = d > 0 ? static_cast<int>(std::nearbyint(values[i] / d)) : 0;
    if (type == KvType::Q8_0) block[1 + i / 4] |= static_cast<uint32_t>(q & 255) << (8 * (i % 4));
    else block[1 + i / 8] |= static_cast<uint32_t>(q + 8) << (4 * (i % 8));
  }
}

/// Keys or values: [positions, heads·head_dim], as stored; `values` becomes what the storage keeps of them. Positions past the
/// end hold NaN, so that a kernel that reads them is found out.
inline gpu::BufferRef kv_buffer(Lab& lab, KvType type, std::vector<float>& values, size_t positions, size_t row) {
  const auto bytes = [](const auto& v) { return std::as_bytes(std::span(v)); };
  if (in_blocks(type)) {
    std::vector<uint32_t> all(positions * row / 32 * block_words(type), 0x7FC00000u);
    for (size_t b = 0; b < values.size() / 32; ++b) {
      uint32_t* block = &all[b * block_words(type)];
      make_block(type, &values[b * 32], block);
      for (size_t i = 0; i < 32; ++i) values[b * 32 + i] = block_value(type, block, i);
    }
    return lab.buffer(all.size() * 4, bytes(all));
  }
  if (type == KvType::F32) {
    std::vector<float> all(positions * row, NAN);
    std::copy(values.begin(), values.end(), all.begin());
    return lab.buffer(all.size() * 4, bytes(all));
  }
  std::vector<uint16_t> all(positions * row, 0x7E00);
  for (size_t i = 0; i < values.size(); ++i) {
    all[i] = to_half(values[i]);
    values[i] = gguf::half_to_float(all[i]);
  }
  return lab.buffer(all.size() * 2, bytes(all));
}

/// What a cache buffer holds.
inline std::vector<float> kv_values(Lab& lab, KvType type, const gpu::BufferRef& buffer) {
  if (type == KvType::F32) return lab.read<float>(buffer, buffer->size() / 4);
  std::vector<float> out;
  if (in_blocks(type)) {
    const auto words = lab.read<uint32_t>(buffer, buffer->size() / 4);
    for (size_t b = 0; b < words.size(); b += block_words(type))
      for (size_t i = 0; i < 32; ++i) out.push_back(block_value(type, &words[b], i));
    return out;
  }
  for (const uint16_t half : lab.read<uint16_t>(buffer, buffer->size() / 2)) out.push_back(gguf::half_to_float(half));
  return out;
}

/// What quantised caches hold in place of a head's numbers, by the definition of the Walsh–Hadamard transform: the largest
/// power of two that divides the head, B numbers each, times (−1)^(common bits of row and column) ÷ √B.
inline void mix(KvType type, std::vector<double>& head) {
  if (!in_blocks(type)) return;
  const size_t b = head.size() & (~head.size() + 1);
  const std::vector<double> in = head;
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] = 0;
    for (size_t j = 0; j < b; ++j) head[i] += in[i / b * b + j] * (std::popcount(i % b & j) % 2 ? -1 : 1) / std::sqrt(static_cast<double>(b));
  }
}

inline const char* name(KvType type) {
  return type == KvType::F32 ? "f32" : type == KvType::F16 ? "f16" : type == KvType::Q8_0 ? "q8_0" : "q4_0";
}

}  // namespace gull::test
