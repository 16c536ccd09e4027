// Activations of several tokens as 8-bit integers.
#include "kernels/quantise8.h"

#include "kernels/dot8/dot8.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// One block of 32 in `v`, quantised to X8 (dot8.h).
constexpr std::string_view kBlock = R"(
fn store8(to: u32, v: array<vec4<f32>, 8>) {
  var w = v;
  var top = vec4<u32>(0u);
  for (var i = 0u; i < 8u; i++) { top = max(top, bitcast<vec4<u32>>(abs(w[i]))); }
  let peak = bitcast<f32>(max(max(top.x, top.y), max(top.z, top.w)));
  let id = select(0.0, 127.0 / peak, peak > 1e-30);
  var q: array<vec4<i32>, 8>;
  for (var i = 0u; i < 8u; i++) { q[i] = vec4<i32>(round(w[i] * id)); }
  let s = q[0] + q[1] + q[2] + q[3];
  let t = q[4] + q[5] + q[6] + q[7];
  let d = peak / 127.0;
  X8[to] = vec4<u32>(pk(q[0]), pk(q[1]), pk(q[2]), pk(q[3]));
  X8[to + $STEP$] = vec4<u32>(pk(q[4]), pk(q[5]), pk(q[6]), pk(q[7]));
  X8[to + 2u * $STEP$] = bitcast<vec4<u32>>(vec4<f32>(d, d * f32(s.x + s.y + s.z + s.w), d * f32(t.x + t.y + t.z + t.w), 0.0));
}
)";

/// Grid: a thread a block of a token (Place8::grid). Bindings: x, X8.
constexpr std::string_view kQuantise = R"(
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> X8: array<vec4<u32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let b = g.$B$;
  let m = g.$M$;
  if (b >= $BLOCKS$ || m >= $TOKENS$) { return; }
  let at = (m * $STRIDE$ + $OFFSET$) / 4u + b * 8u;
  var v: array<vec4<f32>, 8>;
  for (var i = 0u; i < 8u; i++) { v[i] = x[at + i]; }
  store8($PLACE$, v);
}
)";

/// Grid: x = tokens; 256 threads a row. Bindings: x, w, X8. RMS norm, then blocks.
constexpr std::string_view kNormed = R"(
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> w: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> X8: array<vec4<u32>>;
var<workgroup> part: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = (g.x * $STRIDE$ + $OFFSET$) / 4u;
  var s = 0.0;
  for (var i = t; i < $BLOCKS$ * 8u; i += 256u) { s += dot(x[row + i], x[row + i]); }
  part[t] = s;
  workgroupBarrier();
  for (var k = 128u; k > 0u; k = k / 2u) {
    if (t < k) { part[t] += part[t + k]; }
    workgroupBarrier();
  }
  let scale = inverseSqrt(part[0] / f32($BLOCKS$ * 32u) + $EPS$);
  for (var b = t; b < $BLOCKS$; b += 256u) {
    var v: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) { v[i] = x[row + b * 8u + i] * scale * w[b * 8u + i]; }
    let m = g.x;
    store8($PLACE$, v);
  }
}
)";

/// Grid: as above. Bindings: a, b, y, X8.
constexpr std::string_view kGated = R"(
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> X8: array<vec4<u32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let block = g.$B$;
  let m = g.$M$;
  if (block >= $BLOCKS$ || m >= $TOKENS$) { return; }
  let at = m * $STRIDE$ / 4u + block * 8u;
  var v: array<vec4<f32>, 8>;
  for (var i = 0u; i < 8u; i++) {
    let p = a[at + i];
    v[i] = vec4<f32>($X$, $Y$, $Z$, $W$) * b[at + i];
    y[at + i] = v[i];
  }
  store8($PLACEB$, v);
}
)";

}  // namespace

gpu::BufferRef block_buffer(Recorder& r, const Rows& x) {
  const uint64_t tokens = r.decode() ? 1 : r.arena.max_tokens();
  return r.take(r.arena.raw(fmt::format("quantised {}", x.buffer->id()), uint64_t{x.width} / 32 * kBlock8Bytes * tokens));
}

