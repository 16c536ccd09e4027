// Embedding look-up: one row of a (quantised) table a token.
#include "kernels/decode/decode.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈groups of 32 weights ÷ 64⌉, y = tokens. Bindings: W rows of one tile, ids, x, State.
/// A token whose id lies in another tile is left to that tile's dispatch; ids beyond the table write nothing.
constexpr std::string_view kEmbed = R"(
@group(0) @binding(0) var<storage, read> W0: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> S: State;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let kb = g.x;
  if (kb >= $KB$) { return; }
  let id = ids[g.y];
  if (id < $FIRST$ || id - $FIRST$ >= $ROWS$) { return; }
  let w = dq0((id - $FIRST$) * $ROW4$, kb);
  let at = (g.y * $STRIDE$ + $OFFSET$) / 4u + kb * 8u;
  for (var i = 0u; i < 8u; i++) { x[at + i] = w[i] * $SCALE$; }
}
)";

}  // namespace

void embed(Recorder& r, const weights::TensorRef& table, const gpu::BufferRef& ids, const Rows& x, float scale) {
  if (r.failed()) return;
  auto text = decoder(table->layout, "0");
  if (!text) return r.fail_with(text.error());
  const auto kb = static_cast<uint32_t>((table->k + 31) / 32);
  for (const auto& tile : table->tiles) {
    const std::string key = fmt::format("embed:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(table->type), table->k, tile->first_row,
                                        tile->rows, x.stride, x.offset, scale);
    const auto describe = [&] {
      return gpu::PipelineDesc{"embed", std::string(kStateStruct) + *text +
                                            expand(kEmbed, {{"KB", kb}, {"FIRST", tile->first_row}, {"ROWS", tile->rows},
                                                            {"ROW4", table->layout.row_bytes / 16}, {"STRIDE", x.stride},
                                                            {"OFFSET", x.offset}, {"SCALE", scale}}),
                               kinds("rrwu")};
    };
    r.step(key, describe, {tile, ids, x.buffer, r.state}, {(kb + 63) / 64}, {1, dispatch::Var::Tokens, 1});
  }
}

}  // namespace gull::kernels
