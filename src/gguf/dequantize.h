// The dequantisers, one function a type: `blocks` whole blocks at `in` become blocks × block floats at `out`.
// These are the reference for the GPU kernels, so they do each rounding exactly where gguf-py does it.
#pragma once

#include <cstddef>

#include "gguf/half.h"

namespace gull::gguf {

using Dequantizer = void (*)(const std::byte* in, size_t blocks, float* out);

void dequantize_f32(const std::byte* in, size_t blocks, float* out);
void dequantize_f16(const std::byte* in, size_t blocks, float* out);
void dequantize_bf16(const std::byte* in, size_t blocks, float* out);
void dequantize_q4_0(const std::byte* in, size_t blocks, float* out);
void dequantize_q4_1(const std::byte* in, size_t blocks, float* out);
void dequantize_q5_0(const std::byte* in, size_t blocks, float* out);
void dequantize_q5_1(const std::byte* in, size_t blocks, float* out);
void dequantize_q8_0(const std::byte* in, size_t blocks, float* out);
void dequantize_q2_k(const std::byte* in, size_t blocks, float* out);
void dequantize_q3_k(const std::byte* in, size_t blocks, float* out);
void dequantize_q4_k(const std::byte* in, size_t blocks, float* out);
void dequantize_q5_k(const std::byte* in, size_t blocks, float* out);
void dequantize_q6_k(const std::byte* in, size_t blocks, float* out);
void dequantize_iq2_xxs(const std::byte* in, size_t blocks, float* out);
void dequantize_iq2_xs(const std::byte* in, size_t blocks, float* out);
void dequantize_iq2_s(const std::byte* in, size_t blocks, float* out);
void dequantize_iq3_xxs(const std::byte* in, size_t blocks, float* out);
void dequantize_iq3_s(const std::byte* in, size_t blocks, float* out);
void dequantize_iq1_s(const std::byte* in, size_t blocks, float* out);
void dequantize_iq1_m(const std::byte* in, size_t blocks, float* out);
void dequantize_iq4_nl(const std::byte* in, size_t blocks, float* out);
void dequantize_iq4_xs(const std::byte* in, size_t blocks, float* out);
void dequantize_tq1_0(const std::byte* in, size_t blocks, float* out);
void dequantize_tq2_0(const std::byte* in, size_t blocks, float* out);
void dequantize_mxfp4(const std::byte* in, size_t blocks, float* out);

/// Weight i of a block of 32 whose 16 bytes hold weights 0–15 in their low and 16–31 in their high halves.
inline uint8_t nibble(const std::byte* qs, size_t i) { return i < 16 ? byte_at(qs, i) & 0x0F : byte_at(qs, i - 16) >> 4; }

/// The two-bit field of weight i in 64 bytes: each half of the block has 32 bytes, whose bit pairs go 32 weights further.
inline uint8_t two_bits(const std::byte* qs, size_t i) { return byte_at(qs, i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3; }

}  // namespace gull::gguf
