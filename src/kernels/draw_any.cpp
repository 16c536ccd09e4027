// The draw among any number of tokens, in parallel over the vocabulary. top_k and top_p are cuts in the order of falling keys:
// the key where a count, or a mass, is reached is found digit by digit from histograms, as a radix sort would, without sorting.
#include <algorithm>

#include "kernels/draw.h"
#include "kernels/draw_text.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

constexpr uint32_t kStages = 8;        ///< digits of 8 bits: four for top_k, four for top_p
constexpr uint32_t kSlot = 256;        ///< bytes of a Cut, with what bindings want for alignment
constexpr uint32_t kBins = 512 * 4;    ///< bytes of a histogram: 256 low words, then 256 high words

/// What stage s hands to the next one. Masses are sums of exp(logit − largest) as integers of 64 bits (low word first) in units
/// of 2^−43, so that they are the same in whatever order they are added.
///   prefix, above: digits found so far of the cut that is searched, and the count or mass of the keys above it
///   k_key, k_take, k_ties: the key that top_k ends with, how many tokens of that key it takes (the lowest ids), and of how many
///   p_key …: the same of top_p. A key of 0 cuts nothing.
constexpr std::string_view kCutText = R"(
struct Cut { stage: u32, top: u32, prefix: u32, goal: f32, above: vec2<u32>, k_key: u32, k_take: u32, k_ties: u32, p_key: u32, p_take: u32, p_ties: u32 };
fn add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}
fn real(a: vec2<u32>) -> f32 { return f32(a.y) * 4294967296.0 + f32(a.x); }
fn weight(key: u32, top: u32) -> vec2<u32> {
  let w = exp(gap(key, top)) * 2048.0;
  let whole = floor(w);
  return vec2<u32>(u32((w - whole) * 4294967296.0), u32(whole));
}
)";

/// The cut so far, by all 256 invocations: the histogram of the stage before is summed from its top bin down, and the bin in which
/// the goal is reached is the next digit. Where it never is, the lowest bin is, and in the end nothing is cut.
/// Uses peaks, P, bins (of the stage before), cut (of the stage before).
constexpr std::string_view kFollowText = R"(
var<workgroup> sums: array<vec2<u32>, 256>;
var<workgroup> tops: array<u32, 256>;
var<workgroup> parts: array<vec2<u32>, 16>;
var<workgroup> part_tops: array<u32, 16>;
var<workgroup> now: Cut;
fn by_count() -> bool { return P.top_k > 0u; }
fn by_mass() -> bool { return P.top_p < 1.0; }

fn follow(t: u32) {
  var peak = 0u;
  for (var j = 0u; j < 8u; j++) { peak = max(peak, peaks[j * 256u + t]); }
  tops[t] = peak;
  let bin = 255u - t;
  let mine = vec2<u32>(atomicLoad(&bins[bin]), atomicLoad(&bins[256u + bin]));
  sums[t] = mine;
  if (t == 0u) { now = cut; }
  workgroupBarrier();
  if (t < 16u) {
    var sum = vec2<u32>(0u);
    for (var j = t * 16u; j < t * 16u + 16u; j++) { sum = add(sum, sums[j]); peak = max(peak, tops[j]); }
    parts[t] = sum;
    part_tops[t] = peak;
  }
  let stage = now.stage;
  let old = now;
  workgroupBarrier();
  var passed = old.above;
  for (var j = 0u; j < t / 16u; j++) { passed = add(passed, parts[j]); }
  for (var j = t / 16u * 16u; j < t; j++) { passed = add(passed, sums[j]); }
  let reached = add(passed, mine);
  if (stage == 0u && t == 0u) {
    for (var j = 0u; j < 16u; j++) { peak = max(peak, part_tops[j]); }
    now.top = peak;
    now.goal = f32(P.top_k);
  }
  var goal = old.goal;
  if (stage == 5u) {
    var all = vec2<u32>(0u);
    for (var j = 0u; j < 16u; j++) { all = add(all, parts[j]); }
    goal = real(all);
    if (old.k_ties > old.k_take) { goal -= f32(old.k_ties - old.k_take) * real(weight(old.k_key, old.top)); }
    goal = max(goal * P.top_p, 1.0);
  }
  let wanted = stage > 0u && select(by_mass(), by_count(), stage < 5u);
  if (wanted && real(passed) < goal && (real(reached) >= goal || t == 255u)) {
    let prefix = old.prefix | (bin << (24u - ((stage - 1u) & 3u) * 8u));
    now.goal = goal;
    now.prefix = prefix;
    now.above = passed;
    if (stage == 4u) {
      now.k_key = prefix;
      now.k_ties = mine.x;
      now.k_take = u32(goal - real(passed));
      now.prefix = 0u;
      now.above = vec2<u32>(0u);
    }
    if (stage == 8u) {
      let one = max(real(weight(prefix, old.top)), 1.0);
      now.p_key = prefix;
      now.p_ties = u32(round(real(mine) / one));
      now.p_take = max(u32(ceil((goal - real(passed)) / one)), 1u);
    }
  }
  workgroupBarrier();
}
)";

