#include "kernels/matmul8.h"

#include <algorithm>

#include "kernels/dot8/dot8.h"
#include "kernels/tuning.h"
#include "kernels/matvec.h"
#include "kernels/quantise8.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// A tile of `m` tokens × `n` rows a workgroup of 16 × 16 threads, each tm × tn results; k in units of 64.
struct Shape { uint32_t m, n, buffers = 1; };

/// Grid: x = ⌈tokens ÷ BM⌉ (neighbours read the same weights), y = Σ ⌈rows ÷ BN⌉ over the projections. Bindings: X8, a W each, the y's, State, biases.
/// Projections of one input share a dispatch, since a few of them alone would leave most of the GPU idle; each workgroup
/// works on one. A unit of both operands is staged as bytes, and the next one is on its way from memory while this one is
/// multiplied; four multiplications an instruction, sums as integers over a block of 32, then scaled into f32. Neighbouring
/// threads read neighbouring vec4 of the staged rows.
constexpr std::string_view kShared = R"(
var<workgroup> xq: array<vec4<u32>, $B$ * $BM4$>;
var<workgroup> xs: array<vec4<f32>, $B$ * $BM2$>;
var<workgroup> wq: array<vec4<u32>, $B$ * $BN4$>;
var<workgroup> ws: array<vec4<f32>, $B$ * $BN$>;
)";

constexpr std::string_view kProduct = R"(
fn product$S$(n0: u32, m0: u32, t: u32) {
  let tx = t % 16u;
  let ty = t / 16u;
$INIT$
$FETCH0$
  for (var u = 0u; u < $UNITS$; u++) {
$BUFFER$
$STAGE$
    workgroupBarrier();
    if (u + 1u < $UNITS$) {
      let next = u + 1u;
$FETCH$
    }
$INNER$
$FREE$
  }
$STORE$
}
)";

/// The products of one block of 32: `h` is which of the unit's two.
std::string inner_text(uint32_t tm, uint32_t tn, gguf::Type type, uint32_t h) {
  std::string text = "    {\n";
  const auto staged = [&](const char* array, const char* b, uint32_t block, const char* thread, uint32_t i) {
    return fmt::format("{}[{}u * {} + {} + {}u + {}]", array, block, b, thread, i * 16, array[0] == 'x' ? (array[1] == 'q' ? "xb" : "xsb") : (array[1] == 'q' ? "wb" : "wsb"));
  };
  for (uint32_t i = 0; i < tm; ++i)
    text += fmt::format("      let a{0} = {1}; let b{0} = {2}; let s{0} = {3};\n", i, staged("xq", "$BM$", 2 * h, "ty", i), staged("xq", "$BM$", 2 * h + 1, "ty", i),
                        staged("xs", "$BM$", h, "ty", i));
  for (uint32_t j = 0; j < tn; ++j) {
    text += fmt::format("      {{ let p = {}; let q = {}; let w = {};\n", staged("wq", "$BN$", 2 * h, "tx", j), staged("wq", "$BN$", 2 * h + 1, "tx", j),
                        staged("ws", "$BN$", 0, "tx", j));
    for (uint32_t i = 0; i < tm; ++i)
      text += fmt::format("        c{}_{} += {};\n", i, j, product8(type, static_cast<int>(h), "$S$", "p", "q", "w", fmt::format("a{}", i), fmt::format("b{}", i), fmt::format("s{}", i)));
    text += "      }\n";
  }
  return text + "    }\n";
}

/// Loads of unit `unit` into registers (rows of W first, then blocks of X8), and their way into workgroup memory.
struct Staging { std::string declare, fetch, stage; };
Staging staging_text(Shape s) {
  Staging out;
  const auto guard = [](uint32_t first, uint32_t total) { return first + 256 <= total ? std::string() : fmt::format("if (t + {}u < {}u) ", first, total); };
  for (uint32_t i = 0; i * 256 < s.n; ++i) {
    out.declare += fmt::format("  var w{}: R8;\n", i);
    out.fetch += fmt::format("      {0}{{ w{1} = l8$S$(min(n0 + t + {2}u, $LAST$) * $ROW4$, next); }}\n", guard(i * 256, s.n), i, i * 256);
    out.stage += fmt::format("    {0}{{ let w = u8$S$(w{1}, u); let i = t + {2}u; wq[wb + i] = w.q0; wq[wb + $BN$ + i] = w.q1; wq[wb + 2u * $BN$ + i] = w.q2; wq[wb + 3u * $BN$ + i] = w.q3; ws[wsb + i] = w.s; }}\n",
                             guard(i * 256, s.n), i, i * 256);
  }
  for (uint32_t i = 0; i * 256 < 2 * s.m; ++i) {
    out.declare += fmt::format("  var x{0}: vec4<u32>; var y{0}: vec4<u32>; var z{0}: vec4<u32>;\n", i);
    out.fetch += fmt::format("      {0}{{ let i = t + {1}u; let ab = qa$S$(next); let b = select(ab.x, ab.y, i >= $BM$); let m = min(m0 + i % $BM$, S.n - 1u); let at = $PLACE$;\n"
                             "        x{2} = X8[at]; y{2} = X8[at + $STEP$]; z{2} = X8[at + 2u * $STEP$]; }}\n", guard(i * 256, 2 * s.m), i * 256, i);
    out.stage += fmt::format("    {0}{{ let i = t + {1}u; let at = xb + 2u * (i / $BM$) * $BM$ + i % $BM$; xq[at] = x{2}; xq[at + $BM$] = y{2}; let s = bitcast<vec4<f32>>(z{2}); xs[xsb + i] = vec4<f32>(s.x, s.y, s.z, s.y + s.z); }}\n",
                             guard(i * 256, 2 * s.m), i * 256, i);
  }
  return out;
}

