#include "kernels/matmul8.h"

#include <algorithm>

#include "kernels/dot8/dot8.h"
#include "kernels/tuning.h"
#include "kernels/matvec.h"
#include "kernels/quantise8.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// A tile of `m` tokens × `n` rows a workgroup of 16 × 16 threads, each tm × tn results; `units` of 64 along k at a time.
struct Shape { uint32_t m, n, units; };

/// Where workgroup memory holds what; token or row fastest, so that neighbouring threads read neighbouring vec4. Of a block of 32
/// activations two vec4 and the scales, of a unit of weights four vec4 and the scales of its two blocks. Threads that stage
/// neighbouring units of a row write to banks that differ, thanks to a few rows of padding.
struct Room {
  bool wide = false;         ///< scales are vec4, else vec2

  static uint32_t padding(uint32_t units) { return units == 1 ? 0 : 8 / units; }
  uint32_t wq_unit(const Shape& s) const { return 4 * s.n + padding(s.units); }
  uint32_t ws_unit(const Shape& s) const { return 2 * s.n + padding(s.units); }
  uint32_t xq(const Shape& s) const { return 4 * s.m * s.units; }
  uint32_t xs(const Shape& s) const { return 2 * s.m * s.units; }
  uint32_t wq(const Shape& s) const { return wq_unit(s) * s.units; }
  uint32_t ws(const Shape& s) const { return ws_unit(s) * s.units; }
  uint32_t bytes(const Shape& s) const { return 16 * (xq(s) + wq(s)) + (wide ? 16 : 8) * (xs(s) + ws(s)); }
  std::string scales() const { return wide ? "vec4<f32>" : "vec2<f32>"; }
};

/// Grid: x = ⌈tokens ÷ BM⌉ (neighbours read the same weights), y = Σ ⌈rows ÷ BN⌉ over the projections. Bindings: X8, a W each, the y's, State, biases.
/// Projections of one input share a dispatch, since a few of them alone would leave most of the GPU idle; each workgroup
/// works on one. A few units of both operands are staged as bytes, and the next ones are on their way from memory while these are
/// multiplied; four multiplications an instruction, sums as integers over a block of 32, then scaled into f32. A subgroup's threads
/// are 8 rows × 4 tokens, so that each of its reads of workgroup memory is at most 128 bytes.
constexpr std::string_view kShared = R"(
var<workgroup> xq: array<vec4<u32>, $XQ$>;
var<workgroup> xs: array<$SCALES$, $XS$>;
var<workgroup> wq: array<vec4<u32>, $WQ$>;
var<workgroup> ws: array<$SCALES$, $WS$>;
)";

constexpr std::string_view kProduct = R"(
fn product$S$(n0: u32, m0: u32, t: u32) {
  let tx = (t & 7u) | ((t >> 2u) & 8u);
  let ty = ((t >> 3u) & 3u) | ((t >> 6u) << 2u);
$INIT$
$FETCH0$
  for (var u = 0u; u < $UNITS$; u += $STEP$) {
$STAGE$
    workgroupBarrier();
    if (u + $STEP$ < $UNITS$) {
      let next = u + $STEP$;
$FETCH$
    }
    for (var v = 0u; v < $MANY$; v++) {
$INNER$
    }
    workgroupBarrier();
  }
$STORE$
}
)";

/// The products of one block of 32: `h` is which of unit v's two.
std::string inner_text(const Shape& s, const Room& room, gguf::Type type, uint32_t h) {
  const uint32_t tm = s.m / 16, tn = s.n / 16;
  std::string text = "      {\n";
  for (uint32_t i = 0; i < tm; ++i)
    text += expand("        let a$I$ = xq[v * $XQ$ + ty + $A$]; let b$I$ = xq[v * $XQ$ + ty + $B$]; let s$I$ = xs[v * $XS$ + ty + $C$];\n",
                   {{"I", std::to_string(i)}, {"XQ", 4 * s.m}, {"XS", 2 * s.m}, {"A", 2 * h * s.m + i * 16}, {"B", (2 * h + 1) * s.m + i * 16}, {"C", h * s.m + i * 16}});
  for (uint32_t j = 0; j < tn; ++j) {
    text += expand("        { let p = wq[v * $WQ$ + tx + $P$]; let q = wq[v * $WQ$ + tx + $Q$]; let w = ws[v * $WS$ + tx + $W$];\n",
                   {{"WQ", room.wq_unit(s)}, {"WS", room.ws_unit(s)}, {"P", 2 * h * s.n + j * 16}, {"Q", (2 * h + 1) * s.n + j * 16}, {"W", h * s.n + j * 16}});
    for (uint32_t i = 0; i < tm; ++i) {
      const std::string c = fmt::format("c{}_{}", i, j);
      text += fmt::format("          {} = {};\n", c, product8(type, "$S$", "p", "q", "w", fmt::format("a{}", i), fmt::format("b{}", i), fmt::format("s{}", i), c));
    }
    text += "        }\n";
  }
  return text + "      }\n";
}