/// Grid: x = groups. One digit. Bindings: logits, peaks, settings, bins and cut of the stage before, bins and cut of this stage.
constexpr std::string_view kCutStage = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> peaks: array<u32>;
@group(0) @binding(2) var<storage, read> P: Settings;
@group(0) @binding(3) var<storage, read_write> bins: array<atomic<u32>, 512>;
@group(0) @binding(4) var<storage, read_write> cut: Cut;
@group(0) @binding(5) var<storage, read_write> next_bins: array<atomic<u32>, 512>;
@group(0) @binding(6) var<storage, read_write> next_cut: Cut;
var<workgroup> low: array<atomic<u32>, 256>;
var<workgroup> high: array<atomic<u32>, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  follow(t);
  atomicStore(&low[t], 0u);
  atomicStore(&high[t], 0u);
  workgroupBarrier();
  let digit = now.stage & 3u;
  let shift = 24u - digit * 8u;
  let counting = now.stage < 4u;
  if (select(by_mass(), by_count(), counting)) {
    for (var i = g.x * 256u + t; i < $N$; i += $STRIDE$) {
      let key = key_of(logits[$O$ + i]);
      let here = digit == 0u || (key >> (shift + 8u)) == (now.prefix >> (shift + 8u));
      if (key == 0u || key < now.k_key || !here) { continue; }
      var w = vec2<u32>(1u, 0u);
      if (!counting) { w = weight(key, now.top); }
      let bin = (key >> shift) & 255u;
      let carry = u32(atomicAdd(&low[bin], w.x) + w.x < w.x);
      if (w.y + carry > 0u) { atomicAdd(&high[bin], w.y + carry); }
    }
  }
  workgroupBarrier();
  let w = vec2<u32>(atomicLoad(&low[t]), atomicLoad(&high[t]));
  if (w.x > 0u || w.y > 0u) {
    let carry = u32(atomicAdd(&next_bins[t], w.x) + w.x < w.x);
    atomicAdd(&next_bins[256u + t], w.y + carry);
  }
  if (g.x == 0u && t == 0u) {
    next_cut = now;
    next_cut.stage = now.stage + 1u;
  }
}
)";

