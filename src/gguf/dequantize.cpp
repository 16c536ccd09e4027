#include "gguf/dequantize.h"

#include "base/log.h"
#include "gull/gguf.h"

namespace gull::gguf {
namespace {

Dequantizer dequantizer(Type type) {
  switch (type) {
    case Type::F32: return dequantize_f32;
    case Type::F16: return dequantize_f16;
    case Type::BF16: return dequantize_bf16;
    case Type::Q4_0: return dequantize_q4_0;
    case Type::Q4_1: return dequantize_q4_1;
    case Type::Q5_0: return dequantize_q5_0;
    case Type::Q5_1: return dequantize_q5_1;
    case Type::Q8_0: return dequantize_q8_0;
    case Type::Q2_K: return dequantize_q2_k;
    case Type::Q3_K: return dequantize_q3_k;
    case Type::Q4_K: return dequantize_q4_k;
    case Type::Q5_K: return dequantize_q5_k;
    case Type::Q6_K: return dequantize_q6_k;
    case Type::IQ2_XXS: return dequantize_iq2_xxs;
    case Type::IQ2_XS: return dequantize_iq2_xs;
    case Type::IQ2_S: return dequantize_iq2_s;
    case Type::IQ3_XXS: return dequantize_iq3_xxs;
    case Type::IQ3_S: return dequantize_iq3_s;
    case Type::IQ1_S: return dequantize_iq1_s;
    case Type::IQ1_M: return dequantize_iq1_m;
    case Type::IQ4_NL: return dequantize_iq4_nl;
    case Type::IQ4_XS: return dequantize_iq4_xs;
    case Type::TQ1_0: return dequantize_tq1_0;
    case Type::TQ2_0: return dequantize_tq2_0;
    case Type::MXFP4: return dequantize_mxfp4;
    default: return nullptr;
  }
}

}  // namespace

Result<void> dequantize(Type type, std::span<const std::byte> raw, std::span<float> out) {
  const TypeTraits* traits = type_traits(type);
  const Dequantizer run = dequantizer(type);
  if (traits == nullptr || run == nullptr)
    return fail_f(ErrorKind::Unsupported, "tensor type {} cannot be turned into floats",
                  traits == nullptr ? fmt::format("{}", static_cast<uint32_t>(type)) : traits->name);
  const size_t blocks = raw.size() / traits->bytes;
  if (raw.size() % traits->bytes != 0 || out.size() != blocks * traits->block)
    return fail_f(ErrorKind::InvalidArgument, "dequantize {}: {} bytes do not make {} floats: a block of {} bytes makes {}",
                  traits->name, raw.size(), out.size(), traits->bytes, traits->block);
  run(raw.data(), blocks, out.data());
  return {};
}

}  // namespace gull::gguf
