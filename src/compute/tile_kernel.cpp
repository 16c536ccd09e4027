#include "compute/tile_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "dispatch/wgsl.h"

namespace gull::compute {
namespace {

using dispatch::expand;

/// One factor's tile: names and sizes.
struct Side {
  char name;              // 'a' or 'b'
  uint32_t outer, k, threads;
  TileLoad load;
  uint32_t per_load() const { return load.vec4 ? 4 : 1; }
  uint32_t loads() const { return (outer * k / per_load() + threads - 1) / threads; }
  bool whole() const { return outer * k / per_load() % threads == 0; }
};

/// The coordinates, within the tile, of the element (or vector) that is numbered by an expression.
std::string coordinates(const Side& side, const std::string& e) {
  const uint32_t along = (side.load.along_k ? side.k : side.outer) / side.per_load();
  const std::string fast = fmt::format("{} % {}u * {}u", e, along, side.per_load()), slow = fmt::format("{} / {}u", e, along);
  return fmt::format("let x = {}; let q = {};", side.load.along_k ? slow : fast, side.load.along_k ? fast : slow);
}

/// The number of the i-th element that an invocation loads.
std::string number(const Side& side, uint32_t i) { return fmt::format("(t + {}u)", i * side.threads); }

/// From memory to registers: r{a|b}0, r{a|b}1, …
std::string load_text(const Side& side, std::string_view k) {
  std::string out;
  for (uint32_t i = 0; i < side.loads(); ++i)
    out += fmt::format("    {{ {0} {1} r{2}{3} = fetch_{2}(z, {2}_first + x, {4} + q); {5} }}\n", coordinates(side, number(side, i)),
                       side.whole() ? "" : fmt::format("if (q < {}u && x < {}u) {{", side.k, side.outer), side.name, i, k, side.whole() ? "" : "}");
  return out;
}

/// One element (or vector) from a register to workgroup memory, which holds vectors of four outer neighbours: [k][outer / 4].
std::string put_text(const Side& side, const char* scalar, const std::string& value) {
  const uint32_t row = side.outer / 4;
  if (!side.load.vec4) return fmt::format("s{0}[q * {1}u + x / 4u][x % 4u] = {2}({3});", side.name, row, scalar, value);
  if (!side.load.along_k) return fmt::format("s{0}[q * {1}u + x / 4u] = vec4<{2}>({3});", side.name, row, scalar, value);
  std::string out;
  for (uint32_t c = 0; c < 4; ++c)
    out += fmt::format("s{0}[(q + {4}u) * {1}u + x / 4u][x % 4u] = {2}({3}.{5}); ", side.name, row, scalar, value, c, "xyzw"[c]);
  return out;
}

/// From all registers to workgroup memory.
std::string stage_text(const Side& side, const char* scalar) {
  std::string out;
  for (uint32_t i = 0; i < side.loads(); ++i) {
    const std::string guard = side.whole() ? "" : fmt::format("if (q < {}u && x < {}u) ", side.k, side.outer);
    out += fmt::format("    {{ {} {}{{ {} }} }}\n", coordinates(side, number(side, i)), guard, put_text(side, scalar, fmt::format("r{}{}", side.name, i)));
  }
  return out;
}

/// From memory to workgroup memory, in a loop.
std::string direct_text(const Side& side, const char* scalar) {
  return fmt::format("    for (var e = t; e < {}u; e += {}u) {{ {} let r = fetch_{}(z, {}_first + x, k + q); {} }}\n", side.outer * side.k / side.per_load(),
                     side.threads, coordinates(side, "e"), side.name, side.name, put_text(side, scalar, "r"));
}

std::string registers(const Side& side) {
  std::string out;
  for (uint32_t i = 0; i < side.loads(); ++i) out += fmt::format("  var r{}{}: {};\n", side.name, i, side.load.vec4 ? "vec4<f32>" : "f32");
  return out;
}

/// One step along k: fragments of both tiles, and all products.
std::string multiply_text(const TileShape& s) {
  std::string out;
  const uint32_t rows = s.m / s.thread_m, cols = s.n / s.thread_n;
  for (uint32_t i = 0; i < s.thread_m / 4; ++i)
    out += fmt::format("      let a{0} = vec4<f32>(sa[q * {1}u + {2}u + ty]);\n", i, s.m / 4, i * rows);
  for (uint32_t j = 0; j < s.thread_n / 4; ++j)
    out += fmt::format("      let b{0} = vec4<f32>(sb[q * {1}u + {2}u + tx]);\n", j, s.n / 4, j * cols);
  for (uint32_t i = 0; i < s.thread_m; ++i)
    for (uint32_t j = 0; j < s.thread_n / 4; ++j)
      out += fmt::format("      c{0}_{1} = fma(vec4<f32>(a{2}.{3}), b{1}, c{0}_{1});\n", i, j, i / 4, "xyzw"[i % 4]);
  return out;
}

std::string accumulators(const TileShape& s) {
  std::string out;
  for (uint32_t i = 0; i < s.thread_m; ++i)
    for (uint32_t j = 0; j < s.thread_n / 4; ++j) out += fmt::format("  var c{}_{}: vec4<f32>;\n", i, j);
  return out;
}

std::string store_text(const TileShape& s) {
  std::string out;
  const uint32_t rows = s.m / s.thread_m, cols = s.n / s.thread_n;
  for (uint32_t i = 0; i < s.thread_m; ++i)
    for (uint32_t j = 0; j < s.thread_n / 4; ++j)
      out += fmt::format("  store(z, a_first + ({}u + ty) * 4u + {}u, b_first + ({}u + tx) * 4u, c{}_{});\n", i / 4 * rows, i % 4, j * cols, i, j);
  return out;
}

constexpr std::string_view kMain = R"(
var<workgroup> sa: array<vec4<$S$>, $SA$>;
var<workgroup> sb: array<vec4<$S$>, $SB$>;

@compute @workgroup_size($THREADS$)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  let z = id / (p.tiles_m * p.tiles_n);
  // Eight rows of tiles are walked together, so that neighbours in time share both factors in the cache.
  let tile = id % (p.tiles_m * p.tiles_n);
  let band = tile / (8u * p.tiles_n);
  let band_rows = min(8u, p.tiles_m - band * 8u);
  let in_band = tile - band * 8u * p.tiles_n;
  let a_first = (band * 8u + in_band % band_rows) * $BM$;
  let b_first = in_band / band_rows * $BN$;
  let tx = t % $COLS$;
  let ty = t / $COLS$;
$ACCUMULATORS$$FIRST$
  for (var k = 0u; k < p.k; k += $BK$) {
$STAGE$
    workgroupBarrier();
$NEXT$
    for (var q = 0u; q < $BK$; q++) {
$MULTIPLY$
    }
    workgroupBarrier();
  }
$STORE$
}
)";