/// Grid: x = groups. The race among what the cuts and min-p leave; a stripe's winner is (score, id). Of tokens that tie where a cut
/// takes only some of them, the last step takes care. Bindings: logits, peaks, settings, bins and cut of the last stage, best,
/// cut out, State (as storage).
constexpr std::string_view kRace = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> peaks: array<u32>;
@group(0) @binding(2) var<storage, read> P: Settings;
@group(0) @binding(3) var<storage, read_write> bins: array<atomic<u32>, 512>;
@group(0) @binding(4) var<storage, read_write> cut: Cut;
@group(0) @binding(5) var<storage, read_write> best: array<vec2<u32>>;
@group(0) @binding(6) var<storage, read_write> last_cut: Cut;
@group(0) @binding(7) var<storage, read_write> S: State;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  follow(t);
  let edge = edge_of(now);
  var top = 0.0;
  var name = none;
  for (var i = g.x * 256u + t; i < $N$; i += $STRIDE$) {
    let key = key_of(logits[$O$ + i]);
    if (key == 0u || key < edge.key || (key == edge.key && edge.take < edge.ties)) { continue; }
    let away = gap(key, now.top);
    if (key != now.top && exp(away) < P.min_p) { continue; }
    let s = score(away, P.temperature, random(i, S.step, P.seed0, P.seed1));
    if (wins(s, i, top, name)) { top = s; name = i; }
  }
  scores[t] = top;
  names[t] = name;
  settle(t);
  if (t == 0u) {
    best[g.x] = vec2<u32>(bitcast<u32>(scores[0]), names[0]);
    if (g.x == 0u) { last_cut = now; }
  }
}
)";

/// The winner of 256 entries (score, name) comes first.
constexpr std::string_view kSettleText = R"(
var<workgroup> scores: array<f32, 256>;
var<workgroup> names: array<u32, 256>;
fn compare(t: u32, k: u32) {
  if (wins(scores[k], names[k], scores[t], names[t])) { scores[t] = scores[k]; names[t] = names[k]; }
}
fn settle(t: u32) {
  workgroupBarrier();
  if (t < 16u) { for (var k = t + 16u; k < 256u; k += 16u) { compare(t, k); } }
  workgroupBarrier();
  if (t == 0u) { for (var k = 1u; k < 16u; k++) { compare(0u, k); } }
}
)";

/// Where the kept tokens end: the higher of the two cuts.
constexpr std::string_view kEdgeText = R"(
struct Edge { key: u32, take: u32, ties: u32 };
fn edge_of(c: Cut) -> Edge {
  if (c.p_key > c.k_key) { return Edge(c.p_key, c.p_take, c.p_ties); }
  if (c.p_key == c.k_key && c.p_key > 0u) { return Edge(c.k_key, min(c.p_take, c.k_take), c.k_ties); }
  return Edge(c.k_key, c.k_take, c.k_ties);
}
)";

/// Grid: 1. The best of the stripes, and of the tokens that tie at the edge and have the lowest ids: the id that the last of them
/// has is searched bit by bit. Clears the histograms for the next draw. Bindings: logits, settings, best, cut, bins of all
/// stages, ids, history, State (as storage).
constexpr std::string_view kPickDrawn = R"(
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> P: Settings;
@group(0) @binding(2) var<storage, read_write> best: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> cut: Cut;
@group(0) @binding(4) var<storage, read_write> bins: array<u32, $BINS$>;
@group(0) @binding(5) var<storage, read_write> ids: array<u32>;
@group(0) @binding(6) var<storage, read_write> history: array<u32>;
@group(0) @binding(7) var<storage, read_write> S: State;
var<workgroup> found: atomic<u32>;
var<workgroup> shared_edge: Edge;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  for (var i = t; i < $BINS$; i += 256u) { bins[i] = 0u; }
  scores[t] = 0.0;
  names[t] = none;
  if (t < $GROUPS$) { scores[t] = bitcast<f32>(best[t].x); names[t] = best[t].y; }
  if (t == 0u) { shared_edge = edge_of(cut); }
  let edge = workgroupUniformLoad(&shared_edge);
  if (edge.take < edge.ties) {
    var limit = 0u;
    for (var bit = 0x800000u; bit > 0u; bit = bit >> 1u) {
      if (t == 0u) { atomicStore(&found, 0u); }
      workgroupBarrier();
      var n = 0u;
      for (var i = t; i < min($N$, limit | bit); i += 256u) { n += u32(key_of(logits[$O$ + i]) == edge.key); }
      atomicAdd(&found, n);
      workgroupBarrier();
      if (atomicLoad(&found) < edge.take) { limit |= bit; }
      workgroupBarrier();
    }
    let away = gap(edge.key, cut.top);
    if (edge.key == cut.top || exp(away) >= P.min_p) {
      for (var i = t; i < $N$ && i <= limit; i += 256u) {
        if (key_of(logits[$O$ + i]) != edge.key) { continue; }
        let s = score(away, P.temperature, random(i, S.step, P.seed0, P.seed1));
        if (wins(s, i, scores[t], names[t])) { scores[t] = s; names[t] = i; }
      }
    }
  }
  settle(t);
  if (t == 0u) { advance(names[0]); }
}
)";

