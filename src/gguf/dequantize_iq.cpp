// The IQ types (code books), the ternary types, and MXFP4.
#include <bit>

#include "gguf/dequantize.h"
#include "gguf/iq_tables.h"

namespace gull::gguf {
namespace {

constexpr size_t kBlock = 256;

float with_sign(float magnitude, unsigned minus) { return minus & 1 ? -magnitude : magnitude; }

/// Writes the `Weights` weights of one code-book entry, times `scale`; bit i of `signs` set: weight i is negative.
template <Type T, unsigned Weights>
void write_entry(float* out, float scale, size_t entry, unsigned signs) {
  const uint16_t fields = iq_grid(T)[entry];
  for (unsigned i = 0; i < Weights; ++i) out[i] = with_sign(scale * static_cast<float>(iq_grid_weight(T, fields, i)), signs >> i);
}

/// The same for IQ1: weights −1, 0, 1 moved by `delta`.
void write_iq1(float* out, float scale, size_t entry, float delta) {
  const uint16_t fields = iq_grid(Type::IQ1_S)[entry];
  for (unsigned i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(iq_grid_weight(Type::IQ1_S, fields, i)) + delta);
}

constexpr float kIq1Delta = 0.125f;

/// The scale of 16 weights in IQ2_XS and IQ2_S: four bits of `scales`, low half first.
float iq2_scale(float d, const std::byte* scales, size_t group) {
  return d * (0.5f + static_cast<float>(byte_at(scales, group / 2) >> (group % 2 * 4) & 15)) * 0.25f;
}

/// 2^(e − 128), where e ≤ 1 gives a subnormal: half of E8M0, since the weights of MXFP4 are doubled.
float half_e8m0(uint8_t e) { return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23); }

}  // namespace

// Block: d f16, for each 32 weights: four entries, then a word of four times seven sign bits and a four-bit scale on top.
void dequantize_iq2_xxs(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 66, out += kBlock) {
    const float d = load_half(in);
    for (size_t g = 0; g < 8; ++g) {
      const std::byte* entries = in + 2 + 8 * g;
      const uint32_t word = load_le<uint32_t>(entries + 4);
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
      for (size_t j = 0; j < 4; ++j)
        write_entry<Type::IQ2_XXS, 8>(out + g * 32 + j * 8, scale, byte_at(entries, j), iq_signs(word >> (7 * j) & 127));
    }
  }
}

// Block: d f16, 32 words of nine bits of entry and seven of signs, 8 bytes of scales.
void dequantize_iq2_xs(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 74, out += kBlock) {
    const float d = load_half(in);
    for (size_t j = 0; j < 32; ++j) {
      const uint16_t word = load_le<uint16_t>(in + 2 + 2 * j);
      write_entry<Type::IQ2_XS, 8>(out + j * 8, iq2_scale(d, in + 66, j / 2), word & 511,
                                   iq_signs(static_cast<uint8_t>(word >> 9)));
    }
  }
}

// Block: d f16, 32 low bytes of entries, 32 bytes of signs, 8 bytes of the entries' upper two bits, 8 bytes of scales.
void dequantize_iq2_s(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 82, out += kBlock) {
    const float d = load_half(in);
    for (size_t j = 0; j < 32; ++j) {
      const size_t entry = byte_at(in, 2 + j) | (byte_at(in, 66 + j / 4) >> (j % 4 * 2) & 3) << 8;
      write_entry<Type::IQ2_S, 8>(out + j * 8, iq2_scale(d, in + 74, j / 2), entry, byte_at(in, 34 + j));
    }
  }
}

// Block: d f16, 64 entries, for each 32 weights a word of four times seven sign bits and a four-bit scale on top.
void dequantize_iq3_xxs(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 98, out += kBlock) {
    const float d = load_half(in);
    for (size_t g = 0; g < 8; ++g) {
      const uint32_t word = load_le<uint32_t>(in + 66 + 4 * g);
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
      for (size_t j = 0; j < 8; ++j) {
        const uint8_t signs = iq_signs(word >> (7 * (j / 2)) & 127);
        write_entry<Type::IQ3_XXS, 4>(out + g * 32 + j * 4, scale, byte_at(in, 2 + g * 8 + j), signs >> (j % 2 * 4));
      }
    }
  }
}

