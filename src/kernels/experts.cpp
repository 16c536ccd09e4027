// Products with one matrix of many: the experts of a mixture, or a projection for each head.
//
// A 3-D weight's matrices follow one another and may be spread over several tiles; a dispatch handles those of one tile
// and leaves the rest to the others. Decoding reads each chosen expert's rows once; a batch is sorted by expert, so that
// an expert's weights are read once for all of its tokens.
#include <algorithm>
#include <bit>

#include "kernels/decode/decode.h"
#include "kernels/moe.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// The matrices that lie in a tile of each of two weights (the same weight twice, where there is one).
struct Span {
  std::shared_ptr<weights::Tile> a, b;
  uint32_t first = 0, count = 0;
  uint32_t a_first = 0, b_first = 0;   ///< the first matrix of each tile
};

std::vector<Span> spans(const weights::Tensor& a, const weights::Tensor& b) {
  std::vector<Span> out;
  for (const auto& ta : a.tiles)
    for (const auto& tb : b.tiles) {
      const auto matrix = [](const weights::Tensor& t, uint64_t row) { return static_cast<uint32_t>(row / t.rows_per_matrix()); };
      Span s{ta, tb, 0, 0, matrix(a, ta->first_row), matrix(b, tb->first_row)};
      s.first = std::max(s.a_first, s.b_first);
      const uint32_t end = std::min(matrix(a, ta->first_row + ta->rows), matrix(b, tb->first_row + tb->rows));
      if (end <= s.first) continue;
      s.count = end - s.first;
      out.push_back(std::move(s));
    }
  return out;
}

/// Whether no matrix is cut; keeps an error otherwise.
bool whole_matrices(Recorder& r, const weights::TensorRef& tensor) {
  if (!tensor) return false;
  for (const auto& tile : tensor->tiles)
    if (tile->first_row % tensor->rows_per_matrix() || tile->rows % tensor->rows_per_matrix()) {
      r.fail_with({ErrorKind::Unsupported, fmt::format("one matrix of '{}' is larger than what this device binds at once", tensor->name)});
      return false;
    }
  return true;
}

uint32_t matrix_rows(const weights::TensorRef& t) { return static_cast<uint32_t>(t->rows_per_matrix()); }
uint32_t row4(const weights::TensorRef& t) { return t->layout.row_bytes / 16; }
/// Floats from one row of a bias [experts, n] to the next.
uint32_t bias_stride(const weights::TensorRef& t) { return t ? t->layout.row_bytes / 4 : 0; }

/// Declares x; `whole`: it can be read four floats at a time.
std::string declare_x(bool whole) { return fmt::format("@group(0) @binding(0) var<storage, read> x: array<{}>;\n", whole ? "vec4<f32>" : "f32"); }

/// A function load(base, group): the four floats of x at base + 4·group, zero beyond k.
std::string load_function(bool whole, uint32_t k) {
  if (whole) return "fn load(base: u32, i: u32) -> vec4<f32> { return x[base / 4u + i]; }\n";
  return expand(R"(fn load(base: u32, i: u32) -> vec4<f32> {
  var v = vec4<f32>(0.0);
  for (var c = 0u; c < 4u; c++) { if (i * 4u + c < $K$) { v[c] = x[base + i * 4u + c]; } }
  return v;
}
)", {{"K", k}});
}

/// The gated activation of `g` and `u`.
std::string gate_call(const Experts& e, std::string_view g, std::string_view u) {
  if (e.clamp > 0) return fmt::format("bounded_gate({}, {})", g, u);
  return activation_call(e.activation, g) + fmt::format(" * {}", u);
}

std::string gate_helpers(const Experts& e) {
  if (e.clamp <= 0) return activation_helpers();
  return expand(R"(fn bounded_gate(g: f32, u: f32) -> f32 {
  let a = min(g, $L$);
  return a / (1.0 + exp(-clamp(1.702 * a, -80.0, 80.0))) * (clamp(u, -$L$, $L$) + 1.0);
}
)", {{"L", e.clamp}});
}

