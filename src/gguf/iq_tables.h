// The code books of the IQ types, for the CPU decoders and for the kernels. The numbers are part of the file format
// (ggml, MIT); iq_tables.inc is made from gguf-py's copy by make_iq_tables.py.
#pragma once

#include <cstdint>
#include <span>

#include "gull/gguf.h"

namespace gull::gguf {

/// The code book of a type: each entry is several weights in one 16-bit number, the first weight in the lowest field.
///
/// | types                  | entries          | fields     | weight of a field f                       |
/// |------------------------|------------------|------------|-------------------------------------------|
/// | IQ2_XXS, IQ2_XS, IQ2_S | 256, 512, 1024   | 8 × 2 bits | 8, 25, 43 for f = 0, 1, 2                 |
/// | IQ1_S, IQ1_M           | 2048 (one book)  | 8 × 2 bits | f − 1                                     |
/// | IQ3_XXS                | 256              | 4 × 4 bits | 4 + 8·f, but 62 for f = 7                 |
/// | IQ3_S                  | 512              | 4 × 4 bits | 1 + 2·f                                   |
///
/// Empty for every other type.
std::span<const uint16_t> iq_grid(Type type);

/// Weight i of an entry of the type's book, as the table above says.
int iq_grid_weight(Type type, uint16_t entry, unsigned i);

/// Eight signs from the seven bits that IQ2_XXS, IQ2_XS and IQ3_XXS store: the eighth makes the number of minus signs even.
uint8_t iq_signs(uint8_t seven_bits);

/// The sixteen weights of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// The sixteen weights of MXFP4 (E2M1), doubled so that they are whole.
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace gull::gguf
