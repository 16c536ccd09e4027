// gemm, batched gemm, gemm on float16 and mixed: C = alpha · op(A) · op(B) + beta · C.
#include <algorithm>

#include "compute/impl.h"
#include "compute/shapes.h"
#include "compute/tile_kernel.h"
#include "dispatch/wgsl.h"

namespace gull {
namespace {

using namespace compute;

struct GemmParams {
  uint32_t m, n, k, tiles_m;
  uint32_t tiles_n, groups, lda, ldb;
  uint32_t ldc, a_offset, b_offset, c_offset;
  uint32_t a_stride, b_stride, c_stride, pad0;
  float alpha, beta, pad1, pad2;
};

constexpr std::string_view kParams = R"(
struct Params {
  m: u32, n: u32, k: u32, tiles_m: u32,
  tiles_n: u32, groups: u32, lda: u32, ldb: u32,
  ldc: u32, a_offset: u32, b_offset: u32, c_offset: u32,
  a_stride: u32, b_stride: u32, c_stride: u32, pad0: u32,
  alpha: f32, beta: f32, pad1: f32, pad2: f32,
};
)";

/// Fetches of factor X ('a' or 'b'). Coordinates beyond the matrix are moved onto its last element, so that every read
/// is inside it; what lies beyond k becomes zero, since it would be summed; what lies beyond m or n is never stored.
std::string fetch_text(char name, std::string_view outer_size, const TileLoad& load) {
  const auto text = load.vec4 && load.along_k ? R"(
fn fetch_$X$(z: u32, outer: u32, k: u32) -> vec4<f32> {
  let v = $X$_at4((p.$X$_offset + z * p.$X$_stride + min(outer, p.$OUTER$ - 1u) * p.ld$X$ + min(k, (p.k - 1u) & ~3u)) / 4u);
  return select(vec4<f32>(), v, vec4<u32>(k, k + 1u, k + 2u, k + 3u) < vec4<u32>(p.k));
}
)"
                    : load.vec4 ? R"(
fn fetch_$X$(z: u32, outer: u32, k: u32) -> vec4<f32> {
  let v = $X$_at4((p.$X$_offset + z * p.$X$_stride + min(k, p.k - 1u) * p.ld$X$ + min(outer, (p.$OUTER$ - 1u) & ~3u)) / 4u);
  return select(vec4<f32>(), v, k < p.k);
}
)"
                    : load.along_k ? R"(
fn fetch_$X$(z: u32, outer: u32, k: u32) -> f32 {
  let v = $X$_at(p.$X$_offset + z * p.$X$_stride + min(outer, p.$OUTER$ - 1u) * p.ld$X$ + min(k, p.k - 1u));
  return select(0.0, v, k < p.k);
}
)"
                                   : R"(
fn fetch_$X$(z: u32, outer: u32, k: u32) -> f32 {
  let v = $X$_at(p.$X$_offset + z * p.$X$_stride + min(k, p.k - 1u) * p.ld$X$ + min(outer, p.$OUTER$ - 1u));
  return select(0.0, v, k < p.k);
}
)";
  return dispatch::expand(text, {{"X", std::string(1, name)}, {"OUTER", std::string(outer_size)}});
}

constexpr std::string_view kStore4 = R"(
fn store(z: u32, row: u32, col: u32, v: vec4<f32>) {
  if (row >= p.m || col >= p.n) { return; }
  let i = (p.c_offset + z * p.c_stride + row * p.ldc + col) / 4u;
  var sum = p.alpha * v;
  if (p.beta != 0.0) { sum += p.beta * c_at4(i); }
  c_put4(i, sum);
}
)";

constexpr std::string_view kStore1 = R"(
fn store(z: u32, row: u32, col: u32, v: vec4<f32>) {
  if (row >= p.m) { return; }
  let first = p.c_offset + z * p.c_stride + row * p.ldc + col;
  for (var j = 0u; j < 4u && col + j < p.n; j++) {
    var sum = p.alpha * v[j];
    if (p.beta != 0.0) { sum += p.beta * c_at(first + j); }
    c_put(first + j, sum);
  }
}
)";

struct GemmSpec {
  uint32_t tile = 0;
  bool transpose_a = false, transpose_b = false, half = false;
};

std::string gemm_text(const ShaderContext& context, const void* opaque) {
  const auto& spec = *static_cast<const GemmSpec*>(opaque);
  const TileLoad a{!spec.transpose_a, context.layout.vec4(0)}, b{spec.transpose_b, context.layout.vec4(1)};
  std::string out(kParams);
  out += fetch_text('a', "m", a) + fetch_text('b', "n", b);
  out += context.layout.vec4(2) ? kStore4 : kStore1;
  return out + tile_kernel({tile_shapes()[spec.tile], a, b, spec.half && context.caps.f16});
}