/// One projection of a dispatch: the rows of one tile.
struct Segment {
  const Projection* p;
  weights::TileRef tile;
  size_t y = 0;                ///< which of the bound results it goes to
};

struct Product {
  std::vector<Segment> segments;
  std::vector<gpu::BufferRef> ys;
  Shape shape;
  bool add = false;
  Place8 place;                ///< of the blocks in X8

  uint32_t workgroups(const Segment& s) const { return static_cast<uint32_t>((s.tile->rows + shape.n - 1) / shape.n); }
  std::string key() const;
  std::string label() const;
  Result<std::string> source() const;
  std::string bindings() const;

 private:
  std::string segment_text(size_t i) const;
};

std::string Product::key() const {
  std::string key = fmt::format("matmul8:{}:{}:{}:{}:{}", shape.m, shape.n, shape.buffers, add, place.tokens);
  for (const Segment& s : segments)
    key += fmt::format("/{}:{}:{}/{}:{}:{}:{}", static_cast<int>(s.p->weight->type), s.p->weight->k, s.tile->rows, s.y, s.p->y.stride,
                       s.p->y.offset + s.tile->first_row, s.p->bias ? s.tile->first_row + 1 : 0);
  return key;
}

std::string Product::label() const {
  uint64_t rows = 0;
  for (const Segment& s : segments) rows += s.tile->rows;
  return fmt::format("matmul8 {} {} -> {}", gguf::type_traits(segments[0].p->weight->type)->name, segments[0].p->weight->k, rows);
}

std::string Product::bindings() const {
  std::string text;
  int next = 0;
  const auto bind = [&](const char* access, const std::string& name, const char* type) {
    text += fmt::format("@group(0) @binding({}) var<{}> {}: {};\n", next++, access, name, type);
  };
  bind("storage, read", "X8", "array<vec4<u32>>");
  for (size_t i = 0; i < segments.size(); ++i) bind("storage, read", fmt::format("W{}", i), "array<vec4<u32>>");
  for (size_t i = 0; i < ys.size(); ++i) bind("storage, read_write", fmt::format("out{}", i), "array<f32>");
  bind("uniform", "S", "State");
  for (size_t i = 0; i < segments.size(); ++i)
    if (segments[i].p->bias) bind("storage, read", fmt::format("bias{}", i), "array<f32>");
  return text;
}

std::string Product::segment_text(size_t index) const {
  const Segment& s = segments[index];
  const uint32_t tm = shape.m / 16, tn = shape.n / 16;
  const Staging staging = staging_text(shape);
  std::string init = staging.declare, store;
  for (uint32_t i = 0; i < tm; ++i)
    for (uint32_t j = 0; j < tn; ++j) init += fmt::format("  var c{}_{} = 0.0;\n", i, j);
  for (uint32_t i = 0; i < tm; ++i) {
    store += fmt::format("  {{ let m = m0 + ty + {}u; if (m < S.n) {{\n", i * 16);
    for (uint32_t j = 0; j < tn; ++j)
      store += fmt::format("    {{ let n = n0 + tx + {}u; if (n <= {}u) {{ out{}[m * {}u + {}u + n] {} c{}_{}{}; }} }}\n", j * 16, s.tile->rows - 1, s.y,
                           s.p->y.stride, s.p->y.offset + s.tile->first_row, add ? "+=" : "=", i, j,
                           s.p->bias ? fmt::format(" + bias{}[{}u + n]", index, s.tile->first_row) : "");
    store += "  } }\n";
  }
  const auto k = static_cast<uint32_t>(s.p->weight->k);
  const gguf::Type type = s.p->weight->type;
  const std::string body = expand(kProduct, {{"INIT", init}, {"FETCH", staging.fetch}, {"FETCH0", "  { let next = 0u;\n" + staging.fetch + "  }\n"},
                                             {"STAGE", staging.stage},
                                             {"BUFFER", shape.buffers == 2 ? "    let xb = (u & 1u) * $BM4$; let xsb = (u & 1u) * $BM2$; let wb = (u & 1u) * $BN4$; let wsb = (u & 1u) * $BN$;" : "    let xb = 0u; let xsb = 0u; let wb = 0u; let wsb = 0u;"},
                                             {"FREE", shape.buffers == 2 ? "" : "    workgroupBarrier();"}, {"STORE", store}, {"INNER", inner_text(tm, tn, type, 0) + inner_text(tm, tn, type, 1)}});
  return expand(body, {{"S", std::to_string(index)}, {"BM", shape.m}, {"BM2", shape.m * 2}, {"BM4", shape.m * 4}, {"BN", shape.n}, {"BN4", shape.n * 4},
                       {"UNITS", k / 64}, {"PLACE", place.at("b", "m")}, {"STEP", place.step()}, {"LAST", s.tile->rows - 1}, {"ROW4", s.p->weight->layout.row_bytes / 16}});
}

