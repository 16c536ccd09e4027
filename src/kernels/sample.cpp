// Choosing the next token on the GPU.
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

constexpr uint32_t kGroups = 64;

/// Whether (x, i) is chosen before (y, j); an index of all ones is nothing, which every logit beats, also −∞.
constexpr std::string_view kBetter = R"(
fn better(x: f32, i: u32, y: f32, j: u32) -> bool {
  return i != 0xffffffffu && (j == 0xffffffffu || x > y || (x == y && i < j));
}
)";

/// Grid: x = 64. Each workgroup finds the best of a stripe of the logits: (value, index); what is not a number is none (told by
/// its bits: a compiler may assume that comparisons never see it). Two rounds of sixteen cost fewer barriers than eight of two, which
/// software devices pay for. Bindings: logits, best.
constexpr std::string_view kBest = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> best: array<vec2<u32>>;
var<workgroup> v: array<f32, 256>;
var<workgroup> at: array<u32, 256>;
fn take(t: u32, k: u32) {
  if (better(v[k], at[k], v[t], at[t])) { v[t] = v[k]; at[t] = at[k]; }
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  var top = -3.4e38;
  var index = 0xffffffffu;
  for (var i = g.x * 256u + t; i < $N$; i += $STEP$) {
    let x = logits[$O$ + i];
    let number = (bitcast<u32>(x) & 0x7fffffffu) <= 0x7f800000u;
    if (number && (x > top || index == 0xffffffffu)) { top = x; index = i; }
  }
  v[t] = top;
  at[t] = index;
  workgroupBarrier();
  if (t < 16u) { for (var k = t + 16u; k < 256u; k += 16u) { take(t, k); } }
  workgroupBarrier();
  if (t == 0u) {
    for (var k = 1u; k < 16u; k++) { take(0u, k); }
    best[g.x] = vec2<u32>(bitcast<u32>(v[0]), at[0]);
  }
}
)";

/// Grid: 1. Picks the best of the stripes and moves the decode state on. Where there is none the history says so with all ones,
/// and the steps that are already submitted go on with token 0. Bindings: best, ids, history, State (as storage).
constexpr std::string_view kPick = R"(
@group(0) @binding(0) var<storage, read> best: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;
@group(0) @binding(2) var<storage, read_write> history: array<u32>;
@group(0) @binding(3) var<storage, read_write> S: State;
@compute @workgroup_size(1)
fn main() {
  var top = bitcast<f32>(best[0].x);
  var index = best[0].y;
  for (var i = 1u; i < 64u; i++) {
    let x = bitcast<f32>(best[i].x);
    if (better(x, best[i].y, top, index)) { top = x; index = best[i].y; }
  }
  ids[0] = select(index, 0u, index == 0xffffffffu);
  history[S.step % 64u] = index;
  S.pos = S.pos + S.n;
  S.n = 1u;
  S.kv = S.pos + 1u;
  S.step = S.step + 1u;
}
)";

}  // namespace

void argmax(Recorder& r, const Rows& logits, const gpu::BufferRef& ids, const gpu::BufferRef& history) {
  if (r.failed()) return;
  auto best = r.take(r.arena.raw("argmax stripes", kGroups * 8));
  if (r.failed()) return;
  r.step(fmt::format("argmax:{}:{}", logits.width, logits.offset), [&] {
    return gpu::PipelineDesc{"argmax", std::string(kBetter) + expand(kBest, {{"N", logits.width}, {"O", logits.offset}, {"STEP", kGroups * 256}}), kinds("rw")};
  }, {logits.buffer, best}, {kGroups});
  r.step("argmax_pick", [&] { return gpu::PipelineDesc{"argmax_pick", std::string(kStateStruct) + std::string(kBetter) + std::string(kPick), kinds("rwww")}; },
         {best, ids, history, r.state}, {1});
}

}  // namespace gull::kernels
