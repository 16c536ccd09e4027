// Activations, scaled additions and soft caps of rows.
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈width ÷ 256⌉, y = tokens. Bindings: those of $DECL$.
constexpr std::string_view kElementwise = R"(
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let i = g.x;
  if (i >= $N$) { return; }
  $BODY$
}
)";

std::string at(const Rows& rows) { return fmt::format("[g.y * {}u + {}u + i]", rows.stride, rows.offset); }

/// One elementwise step over rows: `inputs` named a, b, …; the last operand is y.
void elementwise(Recorder& r, const char* label, std::vector<Rows> inputs, const Rows& y, const std::string& body, const std::string& helpers = {}) {
  if (r.failed()) return;
  std::string declarations, letters;
  std::vector<dispatch::Operand> operands;
  std::string key = fmt::format("{}:{}:{}", label, y.width, body);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].buffer == y.buffer) continue;   // read and written through y
    declarations += fmt::format("@group(0) @binding({}) var<storage, read> {}: array<f32>;\n", letters.size(), static_cast<char>('a' + i));
    letters += 'r';
    operands.push_back(inputs[i].buffer);
  }
  declarations += fmt::format("@group(0) @binding({}) var<storage, read_write> y: array<f32>;\n", letters.size());
  letters += 'w';
  operands.push_back(y.buffer);
  const auto describe = [&] {
    return gpu::PipelineDesc{label, declarations + helpers + expand(kElementwise, {{"N", y.width}, {"BODY", body}}), kinds(letters)};
  };
  r.step(key, describe, std::move(operands), {(y.width + 255) / 256}, {1, dispatch::Var::Tokens, 1});
}

/// How the body reads input number i: by its own binding, or through y where they share memory.
std::string read(const Rows& rows, const Rows& y, char name) {
  return (rows.buffer == y.buffer ? "y" : std::string(1, name)) + at(rows);
}

}  // namespace

std::string activation_call(Activation activation, std::string_view v) {
  switch (activation) {
    case Activation::None: return std::string(v);
    case Activation::Silu: return fmt::format("act_silu({})", v);
    case Activation::GeluTanh: return fmt::format("act_gelu_tanh({})", v);
    case Activation::Gelu: return fmt::format("act_gelu({})", v);
    case Activation::GeluQuick: return fmt::format("act_gelu_quick({})", v);
    case Activation::Relu: return fmt::format("max({}, 0.0)", v);
    case Activation::Relu2: return fmt::format("act_relu2({})", v);
    case Activation::Tanh: return fmt::format("tanh(clamp({}, -20.0, 20.0))", v);
    case Activation::Sigmoid: return fmt::format("(1.0 / (1.0 + exp(-clamp({}, -80.0, 80.0))))", v);
    case Activation::Softplus: return fmt::format("act_softplus({})", v);
  }
  return std::string(v);
}

// Clamped where exp or tanh would overflow on some drivers; the clamp changes no f32 result.
// erf: Abramowitz and Stegun 7.1.26, refined to f32 by the complementary rational form of Numerical Recipes' erfc (1.2e-7).
std::string activation_helpers() {
  return R"(
fn act_silu(v: f32) -> f32 { return v / (1.0 + exp(-clamp(v, -80.0, 80.0))); }
fn act_gelu_tanh(v: f32) -> f32 {
  return 0.5 * v * (1.0 + tanh(clamp(0.7978845608028654 * v * (1.0 + 0.044715 * v * v), -20.0, 20.0)));
}
fn act_erf(v: f32) -> f32 {
  let z = abs(v);
  let t = 1.0 / (1.0 + 0.5 * z);
  let p = t * exp(-z * z - 1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 +
    t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277)))))))));
  return select(p - 1.0, 1.0 - p, v >= 0.0);
}
fn act_gelu(v: f32) -> f32 { return 0.5 * v * (1.0 + act_erf(v * 0.7071067811865476)); }
fn act_gelu_quick(v: f32) -> f32 { return v / (1.0 + exp(-clamp(1.702 * v, -80.0, 80.0))); }
fn act_relu2(v: f32) -> f32 { let m = max(v, 0.0); return m * m; }
fn act_softplus(v: f32) -> f32 { return select(log(1.0 + exp(min(v, 20.0))), v, v > 20.0); }
)";
}

void activate(Recorder& r, Activation activation, const Rows& a, const Rows& b, const Rows& y) {
  std::string value = activation_call(activation, read(a, y, 'a'));
  std::vector<Rows> inputs{a};
  if (b) value += " * " + read(b, y, 'b'), inputs.push_back(b);
  elementwise(r, "activate", std::move(inputs), y, "y" + at(y) + " = " + value + ";", activation_helpers());
}

void scale_add(Recorder& r, const Rows& x, float scale, const Rows& add, const Rows& y) {
  std::string value = read(x, y, 'a') + " * " + Sub::float_literal(scale);
  std::vector<Rows> inputs{x};
  if (add) value += " + " + read(add, y, 'b'), inputs.push_back(add);
  elementwise(r, "scale_add", std::move(inputs), y, "y" + at(y) + " = " + value + ";");
}

void scale_rows(Recorder& r, const Rows& x, Activation activation, const Rows& factor) {
  const std::string value = activation_call(activation, fmt::format("b[g.y * {}u + {}u]", factor.stride, factor.offset));
  elementwise(r, "scale_rows", {x, factor}, x, "y" + at(x) + " = y" + at(x) + " * " + value + ";", activation_helpers());
}

void softcap(Recorder& r, const Rows& x, float cap) {
  // A clamp would turn what is not a number into one, and a broken model's logits into plausible ones.
  const std::string c = Sub::float_literal(cap), v = "y" + at(x);
  elementwise(r, "softcap", {x}, x, v + " = select(" + v + ", " + c + " * tanh(clamp(" + v + " / " + c + ", -20.0, 20.0)), (bitcast<u32>(" + v +
              ") & 0x7fffffffu) <= 0x7f800000u);");
}

}  // namespace gull::kernels