// Where no product is to be added, A and B are not even bound.
constexpr std::string_view kScaleText = R"(
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let columns = (p.n + 255u) / 256u;
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  let line = id / columns;
  let col = id % columns * 256u + t;
  if (col >= p.n) { return; }
  let i = p.c_offset + line / p.m * p.c_stride + line % p.m * p.ldc + col;
  var v = 0.0;
  if (p.beta != 0.0) { v = p.beta * c_at(i); }
  c_put(i, v);
}
)";

std::string scale_text(const ShaderContext&, const void*) { return std::string(kParams).append(kScaleText); }

/// A call with defaults filled in and everything counted in 64 bits.
struct Resolved {
  uint64_t lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
  uint64_t span_a, span_b, span_c;   // elements, 0 where the matrix is empty
};

/// Elements from the first to one past the last of `batch` matrices of rows×cols.
uint64_t span(uint64_t rows, uint64_t cols, uint64_t ld, uint64_t stride, uint64_t batch) {
  if (rows == 0 || cols == 0 || batch == 0) return 0;
  return saturating_product({rows - 1, ld}) + saturating_product({batch - 1, stride}) + cols;   // refused above kMaxElements
}

Result<Resolved> resolve(const char* op, const BatchedGemm& g) {
  const uint64_t a_rows = g.transpose_a ? g.k : g.m, a_cols = g.transpose_a ? g.m : g.k;
  const uint64_t b_rows = g.transpose_b ? g.n : g.k, b_cols = g.transpose_b ? g.k : g.n;
  Resolved r{g.lda ? g.lda : a_cols, g.ldb ? g.ldb : b_cols, g.ldc ? g.ldc : g.n, 0, 0, 0, g.batch, 0, 0, 0};
  const auto ld = [&](const char* name, uint64_t value, uint64_t columns) -> Result<void> {
    if (value >= columns) return {};
    return fail_f(ErrorKind::InvalidArgument, "{}: ld{} is {}, less than the {} columns of a stored row", op, name, value, columns);
  };
  if (auto ok = ld("a", r.lda, a_cols); !ok) return fail(ok.error());
  if (auto ok = ld("b", r.ldb, b_cols); !ok) return fail(ok.error());
  if (auto ok = ld("c", r.ldc, g.n); !ok) return fail(ok.error());
  r.stride_a = g.batch > 1 ? g.stride_a.value_or(a_rows * r.lda) : 0;
  r.stride_b = g.batch > 1 ? g.stride_b.value_or(b_rows * r.ldb) : 0;
  r.stride_c = g.batch > 1 ? g.stride_c.value_or(uint64_t{g.m} * r.ldc) : 0;
  r.span_a = span(a_rows, a_cols, r.lda, r.stride_a, g.batch);
  r.span_b = span(b_rows, b_cols, r.ldb, r.stride_b, g.batch);
  r.span_c = span(g.m, g.n, r.ldc, r.stride_c, g.batch);
  // A C that overlaps itself would be written by several invocations at once.
  if (g.batch > 1 && r.span_c && r.stride_c < span(g.m, g.n, r.ldc, 0, 1))
    return fail_f(ErrorKind::InvalidArgument, "{}: matrices of C are {} elements apart, and would overlap", op, r.stride_c);
  return r;
}

Call describe(const char* op, const BatchedGemm& g, const Resolved& r, ElementType in, ElementType out) {
  Call call;
  call.op = op;
  const auto operand = [](const char* name, View view, uint64_t span, ElementType type, bool write, uint64_t ld, uint64_t stride) {
    return Operand{name, view, span, storage_of(type), write, false, ld % 4 == 0 && stride % 4 == 0};
  };
  call.add(operand("a", g.a, r.span_a, in, false, r.lda, r.stride_a));
  call.add(operand("b", g.b, r.span_b, in, false, r.ldb, r.stride_b));
  call.add(operand("c", g.c, r.span_c, out, true, r.ldc, r.stride_c));
  call.operands[2].vec4 = call.operands[2].vec4 && g.n % 4 == 0;
  return call;
}

