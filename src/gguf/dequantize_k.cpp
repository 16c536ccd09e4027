// The K types: 256 weights a block, in groups of 16 or 32 with small scales of their own.
#include "gguf/dequantize.h"

namespace gull::gguf {
namespace {

constexpr size_t kBlock = 256;

struct ScaleMin {
  uint8_t scale, min;
};

/// Scale and minimum, 6 bits each, of group g (0–7) in the 12 bytes that Q4_K and Q5_K share: the first four groups lie in
/// the low six bits of bytes g and g + 4; the others have their low four bits in byte g + 4, their high two above the first.
ScaleMin scale_min(const std::byte* sc, size_t g) {
  if (g < 4) return {static_cast<uint8_t>(byte_at(sc, g) & 63), static_cast<uint8_t>(byte_at(sc, g + 4) & 63)};
  const uint8_t low = byte_at(sc, g + 4);
  return {static_cast<uint8_t>((low & 15) | (byte_at(sc, g - 4) >> 6 << 4)),
          static_cast<uint8_t>((low >> 4) | (byte_at(sc, g) >> 6 << 4))};
}

/// The six-bit scale, less 32, of group g (0–15) in the 12 bytes of Q3_K: low four bits in bytes 0–7, high two in bytes 8–11.
int q3_scale(const std::byte* sc, size_t g) {
  const int low = byte_at(sc, g & 7) >> (g < 8 ? 0 : 4) & 15;
  const int high = byte_at(sc, 8 + (g & 3)) >> (2 * (g >> 2)) & 3;
  return (low | high << 4) - 32;
}

/// The high bit of weight i in 32 bytes: bit i / 32 of byte i % 32.
uint8_t one_bit(const std::byte* qh, size_t i) { return byte_at(qh, i % 32) >> (i / 32) & 1; }

/// The nibble of weight i in the 128 bytes of Q4_K and Q5_K: 64 weights share 32 bytes, low halves first.
uint8_t nibble_of_64(const std::byte* qs, size_t i) { return byte_at(qs, i / 64 * 32 + i % 32) >> (i / 32 % 2 * 4) & 15; }

/// The nibble of weight i in the 128 bytes of Q6_K: 128 weights share 64 bytes, low halves first.
uint8_t nibble_of_128(const std::byte* ql, size_t i) { return byte_at(ql, i / 128 * 64 + i % 64) >> (i / 64 % 2 * 4) & 15; }

}  // namespace

// Block: 16 bytes (scale low, minimum high half, of 16 weights each), 64 bytes of two bits, d f16, dmin f16.
void dequantize_q2_k(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 84, out += kBlock) {
    const float d = load_half(in + 80), dmin = load_half(in + 82);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(byte_at(in, g) & 15), min = dmin * static_cast<float>(byte_at(in, g) >> 4);
      for (size_t i = g * 16; i < g * 16 + 16; ++i) out[i] = scale * static_cast<float>(two_bits(in + 16, i)) - min;
    }
  }
}

// Block: 32 bytes of high bits (0: four less), 64 bytes of two bits, 12 bytes of scales, d f16.
void dequantize_q3_k(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 110, out += kBlock) {
    const float d = load_half(in + 108);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(q3_scale(in + 96, g));
      for (size_t i = g * 16; i < g * 16 + 16; ++i)
        out[i] = scale * static_cast<float>(two_bits(in + 32, i) - (one_bit(in, i) ? 0 : 4));
    }
  }
}

// Block: d f16, dmin f16, 12 bytes of scales and minima, 128 bytes of nibbles.
void dequantize_q4_k(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 144, out += kBlock) {
    const float d = load_half(in), dmin = load_half(in + 2);
    for (size_t g = 0; g < 8; ++g) {
      const ScaleMin s = scale_min(in + 4, g);
      const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
      for (size_t i = g * 32; i < g * 32 + 32; ++i) out[i] = scale * static_cast<float>(nibble_of_64(in + 16, i)) - min;
    }
  }
}

// Block: d f16, dmin f16, 12 bytes of scales and minima, 32 bytes of fifth bits, 128 bytes of nibbles.
void dequantize_q5_k(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 176, out += kBlock) {
    const float d = load_half(in), dmin = load_half(in + 2);
    for (size_t g = 0; g < 8; ++g) {
      const ScaleMin s = scale_min(in + 4, g);
      const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
      for (size_t i = g * 32; i < g * 32 + 32; ++i)
        out[i] = scale * static_cast<float>(nibble_of_64(in + 48, i) | one_bit(in + 16, i) << 4) - min;
    }
  }
}

// Block: 128 bytes of nibbles, 64 bytes of the upper two bits, 16 signed scales, d f16.
void dequantize_q6_k(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 210, out += kBlock) {
    const float d = load_half(in + 208);
    for (size_t g = 0; g < 16; ++g) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(in[192 + g]));
      for (size_t i = g * 16; i < g * 16 + 16; ++i)
        out[i] = scale * static_cast<float>((nibble_of_128(in, i) | two_bits(in + 128, i) << 4) - 32);
    }
  }
}

}  // namespace gull::gguf
