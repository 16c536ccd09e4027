// Embedding look-up: one row of a (quantised) table a token, by its id, by its position, or the same row for all.
#include "kernels/decode/decode.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈groups of 32 weights ÷ 64⌉, y = tokens. Bindings: W rows of one tile, [ids], x, State.
/// A token whose row lies in another tile is left to that tile's dispatch; ids beyond the table write nothing.
constexpr std::string_view kEmbed = R"(
@group(0) @binding(0) var<storage, read> W0: array<vec4<u32>>;
$BIND$
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let kb = g.x;
  if (kb >= $KB$) { return; }
  let id = $ID$;
  if (id < $FIRST$ || id - $FIRST$ >= $ROWS$) { return; }
  let w = dq0((id - $FIRST$) * $ROW4$, kb);
  let at = (g.y * $STRIDE$ + $OFFSET$) / 4u + kb * 8u;
  for (var i = 0u; i < 8u; i++) { x[at + i] $SET$ w[i] * $SCALE$; }
}
)";

enum class Pick { ById, ByPosition, First };

void look_up(Recorder& r, const weights::TensorRef& table, const gpu::BufferRef& ids, Pick pick, const Rows& x, float scale) {
  if (r.failed()) return;
  auto text = decoder(table->layout, "0");
  if (!text) return r.fail_with(text.error());
  const auto kb = static_cast<uint32_t>((table->k + 31) / 32);
  const bool by_id = pick == Pick::ById;
  const char* id = by_id ? "ids[g.y]" : pick == Pick::ByPosition ? "S.pos + g.y" : "0u";
  int next = 1;
  std::string bind;
  if (by_id) bind += fmt::format("@group(0) @binding({}) var<storage, read> ids: array<u32>;\n", next++);
  bind += fmt::format("@group(0) @binding({}) var<storage, read_write> x: array<vec4<f32>>;\n", next++);
  bind += fmt::format("@group(0) @binding({}) var<uniform> S: State;", next++);
  for (const auto& tile : table->tiles) {
    const std::string key = fmt::format("embed:{}:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(pick), static_cast<int>(table->type), table->k, tile->first_row,
                                        tile->rows, x.stride, x.offset, scale);
    const auto describe = [&] {
      return gpu::PipelineDesc{"embed", std::string(kStateStruct) + *text +
                                            expand(kEmbed, {{"KB", kb}, {"FIRST", tile->first_row}, {"ROWS", tile->rows},
                                                            {"ROW4", table->layout.row_bytes / 16}, {"STRIDE", x.stride},
                                                            {"OFFSET", x.offset}, {"SCALE", scale}, {"BIND", bind}, {"ID", id},
                                                            {"SET", by_id ? "=" : "+="}}),
                               kinds(by_id ? "rrwu" : "rwu")};
    };
    std::vector<dispatch::Operand> operands{tile};
    if (by_id) operands.push_back(ids);
    operands.insert(operands.end(), {x.buffer, r.state});
    dispatch::Select select;
    if (by_id) select = {ids, 1, static_cast<uint32_t>(tile->first_row), static_cast<uint32_t>(tile->rows)};
    r.step(key, describe, std::move(operands), {(kb + 63) / 64}, {1, dispatch::Var::Tokens, 1}, {}, std::move(select));
  }
}

}  // namespace

void embed(Recorder& r, const weights::TensorRef& table, const gpu::BufferRef& ids, const Rows& x, float scale) {
  look_up(r, table, ids, Pick::ById, x, scale);
}

void add_position(Recorder& r, const weights::TensorRef& table, const Rows& x) { look_up(r, table, nullptr, Pick::ByPosition, x, 1.0f); }

void add_first_row(Recorder& r, const weights::TensorRef& table, const Rows& x) { look_up(r, table, nullptr, Pick::First, x, 1.0f); }

}  // namespace gull::kernels
