// Penalties, and the draw among a few: top_k up to kMostTop, in two dispatches.
#include "kernels/draw.h"
#include "kernels/draw_text.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈N ÷ 256⌉, one token of the vocabulary an invocation. From the second step on the token chosen last stands at S.pos:
/// it enters the window, and another may leave it. Bindings: logits, notes, said, settings, ids, State.
constexpr std::string_view kPenalise = R"(
struct Note { count: u32, bias: f32 };
@group(0) @binding(0) var<storage, read_write> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> notes: array<Note>;
@group(0) @binding(2) var<storage, read_write> said: array<u32>;
@group(0) @binding(3) var<storage, read> P: Settings;
@group(0) @binding(4) var<storage, read> ids: array<u32>;
@group(0) @binding(5) var<uniform> S: State;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let i = g.x;
  if (i >= $N$) { return; }
  var note = notes[i];
  if (S.step > 0u) {
    let came = ids[0];
    var went = none;
    if (S.pos >= P.window) { went = said[S.pos - P.window]; }
    if (i == came) { said[S.pos] = came; }
    note.count += u32(i == came) - u32(i == went);
    if ((i == came) != (i == went)) { notes[i].count = note.count; }
  }
  if (note.count == 0u && note.bias == 0.0) { return; }
  var x = logits[$O$ + i] + note.bias;
  if (note.count > 0u) {
    x = select(x * P.repeat, x / P.repeat, x > 0.0);
    x -= P.frequency * f32(note.count) + P.presence;
  }
  logits[$O$ + i] = x;
}
)";

/// Grid: x = 64. The largest key of each group of tokens. Bindings: logits, peaks.
constexpr std::string_view kPeaksText = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> peaks: array<u32>;
var<workgroup> best: array<u32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  var top = 0u;
  for (var i = g.x * 256u + t; i < $N$; i += 16384u) { top = max(top, key_of(logits[$O$ + i])); }
  best[t] = top;
  workgroupBarrier();
  if (t < 32u) {
    var peak = 0u;
    for (var j = 0u; j < 8u; j++) { peak = max(peak, best[t * 8u + j]); }
    peaks[g.x * 32u + t] = peak;
  }
}
)";

/// Grid: 1. Each invocation holds the best of eight peaks; the top_k-th best of those is a key that at least top_k tokens reach, and
/// few more. Only groups whose peak reaches it hold such tokens: these are gathered, ranked, cut and drawn from. Where ties make
/// them too many for the list, the exact cut (key and id) is searched bit by bit first.
/// Bindings: logits, peaks, settings, ids, history, State (as storage).
constexpr std::string_view kDrawTop = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> peaks: array<u32>;
@group(0) @binding(2) var<storage, read> P: Settings;
@group(0) @binding(3) var<storage, read_write> ids: array<u32>;
@group(0) @binding(4) var<storage, read_write> history: array<u32>;
@group(0) @binding(5) var<storage, read_write> S: State;
var<workgroup> groups: array<u32, 2048>;
var<workgroup> keys: array<u32, 512>;
var<workgroup> names: array<u32, 512>;
var<workgroup> sorted_keys: array<u32, 128>;
var<workgroup> sorted_ids: array<u32, 128>;
var<workgroup> mass: array<f32, 128>;
var<workgroup> place: array<u32, 128>;
var<workgroup> found: atomic<u32>;
var<workgroup> least: u32;
var<workgroup> crowd: u32;

/// Whether token i is at or before the place (low, limit) in the order of falling keys, then rising ids.
fn reaches(key: u32, i: u32, low: u32, limit: u32) -> bool { return key > low || (key == low && i <= limit); }

/// All tokens of the listed groups up to (low, limit) are counted into `found` and, as far as there is room, listed.
fn gather(t: u32, count: u32, low: u32, limit: u32, list: bool) {
  for (var e = t; e < count * $SIZE$; e += 256u) {
    let i = token(groups[e / $SIZE$], e % $SIZE$);
    if (i >= $N$) { continue; }
    let key = key_of(logits[$O$ + i]);
    if (key == 0u || !reaches(key, i, low, limit)) { continue; }
    let n = atomicAdd(&found, 1u);
    if (list && n < 512u) { keys[n] = key; names[n] = i; }
  }
}

