#include "kernels/ssm.h"

#include <algorithm>
#include <bit>

#include "kernels/decode/decode.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// The bindings of a step: buffers that are named twice are bound once.
class Bindings {
 public:
  /// The WGSL name of a buffer that is only read.
  std::string read(const gpu::BufferRef& buffer) {
    for (size_t i = 0; i < operands_.size(); ++i)
      if (operands_[i].fixed.buffer == buffer) return fmt::format("r{}", i);
    return add(buffer, 'r', "storage, read> r{}: array<f32>");
  }
  std::string read(const weights::TensorRef& vector) { return add(vector_operand(vector), 'r', "storage, read> r{}: array<f32>"); }
  std::string write(const gpu::BufferRef& buffer) { return add(buffer, 'w', "storage, read_write> r{}: array<f32>"); }
  /// The weight W0 that decode/decode.h reads.
  void weight(const std::shared_ptr<weights::Tile>& tile) { add(tile, 'r', "storage, read> W0: array<vec4<u32>>"); }
  void state(const gpu::BufferRef& buffer) { add(buffer, 'u', "uniform> S: State"); }

  const std::string& declarations() const { return text_; }
  const std::string& letters() const { return letters_; }
  std::vector<dispatch::Operand> operands() const { return operands_; }

 private:
  std::string add(dispatch::Operand operand, char letter, std::string_view declaration) {
    const size_t i = operands_.size();
    text_ += fmt::format("@group(0) @binding({}) var<", i) + fmt::format(fmt::runtime(declaration), i) + ";\n";
    letters_ += letter;
    operands_.push_back(std::move(operand));
    return fmt::format("r{}", i);
  }
  std::string text_, letters_;
  std::vector<dispatch::Operand> operands_;
};

/// Element `column` of the token's row.
std::string at(const std::string& name, const Rows& rows, std::string_view token, std::string_view column) {
  return fmt::format("{}[{} * {}u + {}u + {}]", name, token, rows.stride, rows.offset, column);
}

/// A value for each head (or channel), whether the file has them as one row or as rows of one.
std::string scalar_at(const std::string& name, const weights::TensorRef& tensor, std::string_view index) {
  return tensor->rows == 1 ? fmt::format("{}[{}]", name, index) : fmt::format("{}[{} * {}u]", name, index, tensor->layout.row_bytes / 4);
}

bool plain_floats(Recorder& r, const weights::TensorRef& tensor) {
  if (tensor->type == gguf::Type::F32 && tensor->tiles.size() == 1) return true;
  r.fail_with({ErrorKind::Unsupported, fmt::format("tensor '{}': gull reads it as F32 in one piece only", tensor->name)});
  return false;
}

}  // namespace

void short_conv(Recorder& r, const ShortConv& c) {
  if (r.failed()) return;
  const auto taps = static_cast<uint32_t>(c.weight->k), channels = c.x.width;
  if (taps < 2 || taps > 32 || c.weight->tiles.size() != 1)
    return r.fail_with({ErrorKind::Unsupported, fmt::format("'{}': a convolution of {} taps", c.weight->name, taps)});
  auto decode = decoder(c.weight->layout, "0");
  if (!decode) return r.fail_with(decode.error());
  Bindings bind;
  const std::string x = bind.read(c.x.buffer);
  bind.weight(c.weight->tiles[0]);
  const std::string bias = c.bias ? bind.read(c.bias) : "", state = bind.write(c.state), y = bind.write(c.y.buffer);
  bind.state(r.state);
  // Thread: one channel, all tokens in turn. v0 … are the inputs under the filter, oldest first.
  std::string body, sum;
  for (uint32_t j = 0; j < taps; ++j) {
    body += fmt::format("  let w{0} = w[{1}u][{2}u];\n  var v{0} = 0.0;\n", j, j / 4, j % 4);
    if (j + 1 < taps) body += fmt::format("  v{} = {}[{}u + c];\n", j, state, j * channels);
    sum += fmt::format("{}w{} * v{}", j ? " + " : "", j, j);
  }
  if (c.bias) sum += " + " + bias + "[c]";
  body += "  for (var t = 0u; t < S.n; t++) {\n    v" + std::to_string(taps - 1) + " = " + at(x, c.x, "t", "c");
  if (c.in) body += " * " + at(x, c.in, "t", "c");
  body += ";\n    let s = " + sum + ";\n    " + at(y, c.y, "t", "c") + " = " + activation_call(c.activation, "s");
  if (c.out) body += " * " + at(x, c.out, "t", "c");
  body += ";\n";
  for (uint32_t j = 0; j + 1 < taps; ++j) body += fmt::format("    v{} = v{};\n", j, j + 1);
  body += "  }\n";
  for (uint32_t j = 0; j + 1 < taps; ++j) body += fmt::format("  {}[{}u + c] = v{};\n", state, j * channels, j);
  const std::string key = fmt::format("short_conv:{}:{}:{}:{}:{}:{}/{}:{}:{}:{}/{}:{}", taps, channels, static_cast<int>(c.weight->type), c.weight->layout.row_bytes,
                                      static_cast<int>(c.activation), bind.letters(), c.x.stride, c.x.offset, c.in ? int64_t{c.in.offset} : -1,
                                      c.out ? int64_t{c.out.offset} : -1, c.y.stride, c.y.offset);
  r.step(key, [&] {
    std::string text = std::string(kStateStruct) + bind.declarations() + *decode + activation_helpers() +
                       expand("@compute @workgroup_size(64)\nfn main(@builtin(global_invocation_id) g: vec3<u32>) {\n  let c = g.x;\n"
                              "  if (c >= $N$) { return; }\n  let w = dq0(c * $ROW4$, 0u);\n",
                              {{"N", channels}, {"ROW4", c.weight->layout.row_bytes / 16}}) + body + "}\n";
    return gpu::PipelineDesc{"short_conv", std::move(text), kinds(bind.letters())};
  }, bind.operands(), {(channels + 63) / 64});
}

