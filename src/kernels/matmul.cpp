#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/decode/decode.h"
#include "kernels/tuning.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈rows ÷ BN⌉, y = ⌈tokens ÷ BM⌉. Bindings: x, W, y, State, [bias].
/// 32 weights of k at a time are staged in workgroup memory as f32, both operands along k; a row takes 9 vec4 instead of
/// 8, so that the rows that neighbouring threads read fall into different banks.
constexpr std::string_view kMatmul = R"(
var<workgroup> sx: array<vec4<f32>, $BM9$>;
var<workgroup> sw: array<vec4<f32>, $BN9$>;
@compute @workgroup_size($WG$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let n0 = wid.x * $BN$;
  let m0 = wid.y * $BM$;
  let tx = t % $NX$;
  let ty = t / $NX$;
$INIT$
  for (var kb = 0u; kb < $KB$; kb++) {
    for (var i = t; i < $BN$; i += $WG$) {
      let q = dq0(min(n0 + i, $LAST$) * $ROW4$, kb);
      for (var c = 0u; c < 8u; c++) { sw[i * 9u + c] = q[c]; }
    }
    for (var i = t; i < $BM$ * 8u; i += $WG$) {
      let m = m0 + i / 8u;
      var v = vec4<f32>(0.0);
      if (m < S.n) { $LOADX$ }
      sx[(i / 8u) * 9u + i % 8u] = v;
    }
    workgroupBarrier();
    for (var c = 0u; c < 8u; c++) {
$INNER$
    }
    workgroupBarrier();
  }
$STORE$
}
)";

std::string source(const Rows& x, const Projection& p, const weights::Tile& tile, bool add, MatmulShape s) {
  const uint32_t nx = s.n / s.tn, my = s.m / s.tm;
  const auto k = static_cast<uint32_t>(p.weight->k);
  const bool whole = k % 32 == 0 && x.offset % 4 == 0;
  std::string init, inner, store;
  for (uint32_t i = 0; i < s.tm; ++i)
    for (uint32_t j = 0; j < s.tn; ++j) init += fmt::format("  var c{}_{} = 0.0;\n", i, j);
  for (uint32_t i = 0; i < s.tm; ++i) inner += fmt::format("      let a{} = sx[(ty + {}u) * 9u + c];\n", i, i * my);
  for (uint32_t j = 0; j < s.tn; ++j) {
    inner += fmt::format("      {{ let b = sw[(tx + {}u) * 9u + c];\n", j * nx);
    for (uint32_t i = 0; i < s.tm; ++i) inner += fmt::format("        c{}_{} += dot(a{}, b);\n", i, j, i);
    inner += "      }\n";
  }
  for (uint32_t i = 0; i < s.tm; ++i) {
    store += fmt::format("  {{ let m = m0 + ty + {}u; if (m < S.n) {{\n", i * my);
    for (uint32_t j = 0; j < s.tn; ++j)
      store += fmt::format("    {{ let n = n0 + tx + {}u; if (n <= {}u) {{ y[m * {}u + {}u + n] {} c{}_{}{}; }} }}\n", j * nx, tile.rows - 1,
                           p.y.stride, p.y.offset + tile.first_row, add ? "+=" : "=", i, j,
                           p.bias ? fmt::format(" + bias[{}u + n]", tile.first_row) : "");
    store += "  } }\n";
  }
  const std::string load =
      whole ? expand("v = x[m * $XS4$ + $XO4$ + kb * 8u + i % 8u];", {{"XS4", x.stride / 4}, {"XO4", x.offset / 4}})
            : expand("let b = m * $XS$ + $XO$; let at = kb * 32u + (i % 8u) * 4u; for (var c = 0u; c < 4u; c++) { if (at + c < $K$) { v[c] = x[b + at + c]; } }",
                     {{"XS", x.stride}, {"XO", x.offset}, {"K", k}});
  std::string text = std::string(kStateStruct);
  text += fmt::format("@group(0) @binding(0) var<storage, read> x: array<{}>;\n", whole ? "vec4<f32>" : "f32");
  text += "@group(0) @binding(1) var<storage, read> W0: array<vec4<u32>>;\n@group(0) @binding(2) var<storage, read_write> y: array<f32>;\n"
          "@group(0) @binding(3) var<uniform> S: State;\n";
  if (p.bias) text += "@group(0) @binding(4) var<storage, read> bias: array<f32>;\n";
  return text + expand(kMatmul, {{"BM9", s.m * 9}, {"BN9", s.n * 9}, {"BM", s.m}, {"BN", s.n}, {"WG", nx * my}, {"NX", nx},
                                 {"KB", (k + 31) / 32}, {"LAST", tile.rows - 1}, {"ROW4", p.weight->layout.row_bytes / 16},
                                 {"INIT", init}, {"INNER", inner}, {"STORE", store}, {"LOADX", load}});
}

}  // namespace

std::optional<MatmulShape> matmul_shape(const Tuning::Tile& tile) {
  for (const MatmulShape s : {MatmulShape{32, 64, 4, 4}, {32, 128, 4, 4}, {64, 64, 4, 4}, {64, 128, 8, 4}, {128, 64, 8, 4}})
    if (s.m == tile.tokens && s.n == tile.rows && tile.units == 1) return s;
  return std::nullopt;
}

uint32_t matmul_memory(const MatmulShape& s) { return (s.m + s.n) * 9 * 16; }

MatmulShape matmul_shape(const gpu::Caps& caps, uint32_t max_tokens, const Tuning& tuning) {
  if (max_tokens <= 8) return {8, 64, 2, 4};
  if (max_tokens <= 16) return {16, 64, 4, 4};
  if (const auto tuned = matmul_shape(tuning.matmul); tuned && max_tokens > kSmallBatch) return *tuned;
  if (caps.max_workgroup_memory >= 32768 && !caps.software && max_tokens > kSmallBatch) return {64, 64, 4, 4};
  return {32, 64, 4, 4};
}

void matmul_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add,
                 MatmulShape s) {
  if (r.failed()) return;
  auto decode = decoder(p.weight->layout, "0");
  if (!decode) return r.fail_with(decode.error());
  const std::string key = fmt::format("matmul:{}:{}:{}:{}/{}:{}:{}/{}:{}:{}:{}:{}:{}", s.m, s.n, s.tm, s.tn, static_cast<int>(p.weight->type),
                                      p.weight->k, tile->rows, x.stride, x.offset, p.y.stride, p.y.offset + tile->first_row, add,
                                      p.bias ? tile->first_row + 1 : 0);
  const auto describe = [&] {
    return gpu::PipelineDesc{fmt::format("matmul {} {} -> {}", gguf::type_traits(p.weight->type)->name, p.weight->k, tile->rows), *decode + source(x, p, *tile, add, s), kinds(p.bias ? "rrwur" : "rrwu")};
  };
  std::vector<dispatch::Operand> operands{x.buffer, tile, p.y.buffer, r.state};
  if (p.bias) operands.push_back(vector_operand(p.bias));
  r.step(key, describe, std::move(operands), {static_cast<uint32_t>((tile->rows + s.n - 1) / s.n)}, {1, dispatch::Var::Tokens, s.m});
}

}  // namespace gull::kernels
