// How weights lie on the GPU: "row-planar". The kernels read this layout, the weight cache writes it.
//
// A row of k weights becomes: for each plane of its type, in order, that plane's bytes of all the row's blocks one after
// another; planes follow each other directly; the row is padded with zeros to a multiple of 16 bytes. So the large planes
// start at multiples of 16 bytes and are read 16 bytes at a time, although a block's own size may be odd.
//
// | type                | planes: bytes of a block, in order (the part of the block in the file)                 |
// |---------------------|----------------------------------------------------------------------------------------|
// | F32, F16, BF16      | none: the row as it is, padded with zeros to a multiple of 32 weights                  |
// | Q4_0, IQ4_NL        | qs 16, d 2                                                                             |
// | Q4_1                | qs 16, d and m 4                                                                       |
// | Q5_0                | qs 16, qh 4, d 2                                                                       |
// | Q5_1                | qs 16, qh 4, d and m 4                                                                 |
// | Q8_0                | qs 32, d 2                                                                             |
// | MXFP4               | qs 16, e 1                                                                             |
// | Q2_K                | qs 64, scales 16, d and dmin 4                                                         |
// | Q3_K                | qs 64, hmask 32, scales 12, d 2                                                        |
// | Q4_K                | even 16s of qs 64, odd 16s of qs 64, d with dmin and scales 16                         |
// | Q5_K                | even 16s of qs 64, odd 16s of qs 64, qh 32, d with dmin and scales 16                  |
// | Q6_K                | even 16s of ql 64, odd 16s of ql 64, qh 64, scales 16, d 2                             |
// | IQ4_XS              | qs 128, d with scales_h and scales_l 8                                                 |
// | TQ1_0               | qs 48, qh 4, d 2                                                                       |
// | TQ2_0               | qs 64, d 2                                                                             |
// | IQ1_S               | qs 32, qh 16, d 2                                                                      |
// | IQ1_M               | qs 32, qh 16, scales 8                                                                 |
// | IQ2_XXS             | qs 64, d 2                                                                             |
// | IQ2_XS              | qs 64, scales 8, d 2                                                                   |
// | IQ2_S               | qs and signs 64, qh and scales 16, d 2                                                 |
// | IQ3_XXS             | qs and the words of scales and signs 96, d 2                                           |
// | IQ3_S               | qs 64, signs 32, qh 8 followed by scales 4 (12 in all), d 2                            |
//
// The K types' 32 bytes of nibbles, read as two times 16, go to two planes: then threads that work on neighbouring 64 weights
// read neighbouring 16 bytes, and a load of 32 threads touches 4 lines of cache and not 10 (on an H200, a third of the time).
//
// The IQ1, IQ2 and IQ3 types need their code book (iq_tables.h): it follows the last row of a buffer, so that a kernel
// finds it at the buffer's end without a binding of its own. (As a constant in the shader it takes Mesa's lavapipe 40
// seconds to compile 2048 entries.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gull/gguf.h"

namespace gull::gguf {

/// One row on the GPU.
struct RowLayout {
  Type type = Type::F32;
  uint64_t k = 0;                       ///< weights in a row
  uint32_t blocks = 0;                  ///< blocks in a row (k for the plain types)
  uint32_t row_bytes = 0;               ///< padded length: a multiple of 16
  uint32_t plane_offset[5] = {};        ///< where each plane starts in the row
  uint32_t n_planes = 0;                ///< 0 for the plain types
  uint32_t plane_block_bytes[5] = {};   ///< bytes of one block in each plane
  uint32_t table_bytes = 0;             ///< of the code book after the last row of a buffer: a multiple of 16
};

/// The layout of rows of k weights. Errors: k is 0 or no multiple of the type's block; a row of 4 GiB or more; a type
/// that the GPU does not read (integers, F64, Q8_1, Q8_K).
Result<RowLayout> row_layout(Type type, uint64_t k);

/// Bytes of a row as the file has it.
uint64_t file_row_bytes(const RowLayout& layout);
/// Whether rows lie on the GPU just as in the file.
bool as_in_file(const RowLayout& layout);

/// Re-lays whole rows: `rows` holds n × file_row_bytes bytes, `out` n × row_bytes. Spans of other lengths change nothing
/// (they are a programming error, and assert in debug builds).
void relay_rows(const RowLayout& layout, std::span<const std::byte> rows, std::span<std::byte> out);

/// The code book that ends a buffer of rows of this type: 16-bit entries, little-endian. Empty where table_bytes is 0.
std::vector<std::byte> row_table(Type type);

}  // namespace gull::gguf
