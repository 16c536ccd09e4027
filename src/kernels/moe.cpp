// Routing: which experts a token goes through, with what weights, and the tokens of each expert side by side.
#include "kernels/moe.h"

#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = tokens. Bindings: logits, ids, weights, [choice bias], [expert scale].
/// One workgroup a token: scores of all experts, then `used` times the best of what is left.
constexpr std::string_view kRoute = R"(
var<workgroup> prob: array<f32, $E$>;
var<workgroup> score: array<f32, $E$>;
var<workgroup> top: array<f32, 64>;
var<workgroup> at: array<u32, 64>;
var<workgroup> chosen: array<u32, $K$>;
fn largest(t: u32) -> f32 {
  for (var k = 32u; k > 0u; k = k / 2u) {
    workgroupBarrier();
    if (t < k && (top[t + k] > top[t] || (top[t + k] == top[t] && at[t + k] < at[t]))) { top[t] = top[t + k]; at[t] = at[t + k]; }
  }
  workgroupBarrier();
  let v = top[0];
  workgroupBarrier();
  return v;
}
fn total(t: u32, v: f32) -> f32 {
  top[t] = v;
  for (var k = 32u; k > 0u; k = k / 2u) {
    workgroupBarrier();
    if (t < k) { top[t] += top[t + k]; }
  }
  workgroupBarrier();
  let s = top[0];
  workgroupBarrier();
  return s;
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  for (var e = t; e < $E$; e += 64u) { prob[e] = logits[g.x * $STRIDE$ + $OFFSET$ + e]; }
  workgroupBarrier();
$GATE$
  for (var e = t; e < $E$; e += 64u) { score[e] = prob[e]$BIAS$; }
  workgroupBarrier();
$GROUPS$
  for (var s = 0u; s < $K$; s++) {
    var v = -3.4e38;
    var index = min(t, $E$ - 1u);
    for (var e = t; e < $E$; e += 64u) {
      if (score[e] > v) { v = score[e]; index = e; }
    }
    top[t] = v;
    at[t] = index;
    _ = largest(t);
    if (t == 0u) { chosen[s] = at[0]; score[at[0]] = -3.4e38; }
    workgroupBarrier();
  }
  if (t == 0u) {
    var w: array<f32, $K$>;
    for (var s = 0u; s < $K$; s++) { w[s] = prob[chosen[s]]; }
$WEIGH$
    for (var s = 0u; s < $K$; s++) {
      ids[g.x * $K$ + s] = chosen[s];
      weights[g.x * $K$ + s] = w[s] * $SCALE$$EXPERT$;
    }
  }
}
)";

constexpr std::string_view kSoftmax = R"(
  var m = -3.4e38;
  for (var e = t; e < $E$; e += 64u) { m = max(m, prob[e]); }
  top[t] = m;
  at[t] = t;
  let high = largest(t);
  var sum = 0.0;
  for (var e = t; e < $E$; e += 64u) { prob[e] = exp(prob[e] - high); sum += prob[e]; }
  let all = total(t, sum);
  for (var e = t; e < $E$; e += 64u) { prob[e] = prob[e] / all; }
)";

constexpr std::string_view kSigmoid = R"(
  for (var e = t; e < $E$; e += 64u) { prob[e] = 1.0 / (1.0 + exp(-clamp(prob[e], -80.0, 80.0))); }
)";

/// Groups follow one another; experts of all but the best groups lose their score.
constexpr std::string_view kGroups = R"(
  if (t == 0u) {
    var rank: array<f32, $G$>;
    for (var i = 0u; i < $G$; i++) {
      var a = -3.4e38;
      var b = -3.4e38;
      for (var e = i * $PER$; e < (i + 1u) * $PER$; e++) {
        let v = score[e];
        if (v > a) { b = a; a = v; } else if (v > b) { b = v; }
      }
      rank[i] = a$SECOND$;
    }
    for (var i = 0u; i < $G$; i++) {
      var better = 0u;
      for (var j = 0u; j < $G$; j++) {
        if (rank[j] > rank[i] || (rank[j] == rank[i] && j < i)) { better++; }
      }
      if (better >= $GK$) {
        for (var e = i * $PER$; e < (i + 1u) * $PER$; e++) { score[e] = -3.3e38; }
      }
    }
  }
  workgroupBarrier();
)";

constexpr std::string_view kSoftmaxOfChosen = R"(
    var m = w[0];
    for (var s = 1u; s < $K$; s++) { m = max(m, w[s]); }
    var all = 0.0;
    for (var s = 0u; s < $K$; s++) { w[s] = exp(w[s] - m); all += w[s]; }
    for (var s = 0u; s < $K$; s++) { w[s] = w[s] / all; }
)";

