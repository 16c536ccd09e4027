// Blocks of every tensor type, from random bytes.
#pragma once

#include <cstring>
#include <vector>

#include "gull/gguf.h"
#include "kernels/lab.h"

namespace gull::test {

/// Every type that the kernels read.
inline constexpr gguf::Type kTypes[] = {
    gguf::Type::F32, gguf::Type::F16, gguf::Type::BF16, gguf::Type::Q4_0, gguf::Type::Q4_1, gguf::Type::Q5_0, gguf::Type::Q5_1,
    gguf::Type::Q8_0, gguf::Type::Q2_K, gguf::Type::Q3_K, gguf::Type::Q4_K, gguf::Type::Q5_K, gguf::Type::Q6_K, gguf::Type::IQ1_S,
    gguf::Type::IQ1_M, gguf::Type::IQ2_XXS, gguf::Type::IQ2_XS, gguf::Type::IQ2_S, gguf::Type::IQ3_XXS, gguf::Type::IQ3_S,
    gguf::Type::IQ4_NL, gguf::Type::IQ4_XS, gguf::Type::MXFP4, gguf::Type::TQ1_0, gguf::Type::TQ2_0};

/// Where a type's blocks have f16 numbers (−1: none). IQ1_M's is spread over the top nibbles of bytes 49, 51, 53 and 55.
struct Halves { int first, second = -1; };
inline Halves halves(gguf::Type type) {
  using gguf::Type;
  switch (type) {
    case Type::F32: case Type::BF16: case Type::MXFP4: case Type::IQ1_M: return {-1};
    case Type::Q4_1: case Type::Q5_1: case Type::Q4_K: case Type::Q5_K: return {0, 2};
    case Type::Q2_K: return {80, 82};
    case Type::Q3_K: return {108};
    case Type::Q6_K: return {208};
    case Type::TQ1_0: return {52};
    case Type::TQ2_0: return {64};
    default: return {0};
  }
}

/// Random bytes, with every scale a finite number (any, subnormal or huge).
inline std::vector<std::byte> any_blocks(gguf::Type type, size_t count, Random& random) {
  const size_t size = gguf::type_traits(type)->bytes;
  std::vector<std::byte> raw(count * size);
  for (std::byte& b : raw) b = static_cast<std::byte>(random.bits() >> 24);
  const auto finite = [&](size_t block, int at, unsigned exponent) {   // clears a bit of an exponent that is all ones
    std::byte& high = raw[block * size + static_cast<size_t>(at)];
    if ((std::to_integer<unsigned>(high) & exponent) == exponent) high &= static_cast<std::byte>(0xBF);
  };
  for (size_t b = 0; b < count; ++b) {
    if (type == gguf::Type::F32) finite(b, 3, 0x7F);
    if (type == gguf::Type::BF16) finite(b, 1, 0x7F);
    if (type == gguf::Type::IQ1_M) finite(b, 55, 0x70);
    if (halves(type).first >= 0) finite(b, halves(type).first + 1, 0x7C);
    if (halves(type).second >= 0) finite(b, halves(type).second + 1, 0x7C);
  }
  return raw;
}

/// The same with scales of an ordinary model: weights stay below about 10 in magnitude, and of one order.
inline std::vector<std::byte> model_blocks(gguf::Type type, size_t count, Random& random) {
  std::vector<std::byte> raw = any_blocks(type, count, random);
  const size_t size = gguf::type_traits(type)->bytes;
  const auto put = [&](size_t at, uint16_t half) { std::memcpy(&raw[at], &half, 2); };
  const auto small = [&] { return static_cast<uint16_t>((random.bits() & 0x8000u) | 0x1C00u | (random.bits() & 0x07FFu)); };   // 2⁻⁸…2⁻⁶
  for (size_t b = 0; b < count; ++b) {
    const size_t at = b * size;
    if (type == gguf::Type::F32) {
      const float v = random.next();
      std::memcpy(&raw[at], &v, 4);
    } else if (type == gguf::Type::BF16) {
      put(at, static_cast<uint16_t>((random.bits() & 0x8000u) | 0x3F00u | (random.bits() & 0x7Fu)));
    } else if (type == gguf::Type::F16) {
      put(at, static_cast<uint16_t>((random.bits() & 0x8000u) | 0x3800u | (random.bits() & 0x3FFu)));
    } else if (type == gguf::Type::MXFP4) {
      raw[at] = static_cast<std::byte>(122 + random.bits() % 4);
    } else if (type == gguf::Type::IQ1_M) {
      const uint16_t d = small();
      for (unsigned w = 0; w < 4; ++w) {
        std::byte& high = raw[at + 49 + 2 * w];
        high = (high & std::byte{0x0F}) | static_cast<std::byte>((d >> (4 * w) & 15) << 4);
      }
    } else {
      put(at + static_cast<size_t>(halves(type).first), small());
      if (halves(type).second >= 0) put(at + static_cast<size_t>(halves(type).second), small());
    }
  }
  return raw;
}

inline std::vector<float> dequantized(gguf::Type type, std::span<const std::byte> raw) {
  const auto& traits = *gguf::type_traits(type);
  std::vector<float> out(raw.size() / traits.bytes * traits.block);
  must(gguf::dequantize(type, raw, out));
  return out;
}

inline std::string type_test_name(const testing::TestParamInfo<gguf::Type>& info) { return gguf::type_traits(info.param)->name; }

}  // namespace gull::test