/// Decoders of one or two weights; where both are the same tensor they share W0.
Result<std::string> decoders(const weights::TensorRef& a, const weights::TensorRef& b, bool shared) {
  auto first = decoder(a->layout, "0");
  if (!first || shared || !b) return first;
  auto second = decoder(b->layout, "1");
  if (!second) return second;
  return *first + *second;
}

// ---- one token ------------------------------------------------------------------------------------------------------

struct Shape { uint32_t workgroup, per_row, groups; };   ///< `groups` rows a workgroup, `per_row` threads along k each

Shape vector_shape(const gpu::Caps& caps, uint32_t k_groups) {
  const uint32_t workgroup = caps.software ? 32 : 64;
  const uint32_t per_row = std::min<uint32_t>(std::bit_floor(std::max(k_groups, 1u)), 16);
  return {workgroup, per_row, workgroup / per_row};
}

constexpr std::string_view kDot = R"(fn dot32(q: array<vec4<f32>, 8>, base: u32, kb: u32) -> f32 {
  let i = kb * 8u;
  let s = q[0] * load(base, i) + q[1] * load(base, i + 1u) + q[2] * load(base, i + 2u) + q[3] * load(base, i + 3u) +
    q[4] * load(base, i + 4u) + q[5] * load(base, i + 5u) + q[6] * load(base, i + 6u) + q[7] * load(base, i + 7u);
  return s.x + s.y + s.z + s.w;
}
)";

/// Grid: x = ⌈ffn ÷ groups⌉, y = slots. Bindings: x, W0, [W1], h, ids, [b0], [b1].
constexpr std::string_view kUpOne = R"(
var<workgroup> part: array<vec2<f32>, $WG$>;
@compute @workgroup_size($WG$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let slot = wid.y;
  let e = ids[slot];
  if (e < $FIRST$ || e - $FIRST$ >= $COUNT$) { return; }
  let lane = t % $TPR$;
  let group = t / $TPR$;
  let row = wid.x * $GROUPS$ + group;
  let safe = min(row, $ROWS$ - 1u);
  let ra = ((e - $AFIRST$) * $AROWS$ + safe) * $AROW4$;
  let rb = ((e - $BFIRST$) * $BROWS$ + $BAT$ + safe) * $BROW4$;
  var s = vec2<f32>(0.0);
  for (var kb = lane; kb < $KB$; kb += $TPR$) {
    s += vec2<f32>(dot32(dq0(ra, kb), $XO$, kb), dot32(dq$B$(rb, kb), $XO$, kb));
  }
  part[t] = s;
  workgroupBarrier();
  if (lane == 0u && row < $ROWS$) {
    var a = vec2<f32>(0.0);
    for (var i = 0u; i < $TPR$; i++) { a += part[t + i]; }
    let g = a.x$BIASA$;
    let u = a.y$BIASB$;
    h[slot * $HS$ + row] = $VALUE$;
  }
}
)";

/// Grid: x = ⌈n ÷ groups⌉. Bindings: x (= h), W0, y, ids, weights, [b0]. All slots of the token, one after another; each
/// slot's sum is finished before they are weighed, so that it does not matter which tile an expert lies in.
constexpr std::string_view kDownOne = R"(
var<workgroup> part: array<f32, $PARTS$>;
@compute @workgroup_size($WG$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let lane = t % $TPR$;
  let row = wid.x * $GROUPS$ + t / $TPR$;
  let safe = min(row, $ROWS$ - 1u);
  for (var slot = 0u; slot < $USED$; slot++) {
    let e = ids[slot];
    var s = 0.0;
    if (e >= $FIRST$ && e - $FIRST$ < $COUNT$) {
      let at = ((e - $AFIRST$) * $ROWS$ + safe) * $AROW4$;
      for (var kb = lane; kb < $KB$; kb += $TPR$) { s += dot32(dq0(at, kb), slot * $XS$, kb); }
    }
    part[slot * $WG$ + t] = s;
  }
  workgroupBarrier();
  if (lane != 0u || row >= $ROWS$) { return; }
$FINISH$
}
)";

