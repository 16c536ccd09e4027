// Rotary tables on the CPU, in double precision: no shader's sine is trusted with large angles.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/family.h"

namespace gull::model {
namespace {

/// YaRN (Peng et al. 2023, section 3.2): the dimension whose wavelength fits `rotations` times into the original context.
double yarn_dimension(const RopeSpec& spec, double rotations) {
  return spec.dims * std::log(spec.original_context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(spec.base));
}

/// The angle of one position for each pair of dimensions.
std::vector<double> frequencies(const RopeSpec& spec, uint32_t context) {
  const auto& factors = !spec.long_factors.empty() && context > spec.original_context ? spec.long_factors : spec.factors;
  double low = 0, high = 0;
  if (spec.yarn_mix != 0) {
    low = yarn_dimension(spec, spec.yarn_beta_fast), high = yarn_dimension(spec, spec.yarn_beta_slow);
    if (spec.yarn_round) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, spec.dims - 1.0);
  }
  std::vector<double> out(spec.dims / 2);
  for (uint32_t i = 0; i < out.size(); ++i) {
    const double plain = std::pow(static_cast<double>(spec.base), -2.0 * i / spec.dims) / (factors.empty() ? 1.0 : factors[i]);
    const double keep = spec.yarn_mix == 0 ? 0.0 : spec.yarn_mix * (1.0 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0));
    out[i] = plain / spec.scale * (1 - keep) + plain * keep;
  }
  return out;
}

}  // namespace

std::vector<float> rope_table(const RopeSpec& spec, uint32_t context) {
  const std::vector<double> frequency = frequencies(spec, context);
  const size_t pairs = frequency.size();
  std::vector<float> table(2 * pairs * context);
  for (uint32_t p = 0; p < context; ++p)
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = p * frequency[i];
      table[(p * pairs + i) * 2] = static_cast<float>(std::cos(angle) * spec.attention_factor);
      table[(p * pairs + i) * 2 + 1] = static_cast<float>(std::sin(angle) * spec.attention_factor);
    }
  return table;
}

}  // namespace gull::model
