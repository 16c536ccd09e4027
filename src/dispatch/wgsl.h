// Text of shaders: templates with $NAMES$, and the first lines that each dialect wants.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/device.h"

namespace gull::dispatch {

/// A name and what stands for it in a template.
struct Sub {
  std::string_view name;
  std::string value;
  Sub(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
  Sub(std::string_view n, const char* v) : name(n), value(v) {}
  template <class I>
    requires std::is_integral_v<I>
  Sub(std::string_view n, I v) : name(n), value(fmt::format("{}u", v)) {}
  Sub(std::string_view n, float v) : name(n), value(float_literal(v)) {}
  static std::string float_literal(float v);
};

/// Replaces each $NAME$ that is listed.
std::string expand(std::string_view text, std::initializer_list<Sub> subs);

/// `enable` lines for this device: naga knows subgroups without one and refuses the line, Tint wants it.
std::string preamble(const gpu::Caps& caps, bool f16, bool subgroups);

}  // namespace gull::dispatch