/// One tile has all experts: their weighted sum.
constexpr std::string_view kDownSum = R"(  var a = 0.0;
  for (var slot = 0u; slot < $USED$; slot++) {
    var d = 0.0;
    for (var i = 0u; i < $TPR$; i++) { d += part[slot * $WG$ + t + i]; }
    a += weights[slot] * (d$BIAS$);
  }
  y[$YO$ + row] $SET$ a;)";
/// Other tiles have the rest: each slot by itself, for kCombine.
constexpr std::string_view kDownSlots = R"(  for (var slot = 0u; slot < $USED$; slot++) {
    let e = ids[slot];
    if (e < $FIRST$ || e - $FIRST$ >= $COUNT$) { continue; }
    var d = 0.0;
    for (var i = 0u; i < $TPR$; i++) { d += part[slot * $WG$ + t + i]; }
    y[slot * $YS$ + row] = d$BIAS$;
  })";

/// Grid: x = ⌈n ÷ 256⌉, y = tokens. Bindings: d, weights, y. Adds a token's experts up.
constexpr std::string_view kCombine = R"(
@group(0) @binding(0) var<storage, read> d: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x >= $N$) { return; }
  var s = 0.0;
  for (var i = 0u; i < $USED$; i++) { s += weights[g.y * $USED$ + i] * d[(g.y * $USED$ + i) * $DS$ + g.x]; }
  y[g.y * $YS$ + $YO$ + g.x] $SET$ s;
}
)";

void combine(Recorder& r, const Rows& d, const Routing& routing, uint32_t n, const Rows& y, bool add) {
  const std::string key = fmt::format("moe_combine:{}:{}:{}:{}:{}:{}", n, routing.used, d.stride, y.stride, y.offset, add);
  r.step(key, [&] {
    return gpu::PipelineDesc{"moe_combine", expand(kCombine, {{"N", n}, {"USED", routing.used}, {"DS", d.stride}, {"YS", y.stride},
                                                              {"YO", y.offset}, {"SET", add ? "+=" : "="}}), kinds("rrw")};
  }, {d.buffer, routing.weights, y.buffer}, {(n + 255) / 256}, {1, dispatch::Var::Tokens, 1});
}

/// A step that reads the matrices of one span has nothing to do when no token goes to them.
dispatch::Select chosen(const Routing& routing, const Span& s) { return {routing.ids, routing.used, s.first, s.count}; }

