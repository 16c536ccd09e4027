#include "compute/shader.h"

#include <fmt/format.h>

#include "dispatch/wgsl.h"

namespace gull::compute {

uint32_t Layout::bindings() const {
  uint32_t count = 0;
  for (uint32_t i = 0; i < bounds; ++i) count += bounds_of[i].windows;
  return count;
}

uint64_t Layout::key() const {
  // Per operand 3 bits for its binding, then per binding 5 bits of windows and one of vec4: 21 + 42 bits.
  uint64_t key = 0;
  for (size_t i = 0; i < kMaxOperands; ++i) key = key << 3 | bound[i];
  for (size_t i = 0; i < kMaxOperands; ++i) key = key << 6 | (bounds_of[i].windows - 1) << 1 | (bounds_of[i].vec4 ? 1 : 0);
  return key;
}

namespace {

/// The element type of a binding in WGSL.
std::string wgsl_type(const gpu::Caps& caps, const Bound& bound) {
  if (bound.storage == Storage::AddF32 || bound.storage == Storage::AddF16) return "atomic<u32>";
  if (bound.storage == Storage::I32) return "i32";
  const bool packed = bound.storage == Storage::F16 && !caps.f16;   // halves are unpacked from words
  const char* scalar = bound.storage == Storage::F32 ? "f32" : packed ? "u32" : "f16";
  if (!bound.vec4) return scalar;
  return packed ? "vec2<u32>" : fmt::format("vec4<{}>", scalar);
}

/// Reads one element (or four) of window `w` at index `i`.
std::string read_expression(const gpu::Caps& caps, const Bound& bound, size_t b, uint32_t w) {
  const std::string name = fmt::format("b{}_{}", b, w);
  const bool packed = bound.storage == Storage::F16 && !caps.f16;
  if (packed && bound.vec4) return fmt::format("vec4<f32>(unpack2x16float({0}[i].x), unpack2x16float({0}[i].y))", name);
  if (packed) return fmt::format("unpack2x16float({}[i / 2u])[i % 2u]", name);
  if (bound.storage != Storage::F16) return name + "[i]";
  return fmt::format("{}({}[i])", bound.vec4 ? "vec4<f32>" : "f32", name);
}

/// Spreads a statement over the windows: the element's window is found by its index, which becomes relative to it.
std::string over_windows(const Bound& bound, uint64_t per_window, const auto& statement) {
  std::string out;
  for (uint32_t w = 0; w + 1 < bound.windows; ++w)
    out += fmt::format("  if (i < {}u) {{ {} }}\n  i -= {}u;\n", per_window, statement(w), per_window);
  return out + "  " + statement(bound.windows - 1) + "\n";
}

void declare_read(std::string& out, const gpu::Caps& caps, const Layout& layout, const Operand& operand, size_t b) {
  const Bound& bound = layout.bounds_of[b];
  const char* result = bound.storage == Storage::I32 ? "i32" : bound.vec4 ? "vec4<f32>" : "f32";
  const uint64_t per_window = layout.window / element_bytes(bound.storage);
  out += fmt::format("fn {}_at{}(index: u32) -> {} {{\n  var i = index;\n", operand.name, bound.vec4 ? "4" : "", result);
  out += over_windows(bound, per_window, [&](uint32_t w) { return "return " + read_expression(caps, bound, b, w) + ";"; });
  out += "}\n";
}

void declare_write(std::string& out, const Layout& layout, const Operand& operand, size_t b) {
  const Bound& bound = layout.bounds_of[b];
  const uint64_t per_window = layout.window / element_bytes(bound.storage);
  const char* value = bound.vec4 ? "vec4<f32>" : "f32";
  const char* stored = bound.storage == Storage::F32 ? "" : bound.vec4 ? "vec4<f16>" : "f16";
  out += fmt::format("fn {}_put{}(index: u32, v: {}) {{\n  var i = index;\n", operand.name, bound.vec4 ? "4" : "", value);
  out += over_windows(bound, per_window, [&](uint32_t w) { return fmt::format("b{}_{}[i] = {}(v); return;", b, w, stored); });
  out += "}\n";
}

/// Adds to one element by compare-and-exchange on its word, which holds one f32 or two halves.
void declare_add(std::string& out, const Layout& layout, const Operand& operand, size_t b) {
  const Bound& bound = layout.bounds_of[b];
  const bool halves = bound.storage == Storage::AddF16;
  const char* sum = halves ? "var f = unpack2x16float(old); f[half] += v; let new_ = pack2x16float(f);"
                           : "let new_ = bitcast<u32>(bitcast<f32>(old) + v);";
  out += fmt::format("fn {}_add(index: u32, v: f32) {{\n  var i = index{};\n", operand.name, halves ? " / 2u" : "");
  if (halves) out += "  let half = index % 2u;\n";
  out += over_windows(bound, layout.window / 4, [&](uint32_t w) {
    return fmt::format("var old = atomicLoad(&b{0}_{1}[i]);\n  loop {{\n    {2}\n"
                       "    let done = atomicCompareExchangeWeak(&b{0}_{1}[i], old, new_);\n"
                       "    if (done.exchanged) {{ break; }}\n    old = done.old_value;\n  }}\n  return;", b, w, sum);
  });
  out += "}\n";
}

}  // namespace

std::string declare_operands(const gpu::Caps& caps, const Layout& layout, std::span<const Operand> operands) {
  std::string out;
  uint32_t binding = 0;
  for (uint32_t b = 0; b < layout.bounds; ++b)
    for (uint32_t w = 0; w < layout.bounds_of[b].windows; ++w)
      out += fmt::format("@group(0) @binding({}) var<storage, {}> b{}_{}: array<{}>;\n", binding++,
                         layout.bounds_of[b].write ? "read_write" : "read", b, w, wgsl_type(caps, layout.bounds_of[b]));
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t b = layout.bound[i];
    if (b == Layout::kUnused) continue;
    if (operands[i].storage == Storage::AddF32 || operands[i].storage == Storage::AddF16) {
      declare_add(out, layout, operands[i], b);
      continue;
    }
    declare_read(out, caps, layout, operands[i], b);
    if (operands[i].write && (operands[i].storage != Storage::F16 || caps.f16)) declare_write(out, layout, operands[i], b);
  }
  return out;
}

std::string prelude(const gpu::Caps& caps, dispatch::ParamMode mode) {
  std::string out = dispatch::preamble(caps, caps.f16, false);
  if (mode == dispatch::ParamMode::Immediates && !caps.naga) out += "requires immediate_address_space;\n";
  return out + R"(
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 { return group.y * groups.x + group.x; }
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
)";
}

}  // namespace gull::compute