fn count_up_to(t: u32, count: u32, low: u32, limit: u32) -> u32 {
  if (t == 0u) { atomicStore(&found, 0u); }
  workgroupBarrier();
  gather(t, count, low, limit, false);
  workgroupBarrier();
  let n = atomicLoad(&found);
  workgroupBarrier();
  return n;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  var mine = 0u;
  for (var j = 0u; j < 8u; j++) { mine = max(mine, peaks[j * 256u + t]); }
  keys[t] = mine;
  if (t == 0u) { least = 1u; atomicStore(&found, 0u); }
  workgroupBarrier();
  var rank = 0u;
  for (var u = 0u; u < 256u; u++) { rank += u32(keys[u] > mine || (keys[u] == mine && u < t)); }
  if (rank + 1u == P.top_k) { least = max(mine, 1u); }
  workgroupBarrier();
  for (var j = 0u; j < 8u; j++) {
    if (peaks[j * 256u + t] >= least) { groups[atomicAdd(&found, 1u)] = j * 256u + t; }
  }
  workgroupBarrier();
  let count = atomicLoad(&found);
  workgroupBarrier();
  if (t == 0u) { atomicStore(&found, 0u); }
  workgroupBarrier();
  gather(t, count, least, none, true);
  workgroupBarrier();
  if (t == 0u) { crowd = atomicLoad(&found); }
  if (workgroupUniformLoad(&crowd) > 512u) {
    var low = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit = bit >> 1u) {
      if (count_up_to(t, count, low | bit, none) >= P.top_k) { low |= bit; }
    }
    var limit = 0u;
    for (var bit = 0x80000000u; bit > 0u; bit = bit >> 1u) {
      if (count_up_to(t, count, low, (limit | bit) - 1u) < P.top_k) { limit |= bit; }
    }
    if (t == 0u) { atomicStore(&found, 0u); }
    workgroupBarrier();
    gather(t, count, low, limit, true);
    workgroupBarrier();
    if (t == 0u) { crowd = atomicLoad(&found); }
    workgroupBarrier();
  }
  for (var c = t; c < crowd; c += 256u) {
    var at = 0u;
    for (var u = 0u; u < crowd; u++) { at += u32(keys[u] > keys[c] || (keys[u] == keys[c] && names[u] < names[c])); }
    if (at < P.top_k && at < 128u) { sorted_keys[at] = keys[c]; sorted_ids[at] = names[c]; }
  }
  workgroupBarrier();
  let kept = min(crowd, min(P.top_k, 128u));
  let away = gap(sorted_keys[min(t, 127u)], sorted_keys[0]);
  let p = select(0.0, exp(away), t < kept);
  if (t < 128u) { mass[t] = p; }
  workgroupBarrier();
  for (var step = 1u; step < 128u; step = step * 2u) {
    var before = 0.0;
    if (t >= step && t < 128u) { before = mass[t - step]; }
    workgroupBarrier();
    if (t < 128u) { mass[t] += before; }
    workgroupBarrier();
  }
  var inside = t < kept;
  if (inside && t > 0u) { inside = p >= P.min_p && (P.top_p >= 1.0 || mass[t - 1u] < P.top_p * mass[127]); }
  workgroupBarrier();
  if (t < 128u) {
    place[t] = select(none, t, inside);
    mass[t] = score(away, P.temperature, random(sorted_ids[t], S.step, P.seed0, P.seed1));
  }
  workgroupBarrier();
  for (var k = 64u; k > 0u; k = k / 2u) {
    if (t < k && wins(mass[t + k], place[t + k], mass[t], place[t])) { mass[t] = mass[t + k]; place[t] = place[t + k]; }
    workgroupBarrier();
  }
  if (t == 0u) {
    var id = none;
    if (place[0] != none) { id = sorted_ids[place[0]]; }
    advance(id);
  }
}
)";

}  // namespace

void penalise(Recorder& r, const Rows& logits, const DrawBuffers& b) {
  r.step(fmt::format("penalise:{}:{}", logits.width, logits.offset), [&] {
    return gpu::PipelineDesc{"penalise", std::string(kStateStruct) + std::string(kDrawText) + expand(kPenalise, {{"N", logits.width}, {"O", logits.offset}}),
                             kinds("wwwrru")};
  }, {logits.buffer, b.notes, b.said, b.settings, b.ids, r.state}, {(logits.width + 255) / 256});
}

gpu::BufferRef draw_peaks(Recorder& r, const Rows& logits) {
  auto peaks = r.take(r.arena.raw("draw peaks", uint64_t{4} * kPeaks));
  r.step(fmt::format("draw_peaks:{}:{}", logits.width, logits.offset), [&] {
    return gpu::PipelineDesc{"draw_peaks", std::string(kDrawText) + expand(kPeaksText, {{"N", logits.width}, {"O", logits.offset}}), kinds("rw")};
  }, {logits.buffer, peaks}, {64});
  return peaks;
}

void draw_top(Recorder& r, const Rows& logits, const DrawBuffers& b) {
  const auto peaks = draw_peaks(r, logits);
  if (r.failed()) return;
  const uint32_t size = 8 * ((logits.width + 16383) / 16384);
  r.step(fmt::format("draw_top:{}:{}", logits.width, logits.offset), [&] {
    std::string text(kStateStruct);
    for (std::string_view part : {kDrawText, kRaceText, kGroupText, kAdvanceText}) text += part;
    return gpu::PipelineDesc{"draw_top", text + expand(kDrawTop, {{"N", logits.width}, {"O", logits.offset}, {"SIZE", size}}), kinds("rrrwww")};
  }, {logits.buffer, peaks, b.settings, b.ids, b.history, r.state}, {1});
}

}  // namespace gull::kernels