Place8 place8(const Recorder& r, uint32_t width) { return {width / 32, r.max_tokens, r.max_tokens > kFewTokens}; }

std::string Place8::at(std::string_view b, std::string_view m) const {
  return minor ? fmt::format("({} * {}u + {})", b, 3 * tokens, m) : fmt::format("({} * {}u + {})", m, 3 * blocks, place8(b, blocks));
}

std::string Place8::fill(std::string_view text) const {
  return expand(text, {{"BLOCKS", blocks}, {"TOKENS", tokens}, {"STEP", step()}, {"PLACE", at("b", "m")}, {"PLACEB", at("block", "m")},
                       {"B", minor ? "y" : "x"}, {"M", minor ? "x" : "y"}});
}

dispatch::Count Place8::grid_x() const { return minor ? dispatch::Count{1, dispatch::Var::Tokens, 64} : dispatch::Count{(blocks + 63) / 64}; }
dispatch::Count Place8::grid_y() const { return minor ? dispatch::Count{blocks} : dispatch::Count{1, dispatch::Var::Tokens, 1}; }

gpu::BufferRef quantised(Recorder& r, const Rows& x) {
  if (auto twin = r.twin(x)) return twin;
  const uint32_t blocks = x.width / 32;
  const Place8 place = place8(r, x.width);
  auto buffer = block_buffer(r, x);
  if (r.failed()) return nullptr;
  r.step(fmt::format("quantise8:{}:{}:{}:{}", blocks, x.stride, x.offset, place.tokens), [&] {
    return gpu::PipelineDesc{"quantise8", place.fill(std::string(kPack8) + std::string(kBlock) + expand(kQuantise, {{"STRIDE", x.stride}, {"OFFSET", x.offset}})), kinds("rw")};
  }, {x.buffer, buffer}, place.grid_x(), place.grid_y());
  if (x.offset == 0) r.twins[x.buffer->id()] = buffer;
  return buffer;
}

void quantise_normed(Recorder& r, const Rows& x, const Norm& n, const Rows& normed) {
  if (r.failed()) return;
  const uint32_t blocks = x.width / 32;
  const Place8 place = place8(r, x.width);
  auto buffer = block_buffer(r, normed);
  if (r.failed()) return;
  r.step(fmt::format("quantise8 norm:{}:{}:{}:{}:{}", blocks, x.stride, x.offset, n.eps, place.tokens), [&] {
    return gpu::PipelineDesc{"quantise8 norm", place.fill(std::string(kPack8) + std::string(kBlock) + expand(kNormed, {{"STRIDE", x.stride}, {"OFFSET", x.offset}, {"EPS", n.eps}})),
                             kinds("rrw")};
  }, {x.buffer, vector_operand(n.weight), buffer}, {1, dispatch::Var::Tokens, 1});
  r.twins[normed.buffer->id()] = buffer;
}

void quantise_gated(Recorder& r, Activation activation, const Rows& a, const Rows& b, const Rows& y) {
  if (r.failed()) return;
  const uint32_t blocks = y.width / 32;
  const Place8 place = place8(r, y.width);
  auto buffer = block_buffer(r, y);
  if (r.failed()) return;
  r.step(fmt::format("quantise8 gated:{}:{}:{}:{}", blocks, y.stride, static_cast<int>(activation), place.tokens), [&] {
    return gpu::PipelineDesc{"quantise8 gated", activation_helpers() + place.fill(std::string(kPack8) + std::string(kBlock) +
                                 expand(kGated, {{"STRIDE", y.stride}, {"X", activation_call(activation, "p.x")}, {"Y", activation_call(activation, "p.y")},
                                                 {"Z", activation_call(activation, "p.z")}, {"W", activation_call(activation, "p.w")}})), kinds("rrww")};
  }, {a.buffer, b.buffer, y.buffer, buffer}, place.grid_x(), place.grid_y());
  r.twins[y.buffer->id()] = buffer;
}

}  // namespace gull::kernels
