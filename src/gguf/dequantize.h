// The dequantisers, one function a type: `blocks` whole blocks at `in` become blocks × block floats at `out`.
// These are the reference for the GPU kernels, so they do each rounding exactly where gguf-py does it.
#pragma once

#include <cstddef>

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

}  // namespace gull::gguf
