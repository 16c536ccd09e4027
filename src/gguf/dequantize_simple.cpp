// Plain numbers, and the types with 32 weights a block and one scale.
#include "gguf/dequantize.h"

namespace gull::gguf {
namespace {

constexpr size_t kBlock = 32;

/// A nibble with a fifth bit from the little-endian word at `qh`.
uint8_t five_bits(const std::byte* qs, uint32_t qh, size_t i) {
  return static_cast<uint8_t>(nibble(qs, i) | ((qh >> i & 1) << 4));
}

}  // namespace

void dequantize_f32(const std::byte* in, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) out[i] = load_le<float>(in + 4 * i);
}

void dequantize_f16(const std::byte* in, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) out[i] = load_half(in + 2 * i);
}

void dequantize_bf16(const std::byte* in, size_t blocks, float* out) {
  for (size_t i = 0; i < blocks; ++i) out[i] = bf16_to_float(load_le<uint16_t>(in + 2 * i));
}

// Block: d f16, 16 bytes of nibbles.  w = d·(q − 8)
void dequantize_q4_0(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 18, out += kBlock) {
    const float d = load_half(in);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(nibble(in + 2, i) - 8);
  }
}

// Block: d f16, m f16, 16 bytes of nibbles.  w = d·q + m
void dequantize_q4_1(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 20, out += kBlock) {
    const float d = load_half(in), m = load_half(in + 2);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(nibble(in + 4, i)) + m;
  }
}

// Block: d f16, 32 fifth bits, 16 bytes of nibbles.  w = d·(q − 16)
void dequantize_q5_0(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 22, out += kBlock) {
    const float d = load_half(in);
    const uint32_t qh = load_le<uint32_t>(in + 2);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(five_bits(in + 6, qh, i) - 16);
  }
}

// Block: d f16, m f16, 32 fifth bits, 16 bytes of nibbles.  w = d·q + m
void dequantize_q5_1(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 24, out += kBlock) {
    const float d = load_half(in), m = load_half(in + 2);
    const uint32_t qh = load_le<uint32_t>(in + 4);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(five_bits(in + 8, qh, i)) + m;
  }
}

// Block: d f16, 32 signed bytes.  w = d·q
void dequantize_q8_0(const std::byte* in, size_t blocks, float* out) {
  for (size_t b = 0; b < blocks; ++b, in += 34, out += kBlock) {
    const float d = load_half(in);
    for (size_t i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
  }
}

}  // namespace gull::gguf