/// Workgroups that share the vocabulary: enough for many compute units, few where it is small.
uint32_t groups_for(const Rows& logits) { return std::clamp((logits.width + 4095) / 4096, 1u, 64u); }

std::string shader(std::initializer_list<std::string_view> parts, const Rows& logits) {
  std::string text(kStateStruct);
  for (std::string_view part : parts) text += part;
  return expand(text, {{"N", logits.width}, {"O", logits.offset}, {"BINS", kStages * kBins / 4}, {"GROUPS", groups_for(logits)}, {"STRIDE", groups_for(logits) * 256}});
}

}  // namespace

void draw_any(Recorder& r, const Rows& logits, const DrawBuffers& b, bool cut) {
  const auto peaks = draw_peaks(r, logits);
  // Bins of the stages, then as many zeros, and likewise cuts: stage 0 follows an empty stage. The race hands the last cut on.
  const auto bins = r.take(r.arena.raw("draw bins", uint64_t{kBins} * (kStages + 1)));
  const auto cuts = r.take(r.arena.raw("draw cuts", uint64_t{kSlot} * (kStages + 2)));
  const auto best = r.take(r.arena.raw("draw stripes", 64 * 8));
  if (r.failed()) return;
  const auto bins_after = [&](uint32_t stages) { return dispatch::Operand(bins, uint64_t{kBins} * (stages ? stages - 1 : kStages), kBins); };
  const auto cut_after = [&](uint32_t stages) { return dispatch::Operand(cuts, uint64_t{kSlot} * stages, kSlot); };
  const uint32_t stages = cut ? kStages : 0;
  for (uint32_t s = 0; s < stages; ++s)
    r.step(fmt::format("draw_cut:{}:{}", logits.width, logits.offset), [&] {
      return gpu::PipelineDesc{"draw_cut", shader({kDrawText, kCutText, kFollowText, kCutStage}, logits), kinds("rrrwwww")};
    }, {logits.buffer, peaks, b.settings, bins_after(s), cut_after(s), bins_after(s + 1), cut_after(s + 1)}, {groups_for(logits)});
  r.step(fmt::format("draw_race:{}:{}", logits.width, logits.offset), [&] {
    return gpu::PipelineDesc{"draw_race", shader({kDrawText, kCutText, kEdgeText, kRaceText, kSettleText, kFollowText, kRace}, logits), kinds("rrrwwwww")};
  }, {logits.buffer, peaks, b.settings, bins_after(stages), cut_after(stages), best, cut_after(kStages + 1), r.state}, {groups_for(logits)});
  r.step(fmt::format("draw_pick:{}:{}", logits.width, logits.offset), [&] {
    return gpu::PipelineDesc{"draw_pick", shader({kDrawText, kCutText, kEdgeText, kRaceText, kSettleText, kAdvanceText, kPickDrawn}, logits), kinds("rrwwwwww")};
  }, {logits.buffer, b.settings, best, cut_after(kStages + 1), {bins, 0, uint64_t{kBins} * kStages}, b.ids, b.history, r.state}, {1});
}

}  // namespace gull::kernels