namespace {

/// Grid: x = ⌈channels ÷ CH⌉. A channel's states are spread over `G` threads, four at a time; the threads' shares of y are
/// added up for 16 tokens at once, so that barriers are few.
constexpr std::string_view kScan = R"(
fn softplus(v: f32) -> f32 { return select(log(1.0 + exp(min(v, 20.0))), v, v > 20.0); }
fn silu(v: f32) -> f32 { return v / (1.0 + exp(-clamp(v, -80.0, 80.0))); }
var<workgroup> part: array<f32, 1024>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let c = min(g.x * $CH$ + min(t / $G$, $CH$ - 1u), $N$ - 1u);
  let mine = t < $CH$ * $G$ && g.x * $CH$ + t / $G$ < $N$;
  let head = c / $PER$;
  let n0 = (t % $G$) * $S$;
  let bc = (head / $HPG$) * $STATES$ + n0;
  var h: array<vec4<f32>, $S4$>;
  var a: array<vec4<f32>, $S4$>;
  for (var i = 0u; i < $S4$; i++) {
    let s = c * $STATES$ + n0 + i * 4u;
    h[i] = vec4<f32>($STATE$[s], $STATE$[s + 1u], $STATE$[s + 2u], $STATE$[s + 3u]);
    $A$
  }
  for (var first = 0u; first < S.n; first += 16u) {
    let last = min(first + 16u, S.n);
    for (var k = first; k < last; k++) {
      let dt = softplus($DT$);
      let dx = dt * $X$;
      var sum = vec4<f32>(0.0);
      for (var i = 0u; i < $S4$; i++) {
        let j = bc + i * 4u;
        h[i] = exp(dt * a[i]) * h[i] + dx * vec4<f32>($B0$, $B1$, $B2$, $B3$);
        sum += h[i] * vec4<f32>($C0$, $C1$, $C2$, $C3$);
      }
      part[(k - first) * 64u + t] = sum.x + sum.y + sum.z + sum.w;
    }
    workgroupBarrier();
    for (var i = t; i < (last - first) * $CH$; i += 64u) {
      let k = first + i / $CH$;
      let c = g.x * $CH$ + i % $CH$;
      if (c < $N$) {
        let head = c / $PER$;
        var v = $D$ * $X$;
        for (var j = 0u; j < $G$; j++) { v += part[(k - first) * 64u + (i % $CH$) * $G$ + j]; }
        $Y$ = v$GATE$;
      }
    }
    workgroupBarrier();
  }
  if (mine) {
    for (var i = 0u; i < $S4$; i++) {
      for (var j = 0u; j < 4u; j++) { $STATE$[c * $STATES$ + n0 + i * 4u + j] = h[i][j]; }
    }
  }
}
)";

/// How many states a thread holds: at most 16 threads share a channel.
uint32_t states_per_thread(uint32_t states) {
  uint32_t s = 4;
  while (states / s > 16 || states % s) s += 4;
  return s;
}

}  // namespace