void up_one(Recorder& r, const Rows& x, const Routing& routing, const Experts& e, const Rows& h) {
  const bool fused = !e.gate;
  const weights::TensorRef& a = fused ? e.up : e.gate;
  const auto k = static_cast<uint32_t>(a->k);
  const bool whole = k % 32 == 0 && x.offset % 4 == 0;
  const Shape shape = vector_shape(r.caps(), (k + 31) / 32);
  auto decode = decoders(a, e.up, fused);
  if (!decode) return r.fail_with(decode.error());
  for (const Span& s : spans(*a, *e.up)) {
    std::string letters = fused ? "rrwr" : "rrrwr";
    std::vector<dispatch::Operand> operands{x.buffer, s.a};
    if (!fused) operands.push_back(s.b);
    operands.insert(operands.end(), {h.buffer, routing.ids});
    if (e.gate_bias) operands.push_back(vector_operand(e.gate_bias)), letters += 'r';
    if (e.up_bias) operands.push_back(vector_operand(e.up_bias)), letters += 'r';
    const auto describe = [&] {
      std::string text = declare_x(whole) + "@group(0) @binding(1) var<storage, read> W0: array<vec4<u32>>;\n";
      int next = 2;
      if (!fused) text += fmt::format("@group(0) @binding({}) var<storage, read> W1: array<vec4<u32>>;\n", next++);
      text += fmt::format("@group(0) @binding({}) var<storage, read_write> h: array<f32>;\n", next++);
      text += fmt::format("@group(0) @binding({}) var<storage, read> ids: array<u32>;\n", next++);
      if (e.gate_bias) text += fmt::format("@group(0) @binding({}) var<storage, read> ba: array<f32>;\n", next++);
      if (e.up_bias) text += fmt::format("@group(0) @binding({}) var<storage, read> bb: array<f32>;\n", next++);
      text += *decode + load_function(whole, k) + gate_helpers(e) + std::string(kDot);
      const std::string body = expand(kUpOne, {{"VALUE", gate_call(e, "g", "u")},
                                               {"BIASA", e.gate_bias ? fmt::format(" + ba[e * {}u + row]", bias_stride(e.gate_bias)) : ""},
                                               {"BIASB", e.up_bias ? fmt::format(" + bb[e * {}u + row]", bias_stride(e.up_bias)) : ""}});
      text += expand(body, {{"WG", shape.workgroup}, {"TPR", shape.per_row}, {"GROUPS", shape.groups}, {"FIRST", s.first}, {"COUNT", s.count},
                            {"AFIRST", s.a_first}, {"BFIRST", s.b_first}, {"AROWS", matrix_rows(a)}, {"BROWS", matrix_rows(e.up)},
                            {"BAT", fused ? e.ffn : 0u}, {"AROW4", row4(a)}, {"BROW4", row4(e.up)}, {"ROWS", e.ffn}, {"KB", (k + 31) / 32},
                            {"XO", x.offset}, {"HS", h.stride}, {"B", fused ? "0" : "1"}});
      return gpu::PipelineDesc{"moe_up", std::move(text), kinds(letters)};
    };
    const std::string key = fmt::format("moe_up1:{}:{}:{}:{}:{}/{}:{}:{}:{}:{}:{}/{}:{}:{}:{}:{}:{}:{}", static_cast<int>(a->type), static_cast<int>(e.up->type),
                                        k, e.ffn, fused, s.first, s.count, s.a_first, s.b_first, matrix_rows(a), matrix_rows(e.up), x.offset, h.stride,
                                        static_cast<int>(e.activation), e.clamp, bias_stride(e.gate_bias), bias_stride(e.up_bias), shape.per_row);
    r.step(key, describe, std::move(operands), {(e.ffn + shape.groups - 1) / shape.groups}, {routing.used}, {}, chosen(routing, s));
  }
}

void down_one(Recorder& r, const Rows& h, const Routing& routing, const Experts& e, const Rows& y, bool add) {
  const auto k = static_cast<uint32_t>(e.down->k);
  const uint32_t rows = matrix_rows(e.down);
  const bool whole = k % 32 == 0, tiled = e.down->tiles.size() > 1;
  const Shape shape = vector_shape(r.caps(), (k + 31) / 32);
  auto decode = decoder(e.down->layout, "0");
  if (!decode) return r.fail_with(decode.error());
  const Rows out = tiled ? r.take(r.arena.rows(fmt::format("expert out {}", routing.used), rows, r.arena.max_tokens() * routing.used)) : y;
  if (r.failed()) return;
  for (const Span& s : spans(*e.down, *e.down)) {
    if (s.a != s.b) continue;
    std::vector<dispatch::Operand> operands{h.buffer, s.a, out.buffer, routing.ids};
    std::string letters = "rrwr";
    if (!tiled) operands.push_back(routing.weights), letters += 'r';
    if (e.down_bias) operands.push_back(vector_operand(e.down_bias)), letters += 'r';
    const auto describe = [&] {
      std::string text = declare_x(whole) + R"(@group(0) @binding(1) var<storage, read> W0: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<storage, read> ids: array<u32>;
)";
      if (!tiled) text += "@group(0) @binding(4) var<storage, read> weights: array<f32>;\n";
      if (e.down_bias) text += fmt::format("@group(0) @binding({}) var<storage, read> bias: array<f32>;\n", tiled ? 4 : 5);
      const std::string bias = e.down_bias ? fmt::format(" + bias[ids[slot] * {}u + row]", bias_stride(e.down_bias)) : std::string();
      text += *decode + load_function(whole, k) + std::string(kDot);
      const std::string body = expand(kDownOne, {{"FINISH", expand(tiled ? kDownSlots : kDownSum, {{"BIAS", bias}, {"SET", add ? "+=" : "="}})}});
      text += expand(body, {{"WG", shape.workgroup}, {"TPR", shape.per_row}, {"GROUPS", shape.groups}, {"PARTS", shape.workgroup * routing.used},
                            {"FIRST", s.first}, {"COUNT", s.count}, {"AFIRST", s.a_first}, {"AROW4", row4(e.down)}, {"ROWS", rows},
                            {"KB", (k + 31) / 32}, {"USED", routing.used}, {"XS", h.stride}, {"YS", out.stride}, {"YO", out.offset}});
      return gpu::PipelineDesc{"moe_down", std::move(text), kinds(letters)};
    };
    const std::string key = fmt::format("moe_down1:{}:{}:{}/{}:{}:{}/{}:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(e.down->type), k, rows, s.first, s.count, s.a_first,
                                        routing.used, h.stride, out.stride, out.offset, add, bias_stride(e.down_bias), shape.per_row, tiled);
    r.step(key, describe, std::move(operands), {(rows + shape.groups - 1) / shape.groups}, {}, {}, chosen(routing, s));
  }
  if (tiled) combine(r, out, routing, rows, y, add);
}

