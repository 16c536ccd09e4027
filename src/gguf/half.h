// 16-bit floating point numbers as GGUF stores them, widened exactly.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace gull::gguf {

/// IEEE binary16 to binary32, exact; infinities and the payload of a NaN are kept.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu, mantissa = half & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Subnormal: mantissa × 2^-24 is exact in binary32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// bfloat16 is the upper half of binary32.
inline float bf16_to_float(uint16_t half) { return std::bit_cast<float>(static_cast<uint32_t>(half) << 16); }

/// A little-endian number at any address.
template <class T>
T load_le(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    std::byte* bytes = reinterpret_cast<std::byte*>(&value);
    for (size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  }
  return value;
}

inline uint8_t byte_at(const std::byte* in, size_t i) { return static_cast<uint8_t>(in[i]); }

inline float load_half(const std::byte* at) { return half_to_float(load_le<uint16_t>(at)); }

}  // namespace gull::gguf
