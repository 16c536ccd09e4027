// RMS and layer normalisation of rows, with an optional addition; the last row of a batch.
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = tokens. One workgroup a row of `N` floats.
/// Bindings: x (unless it is y's memory), y, [weight], [bias], [add], [out scale].
constexpr std::string_view kNorm = R"(
var<workgroup> part: array<f32, $WG$>;
fn total(t: u32, v: f32) -> f32 {
  part[t] = v;
  workgroupBarrier();
  for (var k = $WG$ / 2u; k > 0u; k = k / 2u) {
    if (t < k) { part[t] += part[t + k]; }
    workgroupBarrier();
  }
  let sum = part[0];
  workgroupBarrier();
  return sum;
}
@compute @workgroup_size($WG$)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let xr = g.x * $XS$ + $XO$;
  let yr = g.x * $YS$ + $YO$;
  var mean = 0.0;
  $MEAN$
  var s = 0.0;
  for (var i = t; i < $N$; i += $WG$) { let v = $X$[xr + i] - mean; s += v * v; }
  let scale = inverseSqrt(total(t, s) / f32($N$) + $EPS$);
  for (var i = t; i < $N$; i += $WG$) {
    let v = ($X$[xr + i] - mean) * scale;
    y[yr + i] = $OUT$;
  }
}
)";

/// Grid: x = ⌈N ÷ 256⌉. Bindings: x, y, State. Copies row n − 1 to row 0.
constexpr std::string_view kLastRow = R"(
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> S: State;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x < $N$) { y[$YO$ + g.x] = x[(S.n - 1u) * $XS$ + $XO$ + g.x]; }
}
)";

std::string norm_source(const Rows& x, const Norm& n, const Rows& y, const Rows& add) {
  const bool shared = x.buffer == y.buffer;
  std::string text;
  int next = 0;
  if (!shared) text += fmt::format("@group(0) @binding({}) var<storage, read> x: array<f32>;\n", next++);
  text += fmt::format("@group(0) @binding({}) var<storage, read_write> y: array<f32>;\n", next++);
  std::string out = "v";
  const auto bind = [&](const char* name) {
    text += fmt::format("@group(0) @binding({}) var<storage, read> {}: array<f32>;\n", next++, name);
  };
  if (n.weight) bind("w"), out += " * w[i]";
  if (n.bias) bind("b"), out += " + b[i]";
  if (add.buffer == y.buffer && add) out = "y[yr + i] + " + out;
  else if (add) bind("a"), out = fmt::format("a[g.x * {}u + {}u + i] + ", add.stride, add.offset) + out;
  if (n.out_scale) bind("s_out"), out = "(" + out + ") * s_out[0]";
  const char* mean = n.layer ? "for (var i = t; i < $N$; i += $WG$) { mean += $X$[xr + i]; }\n  mean = total(t, mean) / f32($N$);" : "";
  const uint32_t wg = x.width >= 1024 ? 256 : 64;
  return text + expand(expand(kNorm, {{"MEAN", mean}, {"OUT", out}}),
                       {{"X", shared ? "y" : "x"}, {"WG", wg}, {"N", x.width}, {"XS", x.stride}, {"XO", x.offset}, {"YS", y.stride}, {"YO", y.offset}, {"EPS", n.eps}});
}

}  // namespace

void norm(Recorder& r, const Rows& x, const Norm& n, const Rows& y, const Rows& add) {
  if (r.failed()) return;
  const bool in_place = add.buffer == y.buffer && add;
  std::vector<dispatch::Operand> operands;
  std::string letters;
  if (x.buffer != y.buffer) operands.push_back(x.buffer), letters += 'r';
  operands.push_back(y.buffer), letters += 'w';
  if (n.weight) operands.push_back(vector_operand(n.weight)), letters += 'r';
  if (n.bias) operands.push_back(vector_operand(n.bias)), letters += 'r';
  if (add && !in_place) operands.push_back(add.buffer), letters += 'r';
  if (n.out_scale) operands.push_back(vector_operand(n.out_scale)), letters += 'r';
  const std::string key = fmt::format("norm:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", x.width, x.stride, x.offset, y.stride, y.offset, n.eps,
                                      n.layer, bool(n.out_scale), letters, in_place, bool(add), add.stride, add.offset);
  r.step(key, [&] { return gpu::PipelineDesc{"norm", norm_source(x, n, y, add), kinds(letters)}; }, std::move(operands),
         {1, dispatch::Var::Tokens, 1});
}

void last_row(Recorder& r, const Rows& x, const Rows& y) {
  const std::string key = fmt::format("last_row:{}:{}:{}:{}", x.width, x.stride, x.offset, y.offset);
  const auto describe = [&] {
    return gpu::PipelineDesc{"last_row", std::string(kStateStruct) + expand(kLastRow, {{"N", x.width}, {"XS", x.stride}, {"XO", x.offset}, {"YO", y.offset}}),
                             kinds("rwu")};
  };
  r.step(key, describe, {x.buffer, y.buffer, r.state}, {(x.width + 255) / 256});
}

}  // namespace gull::kernels