// ---- many tokens ----------------------------------------------------------------------------------------------------

constexpr uint32_t kTileItems = 32, kTileRows = 64;

/// Grid: x = ⌈rows ÷ (64, or 32 of each of two weights)⌉, y = ⌈tokens ÷ 32⌉, z = matrices of the tile.
/// Bindings: x, W0, [W1], y, State, [order], [b0], [b1]. A workgroup takes 32 items of one matrix; 128 threads hold 4 × 4
/// results each. $RANGE$ says how many items the matrix has, $ITEM$ which one is number i.
constexpr std::string_view kTile = R"(
var<workgroup> sx: array<vec4<f32>, 288>;
var<workgroup> sw: array<vec4<f32>, 576>;
var<workgroup> item: array<u32, 32>;
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let e = $FIRST$ + wid.z;
  let m0 = wid.y * 32u;
  $RANGE$
  if (m0 >= count) { return; }
  if (t < 32u) { let i = min(m0 + t, count - 1u); item[t] = $ITEM$; }
  workgroupBarrier();
  let n0 = wid.x * $BN$;
  let tx = t % 16u;
  let ty = t / 16u;
  var c: array<array<f32, 4>, 4>;
  for (var kb = 0u; kb < $KB$; kb++) {
    for (var i = t; i < 64u; i += 128u) {
      $STAGE$
      for (var j = 0u; j < 8u; j++) { sw[i * 9u + j] = q[j]; }
    }
    for (var i = t; i < 256u; i += 128u) { sx[(i / 8u) * 9u + i % 8u] = load($XBASE$, kb * 8u + i % 8u); }
    workgroupBarrier();
    for (var j = 0u; j < 8u; j++) {
      let a0 = sx[ty * 9u + j];
      let a1 = sx[(ty + 8u) * 9u + j];
      let a2 = sx[(ty + 16u) * 9u + j];
      let a3 = sx[(ty + 24u) * 9u + j];
      for (var n = 0u; n < 4u; n++) {
        let b = sw[(tx + n * 16u) * 9u + j];
        c[0][n] += dot(a0, b);
        c[1][n] += dot(a1, b);
        c[2][n] += dot(a2, b);
        c[3][n] += dot(a3, b);
      }
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < 4u; i++) {
    if (m0 + ty + i * 8u >= count) { continue; }
    let it = item[ty + i * 8u];
    for (var n = 0u; n < $OUTS$; n++) {
      let row = n0 + tx + n * 16u;
      if (row < $ROWS$) { y[$YBASE$ + row] = $VALUE$; }
    }
  }
}
)";

/// What a batch product computes.
struct Batch {
  std::string label, range, item, x_base, y_base, value;   ///< WGSL; see kTile
  Rows x, y;
  weights::TensorRef a, b;      ///< b null: one weight
  uint32_t b_at = 0;            ///< first row of the second operand inside a matrix of `b`
  uint32_t rows = 0;            ///< results of an item
  gpu::BufferRef order;         ///< null: every matrix has all tokens
  const Routing* routing = nullptr;   ///< with order
  weights::TensorRef bias_a, bias_b;
  std::string helpers, key;
  bool aligned = true;          ///< the vectors in x start at multiples of four floats
};

