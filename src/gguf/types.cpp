// The table of tensor types. Sizes: gguf-py's GGML_QUANT_SIZES and ggml's block structures (MIT), as facts.
#include <cctype>

#include "gull/gguf.h"

namespace gull::gguf {
namespace {

struct Entry {
  Type type;
  TypeTraits traits;
};

constexpr Entry kTypes[] = {
    {Type::F32, {"F32", 1, 4, false}},        {Type::F16, {"F16", 1, 2, false}},
    {Type::Q4_0, {"Q4_0", 32, 18, true}},     {Type::Q4_1, {"Q4_1", 32, 20, true}},
    {Type::Q5_0, {"Q5_0", 32, 22, true}},     {Type::Q5_1, {"Q5_1", 32, 24, true}},
    {Type::Q8_0, {"Q8_0", 32, 34, true}},     {Type::Q8_1, {"Q8_1", 32, 36, true}},
    {Type::Q2_K, {"Q2_K", 256, 84, true}},    {Type::Q3_K, {"Q3_K", 256, 110, true}},
    {Type::Q4_K, {"Q4_K", 256, 144, true}},   {Type::Q5_K, {"Q5_K", 256, 176, true}},
    {Type::Q6_K, {"Q6_K", 256, 210, true}},   {Type::Q8_K, {"Q8_K", 256, 292, true}},
    {Type::IQ2_XXS, {"IQ2_XXS", 256, 66, true}}, {Type::IQ2_XS, {"IQ2_XS", 256, 74, true}},
    {Type::IQ3_XXS, {"IQ3_XXS", 256, 98, true}}, {Type::IQ1_S, {"IQ1_S", 256, 50, true}},
    {Type::IQ4_NL, {"IQ4_NL", 32, 18, true}}, {Type::IQ3_S, {"IQ3_S", 256, 110, true}},
    {Type::IQ2_S, {"IQ2_S", 256, 82, true}},  {Type::IQ4_XS, {"IQ4_XS", 256, 136, true}},
    {Type::I8, {"I8", 1, 1, false}},          {Type::I16, {"I16", 1, 2, false}},
    {Type::I32, {"I32", 1, 4, false}},        {Type::I64, {"I64", 1, 8, false}},
    {Type::F64, {"F64", 1, 8, false}},        {Type::IQ1_M, {"IQ1_M", 256, 56, true}},
    {Type::BF16, {"BF16", 1, 2, false}},      {Type::TQ1_0, {"TQ1_0", 256, 54, true}},
    {Type::TQ2_0, {"TQ2_0", 256, 66, true}},  {Type::MXFP4, {"MXFP4", 32, 17, true}},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  return true;
}

}  // namespace

const TypeTraits* type_traits(uint32_t type) {
  for (const Entry& entry : kTypes)
    if (static_cast<uint32_t>(entry.type) == type) return &entry.traits;
  return nullptr;
}

std::optional<Type> type_from_name(std::string_view name) {
  for (const Entry& entry : kTypes)
    if (equal_ignoring_case(entry.traits.name, name)) return entry.type;
  return std::nullopt;
}

uint64_t TensorInfo::row_bytes() const {
  const TypeTraits* traits = type_traits(type);
  return traits == nullptr ? 0 : dims[0] / traits->block * traits->bytes;
}

}  // namespace gull::gguf