/// Loads of some units from `next` on into registers, and their way into workgroup memory.
struct Staging { std::string declare, fetch, stage; };

/// A thread's unit of a row of W. Neighbouring threads take the units of one row, which are neighbours in memory.
constexpr std::string_view kFetchW = "      $IF${ w$I$ = l8$S$(min(n0 + (t + $FIRST$) / $STEP$, $LAST$) * $ROW4$, $UNIT$); }\n";
constexpr std::string_view kStageW = R"(    $IF${ let v = (t + $FIRST$) % $STEP$; let row = (t + $FIRST$) / $STEP$; let w = t8$S$(w$I$, u + v);
      let at = v * $WQ$ + row; wq[at] = w.q0; wq[at + $BN$] = w.q1; wq[at + 2u * $BN$] = w.q2; wq[at + 3u * $BN$] = w.q3;
      let sat = v * $WS$ + row; ws[sat] = $SCALES0$; ws[sat + $BN$] = $SCALES1$; }
)";
/// A thread's block of a token.
constexpr std::string_view kFetchX = R"(      $IF${ let i = t + $FIRST$; let j = i / $BM$; let ab = qa$S$($UNIT$); let b = select(ab.x, ab.y, (j & 1u) != 0u);
        let m = min(m0 + i % $BM$, S.n - 1u); let at = $PLACE$; x$I$ = X8[at]; y$I$ = X8[at + $PLANE$]; z$I$ = X8[at + 2u * $PLANE$]; }
)";
constexpr std::string_view kStageX = R"(    $IF${ let i = t + $FIRST$; let at = 2u * (i / $BM$) * $BM$ + i % $BM$; xq[at] = x$I$; xq[at + $BM$] = y$I$;
      let s = bitcast<vec4<f32>>(z$I$); xs[i] = $SCALES$; }
)";