std::string batch_source(const Batch& m, const Span& s, const std::string& decode, bool whole) {
  const bool two = m.b != nullptr, fused = two && m.b == m.a;
  const auto k = static_cast<uint32_t>(m.a->k);
  std::string text = std::string(kStateStruct) + declare_x(whole) + "@group(0) @binding(1) var<storage, read> W0: array<vec4<u32>>;\n";
  int next = 2;
  const auto bind = [&](const char* what) { text += fmt::format("@group(0) @binding({}) var<{};\n", next++, what); };
  if (two && !fused) bind("storage, read> W1: array<vec4<u32>>");
  bind("storage, read_write> y: array<f32>");
  bind("uniform> S: State");
  if (m.order) bind("storage, read> order: array<u32>");
  if (m.bias_a) bind("storage, read> ba: array<f32>");
  if (m.bias_b) bind("storage, read> bb: array<f32>");
  const std::string row_a = expand("((e - $F$) * $R$ + min(n0 + $I$, $ROWS$ - 1u)) * $ROW4$",
                                   {{"F", s.a_first}, {"R", matrix_rows(m.a)}, {"I", two ? "i % 32u" : "i"}, {"ROWS", m.rows}, {"ROW4", row4(m.a)}});
  std::string stage = "let q = dq0(" + row_a + ", kb);";
  if (two) {
    const std::string row_b = expand("((e - $F$) * $R$ + $AT$ + min(n0 + i % 32u, $ROWS$ - 1u)) * $ROW4$",
                                     {{"F", s.b_first}, {"R", matrix_rows(m.b)}, {"AT", m.b_at}, {"ROWS", m.rows}, {"ROW4", row4(m.b)}});
    stage = fmt::format("var q: array<vec4<f32>, 8>;\n      if (i < 32u) {{ q = dq0({}, kb); }} else {{ q = dq{}({}, kb); }}", row_a, fused ? 0 : 1, row_b);
  }
  text += decode + m.helpers + load_function(whole, k);
  const std::string body = expand(kTile, {{"RANGE", m.range}, {"ITEM", m.item}, {"STAGE", stage}, {"XBASE", m.x_base}, {"YBASE", m.y_base}, {"VALUE", m.value}});
  return text + expand(body, {{"FIRST", s.first}, {"BN", two ? kTileRows / 2 : kTileRows}, {"OUTS", two ? 2u : 4u}, {"KB", (k + 31) / 32},
                              {"ROWS", m.rows}, {"XS", m.x.stride}, {"XO", m.x.offset}, {"YS", m.y.stride}, {"YO", m.y.offset}});
}

void batch(Recorder& r, const Batch& m) {
  const bool two = m.b != nullptr, fused = two && m.b == m.a;
  const bool whole = m.a->k % 32 == 0 && m.x.offset % 4 == 0 && m.aligned;
  auto decode = decoders(m.a, m.b, fused);
  if (!decode) return r.fail_with(decode.error());
  for (const Span& s : spans(*m.a, two ? *m.b : *m.a)) {
    if (!two && s.a != s.b) continue;
    std::vector<dispatch::Operand> operands{m.x.buffer, s.a};
    std::string letters = "rr";
    if (two && !fused) operands.push_back(s.b), letters += 'r';
    operands.insert(operands.end(), {m.y.buffer, r.state}), letters += "wu";
    if (m.order) operands.push_back(m.order), letters += 'r';
    if (m.bias_a) operands.push_back(vector_operand(m.bias_a)), letters += 'r';
    if (m.bias_b) operands.push_back(vector_operand(m.bias_b)), letters += 'r';
    const std::string key = fmt::format("{}:{}:{}:{}:{}/{}:{}:{}:{}/{}:{}:{}:{}:{}/{}:{}:{}", m.label, static_cast<int>(m.a->type), two ? static_cast<int>(m.b->type) : -1,
                                        m.a->k, m.rows, s.first, s.count, s.a_first, s.b_first, m.x.stride, m.x.offset, m.y.stride, m.y.offset, m.key,
                                        matrix_rows(m.a), bias_stride(m.bias_a), bias_stride(m.bias_b));
    const uint32_t per = two ? kTileRows / 2 : kTileRows;
    r.step(key, [&] { return gpu::PipelineDesc{m.label, batch_source(m, s, *decode, whole), kinds(letters)}; }, std::move(operands),
           {(m.rows + per - 1) / per}, {1, dispatch::Var::Tokens, kTileItems}, {s.count}, m.routing ? chosen(*m.routing, s) : dispatch::Select{});
  }
}