// Block: d f16, 64 low bytes of entries, 8 bytes of ninth bits, 32 bytes of signs, 4 bytes of scales of 32 weights.
void dequantize_iq3_s(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 110, out += kBlock) {
    const float d = load_half(in);
    for (size_t j = 0; j < 64; ++j) {
      const size_t g = j / 8, entry = byte_at(in, 2 + j) | (byte_at(in, 66 + g) >> (j % 8) & 1) << 8;
      const float scale = d * static_cast<float>(1 + 2 * (byte_at(in, 106 + g / 2) >> (g % 2 * 4) & 15));
      write_entry<Type::IQ3_S, 4>(out + j * 4, scale, entry, byte_at(in, 74 + j / 2) >> (j % 2 * 4));
    }
  }
}

// Block: d f16, 32 low bytes of entries, for each 32 weights a word: four times three upper bits, scale (3 bits), sign of delta.
void dequantize_iq1_s(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 50, out += kBlock) {
    const float d = load_half(in);
    for (size_t j = 0; j < 32; ++j) {
      const uint16_t word = load_le<uint16_t>(in + 34 + j / 4 * 2);
      const float scale = d * static_cast<float>(2 * (word >> 12 & 7) + 1);
      const size_t entry = byte_at(in, 2 + j) | static_cast<size_t>(word >> (j % 4 * 3) & 7) << 8;
      write_iq1(out + j * 8, scale, entry, with_sign(kIq1Delta, word >> 15));
    }
  }
}

// Block: 32 low bytes of entries, for each 8 weights a nibble (three upper bits, sign of delta), four words of scales: four
// times three bits of 16 weights each, and on top a quarter of the f16 d.
void dequantize_iq1_m(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 56, out += kBlock) {
    uint16_t half = 0;
    for (size_t w = 0; w < 4; ++w) half |= static_cast<uint16_t>((load_le<uint16_t>(in + 48 + 2 * w) >> 12) << (4 * w));
    const float d = half_to_float(half);
    for (size_t j = 0; j < 32; ++j) {
      const uint16_t scales = load_le<uint16_t>(in + 48 + j / 8 * 2);
      const float scale = d * static_cast<float>(2 * (scales >> (j / 2 % 4 * 3) & 7) + 1);
      const unsigned high = byte_at(in, 32 + j / 2) >> (j % 2 * 4) & 15;
      write_iq1(out + j * 8, scale, byte_at(in, j) | (high & 7) << 8, with_sign(kIq1Delta, high >> 3));
    }
  }
}

// Block: d f16, 16 bytes of nibbles.
void dequantize_iq4_nl(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 18, out += 32) {
    const float d = load_half(in);
    for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Values[nibble(in + 2, i)]);
  }
}

// Block: d f16, a word of the scales' upper two bits, 4 bytes of their lower four, 128 bytes of nibbles.
void dequantize_iq4_xs(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 136, out += kBlock) {
    const float d = load_half(in);
    const uint16_t high = load_le<uint16_t>(in + 2);
    for (size_t g = 0; g < 8; ++g) {
      const int scale = (byte_at(in, 4 + g / 2) >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
      const float dl = d * static_cast<float>(scale - 32);
      for (size_t i = 0; i < 32; ++i) out[g * 32 + i] = dl * static_cast<float>(kIq4Values[nibble(in + 8 + 16 * g, i)]);
    }
  }
}

// Block: 48 bytes of five and 4 bytes of four base-3 digits, d f16. A byte times a power of three moves a digit to the top:
// the byte is a fraction of 256. The first 32 bytes hold 32 weights a digit, the next 16 hold 16, the last 4 hold 4.
void dequantize_tq1_0(const std::byte* in, size_t blocks, float* out) {
  static constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  struct {
    size_t first, bytes, digits;
  } static constexpr kRuns[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  for (size_t b = 0; b < blocks; ++b, in += 54) {
    const float d = load_half(in + 52);
    for (const auto& run : kRuns)
      for (size_t digit = 0; digit < run.digits; ++digit)
        for (size_t i = 0; i < run.bytes; ++i) {
          const uint8_t moved = static_cast<uint8_t>(byte_at(in, run.first + i) * kPowers[digit]);
          *out++ = d * static_cast<float>((moved * 3 >> 8) - 1);
        }
  }
}

// Block: 64 bytes of two bits, d f16.  w = d·(q − 1)
void dequantize_tq2_0(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 66, out += kBlock) {
    const float d = load_half(in + 64);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(two_bits(in, i) - 1);
  }
}

// Block: e8m0 scale, 16 bytes of nibbles (OCP Microscaling Formats 1.0).
void dequantize_mxfp4(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 17, out += 32) {
    const float d = half_e8m0(byte_at(in, 0));
    for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kMxfp4Values[nibble(in + 1, i)]);
  }
}

}  // namespace gull::gguf