/// `units` are those of a row. Where they are no multiple of what is staged at a time, the last is read more than once, and not used.
Staging staging_text(const Shape& s, const Room& room, gguf::Type type, uint32_t units) {
  Staging out;
  const auto guard = [](uint32_t first, uint32_t total) { return first + 256 <= total ? std::string() : fmt::format("if (t + {}u < {}u) ", first, total); };
  const auto unit = [&](std::string_view of) { return units % s.units ? fmt::format("min(next + {}, {}u)", of, units - 1) : fmt::format("next + {}", of); };
  const std::string part = room.wide ? "" : ".xy";
  for (uint32_t first = 0, i = 0; first < s.n * s.units; first += 256, ++i) {
    const std::string own = guard(first, s.n * s.units), number = std::to_string(i);
    out.declare += fmt::format("  var w{}: R8;\n", i);
    out.fetch += expand(kFetchW, {{"IF", own}, {"I", number}, {"UNIT", unit(fmt::format("(t + {}u) % $STEP$", first))}, {"FIRST", first}});
    out.stage += expand(kStageW, {{"IF", own}, {"I", number}, {"FIRST", first}, {"WQ", room.wq_unit(s)}, {"WS", room.ws_unit(s)},
                                  {"SCALES0", scales8(type, 0, "w.s") + part}, {"SCALES1", scales8(type, 1, "w.s") + part}});
  }
  const char* scales = has_minima8(type) ? "vec4<f32>(s.xyz, 0.0)" : room.wide ? "vec4<f32>(s.x, s.y + s.z, 0.0, 0.0)" : "vec2<f32>(s.x, s.y + s.z)";
  for (uint32_t first = 0, i = 0; first < 2 * s.m * s.units; first += 256, ++i) {
    const std::string own = guard(first, 2 * s.m * s.units), number = std::to_string(i);
    out.declare += fmt::format("  var x{0}: vec4<u32>; var y{0}: vec4<u32>; var z{0}: vec4<u32>;\n", i);
    out.fetch += expand(kFetchX, {{"IF", own}, {"I", number}, {"FIRST", first}, {"UNIT", unit("j / 2u")}});
    out.stage += expand(kStageX, {{"IF", own}, {"I", number}, {"FIRST", first}, {"SCALES", scales}});
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
  /// Whether the scales in workgroup memory are vec4.
  bool wide() const;
  std::string key() const;
  std::string label() const;
  Result<std::string> source() const;
  std::string bindings() const;

 private:
  std::string segment_text(size_t i) const;
};

std::string Product::key() const {
  std::string key = fmt::format("matmul8:{}:{}:{}:{}:{}", shape.m, shape.n, shape.units, add, place.tokens);
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

bool Product::wide() const {
  return std::any_of(segments.begin(), segments.end(), [](const Segment& s) { return has_minima8(s.p->weight->type); });
}

std::string Product::segment_text(size_t index) const {
  const Segment& s = segments[index];
  const uint32_t tm = shape.m / 16, tn = shape.n / 16;
  const gguf::Type type = s.p->weight->type;
  const auto units = static_cast<uint32_t>(s.p->weight->k / 64);
  const Room room{wide()};
  const Staging staging = staging_text(shape, room, type, units);
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
  const std::string body = expand(kProduct, {{"INIT", init}, {"FETCH", staging.fetch}, {"FETCH0", "  { let next = 0u;\n" + staging.fetch + "  }\n"},
                                             {"STAGE", staging.stage},
                                             {"MANY", units % shape.units ? fmt::format("min({}u, {}u - u)", shape.units, units) : fmt::format("{}u", shape.units)},
                                             {"STORE", store},
                                             {"INNER", inner_text(shape, room, type, 0) + inner_text(shape, room, type, 1)}});
  return expand(body, {{"S", std::to_string(index)}, {"BM", shape.m}, {"BN", shape.n}, {"UNITS", units}, {"STEP", shape.units}, {"PLACE", place.at("b", "m")},
                       {"PLANE", place.step()}, {"LAST", s.tile->rows - 1}, {"ROW4", s.p->weight->layout.row_bytes / 16}});
}

Result<std::string> Product::source() const {
  const Room room{wide()};
  std::string text = std::string(kStateStruct) + bindings() + std::string(unit8_structs()) +
                     expand(kShared, {{"XQ", room.xq(shape)}, {"XS", room.xs(shape)}, {"WQ", room.wq(shape)},
                                      {"WS", room.ws(shape)}, {"SCALES", room.scales()}});
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

bool fits(const Recorder& r, const Shape& s, bool wide) { return Room{wide}.bytes(s) <= r.caps().max_workgroup_memory; }

Shape shape_for(const Recorder& r, bool wide) {
  const gpu::Caps& caps = r.caps();
  const Tuning::Tile& tuned = r.choices.tuning.matmul8;
  if (r.max_tokens > kSmallBatch) {
    if (const Shape s{tuned.tokens, tuned.rows, tuned.units}; s.m && fits(r, s, wide)) return s;
    if (const Shape s{64, 64, 2}; !caps.software && fits(r, s, wide)) return s;
  }
  return {32, 64, 1};
}

}  // namespace

uint32_t matmul8_memory(const Tuning::Tile& tile) { return Room{}.bytes({tile.tokens, tile.rows, tile.units}); }

bool matmul8_fits(const Recorder& r, const Rows& x, const Projection& p) {
  if (!r.choices.packed_dot || r.decode() || r.caps().max_invocations < 256 || r.caps().max_workgroup_x < 256) return false;
  if (!has_dot8(p.weight->type) || p.weight->k % 64 || p.weight->k != x.width || x.offset % 4 || x.stride % 4) return false;
  const bool wide = has_minima8(p.weight->type);
  return fits(r, shape_for(r, wide), wide);
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
  product.shape = shape_for(r, product.wide());
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
