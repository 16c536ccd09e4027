#include "dispatch/wgsl.h"

#include <cmath>

namespace gull::dispatch {

std::string Sub::float_literal(float v) {
  if (std::isinf(v)) return v > 0 ? "0x1.fffffep+127f" : "-0x1.fffffep+127f";
  return fmt::format("{:.9e}f", v);
}

std::string expand(std::string_view text, std::initializer_list<Sub> subs) {
  std::string out;
  out.reserve(text.size() + 256);
  for (size_t at = 0; at < text.size();) {
    const size_t dollar = text.find('$', at);
    if (dollar == std::string_view::npos) return out.append(text.substr(at));
    out.append(text.substr(at, dollar - at));
    const size_t end = text.find('$', dollar + 1);
    const std::string_view name = text.substr(dollar + 1, end - dollar - 1);
    const Sub* found = nullptr;
    for (const Sub& sub : subs)
      if (sub.name == name) found = &sub;
    if (found) out += found->value;
    else out.append(text.substr(dollar, end - dollar + 1));   // the compiler will name it
    at = end + 1;
  }
  return out;
}

std::string preamble(const gpu::Caps& caps, bool f16, bool subgroups) {
  std::string out;
  if (f16) out += "enable f16;\n";
  // Kernels use subgroup operations where a whole subgroup takes a branch; Tint's analysis cannot see that, naga has none.
  if (subgroups && !caps.naga) out += "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n";
  return out;
}

}  // namespace gull::dispatch
