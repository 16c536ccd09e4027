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

}  // namespace

std::vector<float> rope_table(const RopeSpec& spec, uint32_t context) {
  const uint32_t pairs = spec.dims / 2;
  std::vector<double> frequency(pairs);
  double magnitude = spec.attention_factor;
  const double low = spec.yarn ? std::max(std::floor(yarn_dimension(spec, spec.yarn_beta_fast)), 0.0) : 0;
  const double high = spec.yarn ? std::min(std::ceil(yarn_dimension(spec, spec.yarn_beta_slow)), spec.dims - 1.0) : 0;
  if (spec.yarn && spec.scale > 1) magnitude *= 1.0 + 0.1 * std::log(spec.scale);
  for (uint32_t i = 0; i < pairs; ++i) {
    const double plain = std::pow(static_cast<double>(spec.base), -2.0 * i / spec.dims) / (spec.factors.empty() ? 1.0 : spec.factors[i]);
    const double scaled = plain / spec.scale;
    if (!spec.yarn) {
      frequency[i] = scaled;
      continue;
    }
    const double ramp = 1.0 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    frequency[i] = scaled * (1 - ramp) + plain * ramp;
  }
  std::vector<float> table(size_t{2} * pairs * context);
  for (uint32_t p = 0; p < context; ++p)
    for (uint32_t i = 0; i < pairs; ++i) {
      const double angle = p * frequency[i];
      table[(size_t{p} * pairs + i) * 2] = static_cast<float>(std::cos(angle) * magnitude);
      table[(size_t{p} * pairs + i) * 2 + 1] = static_cast<float>(std::sin(angle) * magnitude);
    }
  return table;
}

}  // namespace gull::model