Result<std::string> Product::source() const {
  std::string text = std::string(kStateStruct) + bindings() + std::string(unit8_structs()) +
                     expand(kShared, {{"B", shape.buffers}, {"BM2", shape.m * 2}, {"BM4", shape.m * 4}, {"BN", shape.n}, {"BN4", shape.n * 4}});
  std::string choose;
  uint32_t first = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    auto unpack = unpack8(segments[i].p->weight->layout, std::to_string(i));
    if (!unpack) return fail(unpack.error());
    text += *unpack + segment_text(i);
    const std::string call = fmt::format("product{}((wid.y - {}u) * {}u, wid.x * {}u, t);", i, first, shape.n, shape.m);
    first += workgroups(segments[i]);
    choose += i + 1 < segments.size() ? fmt::format("  if (wid.y < {}u) {{ {} return; }}\n", first, call) : "  " + call + "\n";
  }
  return text + "@compute @workgroup_size(256)\nfn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {\n" + choose + "}\n";
}

Shape shape_for(const Recorder& r) {
  const gpu::Caps& caps = r.caps();
  const Tuning::Tile& tuned = r.choices.tuning.matmul8;
  if (tuned.tokens && r.max_tokens > kSmallBatch) return {tuned.tokens, tuned.rows, tuned.buffers};
  if (caps.max_workgroup_memory < 32768 || caps.software) return {32, 64};
  if (r.max_tokens <= kSmallBatch) return {32, 64};
  return {64, 64, 2};   // measured on an H200: as fast as 64 × 128, and less idle at the end of small products
}

}  // namespace

uint32_t matmul8_memory(const Tuning::Tile& tile) { return (tile.tokens * 96 + tile.rows * 80) * tile.buffers; }

bool matmul8_fits(const Recorder& r, const Rows& x, const Projection& p) {
  if (!r.choices.packed_dot || r.decode() || r.caps().max_invocations < 256 || r.caps().max_workgroup_x < 256) return false;
  if (!has_dot8(p.weight->type) || p.weight->k % 64 || p.weight->k != x.width || x.offset % 4 || x.stride % 4) return false;
  const Shape s = shape_for(r);
  return matmul8_memory({s.m, s.n, s.buffers}) <= r.caps().max_workgroup_memory;
}

void matmul8(Recorder& r, const Rows& x, std::span<const Projection> outputs, bool add) {
  if (r.failed()) return;
  Product product;
  uint64_t biases = 0;
  for (const Projection& p : outputs) {
    const auto y = std::find(product.ys.begin(), product.ys.end(), p.y.buffer);
    product.segments.push_back({&p, only_tile(p), static_cast<size_t>(y - product.ys.begin())});
    if (y == product.ys.end()) product.ys.push_back(p.y.buffer);
    biases += p.bias ? 1 : 0;
  }
  if (outputs.size() > 1 && 1 + outputs.size() + product.ys.size() + biases > r.caps().max_storage_buffers) {
    for (const Projection& p : outputs) matmul8(r, x, {&p, 1}, add);
    return;
  }
  product.shape = shape_for(r);
  product.add = add;
  product.place = place8(r, x.width);
  auto x8 = quantised(r, x);
  auto text = product.source();
  if (!text) return r.fail_with(text.error());
  std::vector<dispatch::Operand> operands{x8};
  std::string letters = "r";
  uint32_t workgroups = 0;
  for (const Segment& s : product.segments) operands.push_back(s.tile), letters += 'r', workgroups += product.workgroups(s);
  for (const auto& y : product.ys) operands.push_back(y), letters += 'w';
  operands.push_back(r.state), letters += 'u';
  for (const Segment& s : product.segments)
    if (s.p->bias) operands.push_back(vector_operand(s.p->bias)), letters += 'r';
  r.step(product.key(), [&] { return gpu::PipelineDesc{product.label(), *text, kinds(letters)}; }, std::move(operands), {1, dispatch::Var::Tokens, product.shape.m},
         {workgroups});
}

}  // namespace gull::kernels