void selective_scan(Recorder& r, const SelectiveScan& s) {
  if (r.failed() || !plain_floats(r, s.a) || !plain_floats(r, s.d) || (s.dt_bias && !plain_floats(r, s.dt_bias))) return;
  if (s.states % 4 || s.states == 0 || s.states > 1024)
    return r.fail_with({ErrorKind::Unsupported, fmt::format("a state space of {} states: gull needs a multiple of 4, up to 1024", s.states)});
  const uint32_t per_thread = states_per_thread(s.states), threads = s.states / per_thread, channels = 64 / threads;
  const bool full_a = s.a->rows == s.channels && s.a->k == s.states;   // else one a head
  Bindings bind;
  const std::string x = bind.read(s.x.buffer), dt = bind.read(s.dt.buffer), b = bind.read(s.b.buffer), c = bind.read(s.c.buffer);
  const std::string z = s.z ? bind.read(s.z.buffer) : "", a = bind.read(s.a), d = bind.read(s.d), bias = s.dt_bias ? bind.read(s.dt_bias) : "";
  const std::string state = bind.write(s.state), y = bind.write(s.y.buffer);
  bind.state(r.state);
  const std::string key = fmt::format("scan:{}:{}:{}:{}:{}:{}/{}:{}/{}:{}/{}:{}:{}/{}:{}/{}:{}/{}:{}:{}:{}", s.channels, s.states, s.heads, s.groups, bind.letters(), full_a,
                                      s.x.stride, s.x.offset, s.dt.stride, s.dt.offset, s.b.stride, s.b.offset, s.c.offset, s.z.stride, s.z.offset,
                                      s.y.stride, s.y.offset, x + dt + b + c + z, s.a->layout.row_bytes, s.d->rows, s.dt_bias ? s.dt_bias->rows : 0);
  r.step(key, [&] {
    const std::string a_text = full_a ? fmt::format("let p = c * {1}u + n0 + i * 4u; a[i] = vec4<f32>({0}[p], {0}[p + 1u], {0}[p + 2u], {0}[p + 3u]);", a, s.a->layout.row_bytes / 4)
                                      : "a[i] = vec4<f32>(" + scalar_at(a, s.a, "head") + ");";
    const auto state_at = [&](const std::string& name, const Rows& rows, int j) { return at(name, rows, "k", fmt::format("j + {}u", j)); };
    const std::string body = expand(kScan, {{"A", a_text}, {"DT", at(dt, s.dt, "k", "head") + (s.dt_bias ? " + " + scalar_at(bias, s.dt_bias, "head") : "")},
        {"X", at(x, s.x, "k", "c")}, {"Y", at(y, s.y, "k", "c")}, {"D", scalar_at(d, s.d, "head")}, {"STATE", state},
        {"B0", state_at(b, s.b, 0)}, {"B1", state_at(b, s.b, 1)}, {"B2", state_at(b, s.b, 2)}, {"B3", state_at(b, s.b, 3)},
        {"C0", state_at(c, s.c, 0)}, {"C1", state_at(c, s.c, 1)}, {"C2", state_at(c, s.c, 2)}, {"C3", state_at(c, s.c, 3)},
        {"GATE", s.z ? " * silu(" + at(z, s.z, "k", "c") + ")" : std::string()}});
    return gpu::PipelineDesc{"selective_scan", std::string(kStateStruct) + bind.declarations() +
        expand(body, {{"CH", channels}, {"G", threads}, {"N", s.channels}, {"PER", s.channels / s.heads}, {"S", per_thread}, {"S4", per_thread / 4},
                      {"STATES", s.states}, {"HPG", s.heads / s.groups}}), kinds(bind.letters())};
  }, bind.operands(), {(s.channels + channels - 1) / channels});
}

namespace {

/// Grid: x = groups, y = tokens. Bindings: x, w.
constexpr std::string_view kGroupNorm = R"(
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
var<workgroup> part: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let at = g.y * $STRIDE$ + $OFFSET$ + g.x * $N$;
  var s = 0.0;
  for (var i = t; i < $N$; i += 64u) { s += x[at + i] * x[at + i]; }
  part[t] = s;
  for (var k = 32u; k > 0u; k = k / 2u) {
    workgroupBarrier();
    if (t < k) { part[t] += part[t + k]; }
  }
  workgroupBarrier();
  let scale = inverseSqrt(part[0] / f32($N$) + $EPS$);
  for (var i = t; i < $N$; i += 64u) { x[at + i] = x[at + i] * scale * w[g.x * $WS$ + i]; }
}
)";

}  // namespace

void group_norm(Recorder& r, const Rows& x, const weights::TensorRef& weight, uint32_t groups, float eps) {
  if (r.failed() || !plain_floats(r, weight)) return;
  const uint32_t n = x.width / groups, stride = weight->rows == 1 ? 0 : weight->layout.row_bytes / 4;
  r.step(fmt::format("group_norm:{}:{}:{}:{}:{}", n, x.stride, x.offset, stride, eps), [&] {
    return gpu::PipelineDesc{"group_norm", expand(kGroupNorm, {{"N", n}, {"STRIDE", x.stride}, {"OFFSET", x.offset}, {"WS", stride}, {"EPS", eps}}), kinds("wr")};
  }, {x.buffer, vector_operand(weight)}, {groups}, {1, dispatch::Var::Tokens, 1});
}

}  // namespace gull::kernels
