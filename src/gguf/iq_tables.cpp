#include "gguf/iq_tables.h"

#include <bit>

namespace gull::gguf {
namespace {
#include "gguf/iq_tables.inc"
}

std::span<const uint16_t> iq_grid(Type type) {
  switch (type) {
    case Type::IQ2_XXS: return kGridIq2Xxs;
    case Type::IQ2_XS: return kGridIq2Xs;
    case Type::IQ2_S: return kGridIq2S;
    case Type::IQ1_S: case Type::IQ1_M: return kGridIq1;
    case Type::IQ3_XXS: return kGridIq3Xxs;
    case Type::IQ3_S: return kGridIq3S;
    default: return {};
  }
}

int iq_grid_weight(Type type, uint16_t entry, unsigned i) {
  const int two = entry >> (2 * i) & 3, four = entry >> (4 * i) & 15;
  switch (type) {
    case Type::IQ2_XXS: case Type::IQ2_XS: case Type::IQ2_S: return two == 0 ? 8 : two == 1 ? 25 : 43;
    case Type::IQ1_S: case Type::IQ1_M: return two - 1;
    case Type::IQ3_XXS: return four == 7 ? 62 : 4 + 8 * four;
    case Type::IQ3_S: return 1 + 2 * four;
    default: return 0;
  }
}

uint8_t iq_signs(uint8_t seven_bits) {
  const uint8_t bits = seven_bits & 0x7F;
  return static_cast<uint8_t>(bits | (std::popcount(bits) & 1) << 7);
}

}  // namespace gull::gguf