constexpr std::string_view kRenormalise = R"(
    var of_chosen = 0.0;
    for (var s = 0u; s < $K$; s++) { of_chosen += w[s]; }
    for (var s = 0u; s < $K$; s++) { w[s] = w[s] / max(of_chosen, 6.103515625e-5); }
)";

/// Grid: 1. Bindings: ids, order, State. Sorts (token, slot) pairs by expert: counts, starts, places.
/// The order inside an expert is left open; no result depends on it.
constexpr std::string_view kOrder = R"(
@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read_write> order: array<u32>;
@group(0) @binding(2) var<uniform> S: State;
var<workgroup> next: array<atomic<u32>, $E$>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  for (var e = t; e < $E$; e += 256u) { atomicStore(&next[e], 0u); }
  workgroupBarrier();
  for (var i = t; i < S.n * $K$; i += 256u) { atomicAdd(&next[ids[i]], 1u); }
  workgroupBarrier();
  if (t == 0u) {
    var start = 0u;
    for (var e = 0u; e < $E$; e++) {
      let count = atomicLoad(&next[e]);
      order[e] = start;
      atomicStore(&next[e], start);
      start += count;
    }
    order[$E$] = start;
  }
  workgroupBarrier();
  for (var i = t; i < S.n * $K$; i += 256u) {
    let place = atomicAdd(&next[ids[i]], 1u);
    order[$E$ + 1u + place] = i;
  }
}
)";

std::string route_source(const Rows& logits, const Router& o) {
  std::string text = "@group(0) @binding(0) var<storage, read> logits: array<f32>;\n"
                     "@group(0) @binding(1) var<storage, read_write> ids: array<u32>;\n"
                     "@group(0) @binding(2) var<storage, read_write> weights: array<f32>;\n";
  int next = 3;
  const auto bind = [&](const char* name) { text += fmt::format("@group(0) @binding({}) var<storage, read> {}: array<f32>;\n", next++, name); };
  if (o.choice_bias) bind("choice_bias");
  if (o.expert_scale) bind("expert_scale");
  std::string weigh;
  if (o.gate == Router::Gate::SoftmaxOfChosen) weigh += kSoftmaxOfChosen;
  if (o.renormalise) weigh += kRenormalise;
  const std::string_view gate = o.gate == Router::Gate::Softmax ? kSoftmax : o.gate == Router::Gate::Sigmoid ? kSigmoid : "";
  const std::string body = expand(kRoute, {{"GATE", std::string(gate)}, {"GROUPS", o.groups > 1 ? expand(kGroups, {{"SECOND", o.group_rank == 2 ? " + b" : ""}}) : std::string()},
                                           {"WEIGH", weigh}, {"BIAS", o.choice_bias ? " + choice_bias[e]" : ""},
                                           {"EXPERT", o.expert_scale ? " * expert_scale[chosen[s]]" : ""}});
  return text + expand(body, {{"E", o.experts}, {"K", o.used}, {"STRIDE", logits.stride}, {"OFFSET", logits.offset}, {"SCALE", o.scale},
                              {"G", o.groups}, {"GK", o.groups_used}, {"PER", o.experts / o.groups}});
}

}  // namespace

Routing route(Recorder& r, const Rows& logits, const Router& o) {
  Routing out;
  if (r.failed()) return out;
  const uint64_t pairs = uint64_t{r.arena.max_tokens()} * o.used;
  out.experts = o.experts, out.used = o.used;
  out.ids = r.take(r.arena.raw(fmt::format("expert ids {}", o.used), pairs * 4));
  out.weights = r.take(r.arena.raw(fmt::format("expert weights {}", o.used), pairs * 4));
  std::string letters = "rww";
  std::vector<dispatch::Operand> operands{logits.buffer, out.ids, out.weights};
  if (o.choice_bias) operands.push_back(vector_operand(o.choice_bias)), letters += 'r';
  if (o.expert_scale) operands.push_back(vector_operand(o.expert_scale)), letters += 'r';
  const std::string key = fmt::format("moe_route:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", static_cast<int>(o.gate), o.experts, o.used, o.renormalise, o.scale,
                                      o.groups, o.groups_used, o.group_rank, bool(o.choice_bias), bool(o.expert_scale), logits.stride, logits.offset);
  r.step(key, [&] { return gpu::PipelineDesc{"moe_route", route_source(logits, o), kinds(letters)}; }, std::move(operands),
         {1, dispatch::Var::Tokens, 1});
  if (r.decode()) return out;
  out.order = r.take(r.arena.raw(fmt::format("expert order {}", o.used), (o.experts + 1 + pairs) * 4));
  r.step(fmt::format("moe_order:{}:{}", o.experts, o.used), [&] {
    return gpu::PipelineDesc{"moe_order", std::string(kStateStruct) + expand(kOrder, {{"E", o.experts}, {"K", o.used}}), kinds("rwu")};
  }, {out.ids, out.order, r.state}, {1});
  return out;
}

}  // namespace gull::kernels