/// All pairs of tokens and experts, expert by expert.
void experts_batch(Recorder& r, const Rows& x, const Routing& routing, const Experts& e, const Rows& h, const Rows& y, bool add) {
  const bool fused = !e.gate;
  Batch up;
  up.label = "moe_up", up.x = x, up.y = h;
  up.a = fused ? e.up : e.gate, up.b = e.up, up.b_at = fused ? e.ffn : 0, up.rows = e.ffn;
  up.order = routing.order, up.routing = &routing, up.bias_a = e.gate_bias, up.bias_b = e.up_bias;
  up.range = "let begin = order[e];\n  let count = order[e + 1u] - begin;";
  up.item = fmt::format("order[{}u + begin + i]", routing.experts + 1);
  up.x_base = fmt::format("(item[i / 8u] / {}u) * $XS$ + $XO$", routing.used);
  up.y_base = "it * $YS$ + $YO$";
  const auto bias = [&](const char* name, const weights::TensorRef& t) { return t ? fmt::format(" + {}[e * {}u + row]", name, bias_stride(t)) : std::string(); };
  up.value = gate_call(e, "(c[i][n]" + bias("ba", e.gate_bias) + ")", "(c[i][n + 2u]" + bias("bb", e.up_bias) + ")");
  up.helpers = gate_helpers(e);
  up.key = fmt::format("{}:{}:{}:{}", routing.experts, routing.used, static_cast<int>(e.activation), e.clamp);
  batch(r, up);

  const uint32_t n = matrix_rows(e.down);
  const Rows d = r.take(r.arena.rows(fmt::format("expert out {}", routing.used), n, r.arena.max_tokens() * routing.used));
  if (r.failed()) return;
  Batch down;
  down.label = "moe_down", down.x = h, down.y = d, down.a = e.down, down.rows = n;
  down.order = routing.order, down.routing = &routing, down.bias_a = e.down_bias;
  down.range = up.range, down.item = up.item, down.x_base = "item[i / 8u] * $XS$ + $XO$", down.y_base = "it * $YS$ + $YO$";
  down.value = "c[i][n]" + bias("ba", e.down_bias);
  down.key = fmt::format("{}", routing.experts);
  batch(r, down);

  combine(r, d, routing, n, y, add);
}

}  // namespace

void experts(Recorder& r, const Rows& x, const Routing& routing, const Experts& e, const Rows& y, bool add) {
  if (r.failed() || !whole_matrices(r, e.up) || (e.gate && !whole_matrices(r, e.gate)) || !whole_matrices(r, e.down)) return;
  const Rows h = r.take(r.arena.rows(fmt::format("expert hidden {}", routing.used), e.ffn, r.arena.max_tokens() * routing.used));
  if (r.failed()) return;
  if (!r.decode()) return experts_batch(r, x, routing, e, h, y, add);
  up_one(r, x, routing, e, h);
  down_one(r, h, routing, e, y, add);
}

void project_heads(Recorder& r, const Rows& x, uint32_t x_step, const weights::TensorRef& weight, const Rows& y, uint32_t y_step) {
  if (r.failed() || !whole_matrices(r, weight)) return;
  Batch m;
  m.label = "project_heads", m.x = x, m.y = y, m.a = weight, m.rows = matrix_rows(weight);
  m.range = "let count = S.n;", m.item = "i";
  m.x_base = fmt::format("item[i / 8u] * $XS$ + $XO$ + e * {}u", x_step);
  m.y_base = fmt::format("it * $YS$ + $YO$ + e * {}u", y_step);
  m.value = "c[i][n]";
  m.aligned = x_step % 4 == 0;
  m.key = fmt::format("{}:{}", x_step, y_step);
  batch(r, m);
}

}  // namespace gull::kernels