Result<void> run_gemm(ComputeBackend::Impl& impl, const char* op, const BatchedGemm& g, ElementType in, ElementType out) {
  auto resolved = resolve(op, g);
  if (!resolved) return fail(resolved.error());
  const Resolved& r = *resolved;
  const bool product = g.k > 0 && g.alpha != 0.0f;
  Call call = describe(op, g, r, in, out);
  if (!product || r.span_c == 0) {
    if (auto ok = impl.check(call); !ok) return ok;
    if (r.span_c == 0) return {};
    call.operands[0].elements = call.operands[1].elements = 0;
    call.operands[2].vec4 = false;
  }
  auto layout = impl.layout(call);
  if (!layout) return fail(layout.error());
  const auto small = [](uint64_t value) { return static_cast<uint32_t>(value); };   // spans are below 2^32, so these are
  GemmParams params{g.m, g.n, g.k, 0, 0, 0, small(r.lda), small(r.ldb), small(r.ldc), layout->offset[0], layout->offset[1], layout->offset[2],
                    small(r.stride_a), small(r.stride_b), small(r.stride_c), 0, g.alpha, g.beta, 0, 0};
  GemmSpec spec{choose_tile(impl.caps(), g.m, g.n, g.batch), g.transpose_a, g.transpose_b, in == ElementType::F16};
  for (uint32_t i = 0; i < tile_shapes().size(); ++i)
    if (const Tile& want = impl.options.gemm_tile; want.m && tile_shapes()[i].m == want.m && tile_shapes()[i].n == want.n) spec.tile = i;
  const TileGrid grid = tile_grid(tile_shapes()[spec.tile], g.m, g.n, g.batch);
  params.tiles_m = grid.tiles_m;
  params.tiles_n = grid.tiles_n;
  call.groups = product ? grid.groups : uint64_t{g.batch} * g.m * ((uint64_t{g.n} + 255) / 256);
  params.groups = small(call.groups);
  call.op_id = product ? kGemm : kScale;
  call.text = product ? gemm_text : scale_text;
  call.spec = &spec;
  call.variant = uint64_t{out == ElementType::F16} << 1 | uint64_t{in == ElementType::F16};
  if (product) call.variant |= uint64_t{spec.tile} << 8 | uint64_t{g.transpose_a} << 2 | uint64_t{g.transpose_b} << 3;
  call.work = double(g.batch) * g.m * g.n * std::max(g.k, 1u);
  return impl.run(call, *layout, params);
}

/// In pieces along k, where one would make more loop iterations than the device allows: one for each k at worst.
Result<void> split_gemm(ComputeBackend::Impl& impl, const char* op, const BatchedGemm& g, ElementType in, ElementType out) {
  if (auto ok = impl.initialised(); !ok) return ok;
  const uint64_t piece = loop_budget(impl.caps()) & ~uint64_t{63};
  if (g.k <= piece) return run_gemm(impl, op, g, in, out);
  auto whole = resolve(op, g);
  if (!whole) return fail(whole.error());
  // Nothing is done unless all of it can be.
  if (auto ok = impl.check(describe(op, g, *whole, in, out)); !ok) return ok;
  BatchedGemm part = g;
  part.lda = static_cast<uint32_t>(whole->lda);
  part.ldb = static_cast<uint32_t>(whole->ldb);
  part.stride_a = whole->stride_a;
  part.stride_b = whole->stride_b;
  for (uint64_t from = 0; from < g.k; from += piece) {
    part.k = static_cast<uint32_t>(std::min<uint64_t>(piece, g.k - from));
    part.a.offset = g.a.offset + from * (g.transpose_a ? part.lda : 1);
    part.b.offset = g.b.offset + from * (g.transpose_b ? 1 : part.ldb);
    if (auto ok = run_gemm(impl, op, part, in, out); !ok) return ok;
    part.beta = 1;
  }
  return {};
}

BatchedGemm one(const Gemm& call) {
  BatchedGemm batched;
  static_cast<Gemm&>(batched) = call;
  return batched;
}

}  // namespace

Result<void> ComputeBackend::gemm(const Gemm& call) { return split_gemm(*impl_, "gemm", one(call), ElementType::F32, ElementType::F32); }
Result<void> ComputeBackend::batched_gemm(const BatchedGemm& call) {
  return split_gemm(*impl_, "batched_gemm", call, ElementType::F32, ElementType::F32);
}
Result<void> ComputeBackend::gemm_f16(const Gemm& call) { return split_gemm(*impl_, "gemm_f16", one(call), ElementType::F16, ElementType::F16); }
Result<void> ComputeBackend::gemm_mixed(const Gemm& call) { return split_gemm(*impl_, "gemm_mixed", one(call), ElementType::F16, ElementType::F32); }

Result<Tile> ComputeBackend::recommended_tile(uint32_t m, uint32_t n, uint32_t k) const {
  if (auto ok = impl_->initialised(); !ok) return fail(ok.error());
  if (m == 0 || n == 0 || k == 0) return fail(ErrorKind::InvalidArgument, "recommended_tile: m, n and k must be above 0");
  const TileShape& s = tile_shapes()[choose_tile(impl_->caps(), m, n, 1)];
  return Tile{s.m, s.n, s.k};
}

std::span<const Tile> ComputeBackend::gemm_tiles() {
  static const std::vector<Tile> tiles = [] {
    std::vector<Tile> out;
    for (const TileShape& s : tile_shapes()) out.push_back({s.m, s.n, s.k});
    return out;
  }();
  return tiles;
}

}  // namespace gull