// Sizes for WebGPU's default limits: 256 invocations and 16 KiB of workgroup memory.
constexpr std::array<TileShape, 7> kShapes{{
    {128, 128, 16, 8, 8},
    {128, 64, 16, 8, 8},
    {64, 64, 16, 4, 8},
    {32, 32, 16, 4, 4},
    {16, 64, 16, 4, 4},
    {64, 16, 16, 4, 4},
    {8, 128, 16, 4, 4},
}};
static_assert(std::ranges::all_of(kShapes, [](const TileShape& s) { return s.threads() <= 256 && s.bytes() <= 16384; }));

}  // namespace

std::string tile_kernel(const TileSpec& spec) {
  const TileShape& s = spec.shape;
  const Side a{'a', s.m, s.k, s.threads(), spec.a}, b{'b', s.n, s.k, s.threads(), spec.b};
  const char* scalar = spec.half ? "f16" : "f32";
  std::string first, stage = direct_text(a, scalar) + direct_text(b, scalar), next;
  if (spec.prefetch) {
    first = registers(a) + registers(b) + load_text(a, "0u") + load_text(b, "0u");
    stage = stage_text(a, scalar) + stage_text(b, scalar);
    const std::string k = fmt::format("k + {}u", s.k);
    next = fmt::format("    if ({} < p.k) {{\n{}{}    }}", k, load_text(a, k), load_text(b, k));
  }
  return expand(kMain, {{"S", scalar}, {"SA", s.m * s.k / 4}, {"SB", s.n * s.k / 4}, {"THREADS", s.threads()}, {"BM", s.m}, {"BN", s.n},
                        {"BK", s.k}, {"COLS", s.n / s.thread_n}, {"ACCUMULATORS", accumulators(s)}, {"FIRST", first}, {"STAGE", stage},
                        {"NEXT", next}, {"MULTIPLY", multiply_text(s)}, {"STORE", store_text(s)}});
}

TileGrid tile_grid(const TileShape& shape, uint32_t m, uint32_t n, uint64_t z) {
  const uint32_t tiles_m = (m - 1) / shape.m + 1, tiles_n = (n - 1) / shape.n + 1;
  return {tiles_m, tiles_n, uint64_t{tiles_m} * tiles_n * z};
}

std::span<const TileShape> tile_shapes() { return kShapes; }

uint32_t choose_tile(const gpu::Caps& caps, uint32_t m, uint32_t n, uint64_t z) {
  // The largest tile that still gives enough workgroups to fill the device, and that is not mostly padding.
  const uint64_t enough = caps.software ? 1 : 128;
  uint32_t best = 0;
  double best_cost = 1e300;
  for (uint32_t i = 0; i < kShapes.size(); ++i) {
    const TileShape& s = kShapes[i];
    const TileGrid grid = tile_grid(s, m, n, z);
    // Reads of workgroup memory per multiply-add stand for the cost of one; idle parts of the device for the rest.
    const double each = double(s.m) * s.n * (1.0 + 2.0 * (1.0 / s.thread_m + 1.0 / s.thread_n));
    const double waves = std::max<double>(double(grid.groups), double(enough));
    const double cost = waves * each;
    if (cost < best_cost) best_cost = cost, best = i;
  }
  return best;
}

}  // namespace gull::compute
