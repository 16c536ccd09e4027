// Attention with an online softmax: any KV length, no matrix of scores. Decode splits the KV length over workgroups.
#include <algorithm>
#include <bit>

#include "kernels/attention_row.h"
#include "kernels/attention_tile.h"
#include "kernels/dot8/dot8.h"
#include "kernels/kv.h"
#include "kernels/ops.h"
#include "kernels/quantise8.h"
#include "kernels/tuning.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

constexpr uint32_t kThreads = 64;

/// Grid: x = heads, y = tokens. Bindings: q, K, V, y, State, [sinks].
/// 64 positions at a time: each thread scores one, then the threads share the value dimensions, `PARTS` positions apart. Inner
/// loops are unrolled here: see attention_tile.cpp.
constexpr std::string_view kAttention = R"(
var<workgroup> qs: array<vec4<f32>, $D4$>;
var<workgroup> sc: array<f32, 64>;
var<workgroup> red: array<f32, 64>;
var<workgroup> vals: array<vec4<f32>, $VALS$>;
fn top(t: u32, v: f32) -> f32 {
  red[t] = v;
  workgroupBarrier();
  for (var k = 32u; k > 0u; k = k / 2u) {
    if (t < k) { red[t] = max(red[t], red[t + k]); }
    workgroupBarrier();
  }
  let m = red[0];
  workgroupBarrier();
  return m;
}
fn sum(t: u32, v: f32) -> f32 {
  red[t] = v;
  workgroupBarrier();
  for (var k = 32u; k > 0u; k = k / 2u) {
    if (t < k) { red[t] += red[t + k]; }
    workgroupBarrier();
  }
  let s = red[0];
  workgroupBarrier();
  return s;
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = g.x;
  let kvh = head / $GROUP$;
  let pos = S.pos + g.y;
  $RANGE$
  let j0 = start;
  let j1 = end;
  for (var i = t; i < $D4$; i += 64u) { qs[i] = q[(g.y * $QS$ + $QO$ + head * $D$) / 4u + i] * $SCALE$; }
  workgroupBarrier();
  let dim = t % $DT$;
  let first = t / $DT$;
  var acc: array<vec4<f32>, $DPT$>;
  for (var i = 0u; i < $DPT$; i++) { acc[i] = vec4<f32>(0.0); }
  var m = -3.0e38;
  var l = 0.0;
  for (var j = j0; j < j1; j += 64u) {
    var s = -3.0e38;
    if (j + t < j1) {
      var d = vec4<f32>(0.0);
      let kb = ((j + t) * $KV$ + kvh) * $D4$;
      for (var i0 = 0u; i0 < $D4$; i0 += $STEP$) {
$KEYS$
      }
      s = d.x + d.y + d.z + d.w;
      $CAP$
    }
    let best = max(m, top(t, s));
    let p = select(0.0, exp(s - best), j + t < j1);
    sc[t] = p;
    let fix = exp(m - best);
    l = l * fix + sum(t, p);
    m = best;
    let count = min(64u, j1 - j);
    for (var i = 0u; i < $DPT$; i++) {
      var a = acc[i] * fix;
      let d4 = dim + i * $DT$;
      if (d4 < $D4$ && first < $PARTS$) {
        for (var c0 = first; c0 < count; c0 += 4u * $PARTS$) {
$VALUES$
        }
      }
      acc[i] = a;
    }
    workgroupBarrier();
  }
  for (var i = 0u; i < $DPT$; i++) {
    if (first < $PARTS$) { vals[first * $DTALL$ + dim + i * $DT$] = acc[i]; }
  }
  workgroupBarrier();
  $SINK$
  for (var i = t; i < $D4$; i += 64u) {
    var a = vec4<f32>(0.0);
    for (var c = 0u; c < $PARTS$; c++) { a += vals[c * $DTALL$ + i]; }
    $OUT$
  }
}
)";

/// Grid: x = heads, z = splits. The decode kernel: a chunk of C = T ÷ 4 positions at a time, four threads a position, so that
/// all keys of a chunk are in flight at once; then all threads share the value dimensions. Where there is one split, the
/// finished row is written (and quantised), else (max, sum, splits) and the values of the part, for the merge.
/// Bindings: q, K, V, y or parts, State, [sinks], [Y8].
constexpr std::string_view kPart = R"(
var<workgroup> qs: array<vec4<f32>, $D4$>;
var<workgroup> quarter: array<f32, $T$>;
var<workgroup> sc: array<f32, $C$>;
var<workgroup> tops: array<f32, $SUBS$>;
var<workgroup> sums: array<f32, $SUBS$>;
var<workgroup> vals: array<vec4<f32>, $VALS$>;
var<workgroup> row: array<vec4<f32>, $D4$>;
@compute @workgroup_size($T$)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>, @builtin(local_invocation_index) t: u32$SGARGS$) {
  let head = g.x;
  let kvh = head / $GROUP$;
  let pos = S.pos;
  $RANGE$
  let per = ((end - start + nw.z - 1u) / nw.z + 63u) / 64u * 64u;
  let j0 = start + g.z * per;
  let j1 = min(end, j0 + per);
  for (var i = t; i < $D4$; i += $T$) { qs[i] = q[($QO$ + head * $D$) / 4u + i] * $SCALE$; }
  workgroupBarrier();
  let dim = t % $DT$;
  let first = t / $DT$;
  var a = vec4<f32>(0.0);
  var m = -3.0e38;
  var l = 0.0;
  for (var j = j0; j < j1; j += $C$) {
    let at = j + t / 4u;
    var d = vec4<f32>(0.0);
    let kb = (min(at, j1 - 1u) * $KV$ + kvh) * $D4$;
    for (var i = t % 4u; i < $D4$; i += 4u) { d += qs[i] * $LOADK$; }
    quarter[t] = d.x + d.y + d.z + d.w;
$EARLY$
    workgroupBarrier();
    var s = -3.0e38;
    if (t < $C$ && j + t < j1) {
      s = quarter[4u * t] + quarter[4u * t + 1u] + quarter[4u * t + 2u] + quarter[4u * t + 3u];
      $CAP$
    }
$TOP$
    let p = select(0.0, exp(s - best), t < $C$ && j + t < j1);
    let fix = exp(m - best);
    m = best;
$SUM$
    a = a * fix;
$VALUES$
    workgroupBarrier();
  }
  if (first < $PARTS$) { vals[first * $DT$ + dim] = a; }
  workgroupBarrier();
  if (t < $DT$ * $MANY$) {
    var s = vals[t];
    for (var c = t + $DT$ * $MANY$; c < $PARTS$ * $DT$; c += $DT$ * $MANY$) { s += vals[c]; }
    vals[t] = s;
  }
  workgroupBarrier();
$FINISH$
}
)";

/// Largest score and sum of a chunk by subgroups (C is a multiple of their size), or through workgroup memory.
constexpr std::string_view kTopSubgroups = R"(    let top = subgroupMax(s);
    if (lane == 0u) { tops[t / size] = top; }
    workgroupBarrier();
    var best = m;
    for (var i = 0u; i < $T$ / size; i++) { best = max(best, tops[i]); })";
constexpr std::string_view kSumSubgroups = R"(    let part = subgroupAdd(p);
    if (lane == 0u) { sums[t / size] = part; }
    if (t < $C$) { sc[t] = p; }
    workgroupBarrier();
    l = l * fix;
    for (var i = 0u; i < $T$ / size; i++) { l += sums[i]; })";
constexpr std::string_view kTopShared = R"(    if (t < $C$) { sc[t] = s; }
    workgroupBarrier();
    var best = m;
    for (var i = 0u; i < $C$; i++) { best = max(best, sc[i]); }
    workgroupBarrier();)";
constexpr std::string_view kSumShared = R"(    if (t < $C$) { sc[t] = p; }
    workgroupBarrier();
    l = l * fix;
    for (var i = 0u; i < $C$; i++) { l += sc[i]; })";

constexpr std::string_view kFinishPart = R"(  for (var i = t; i < $D4$; i += $T$) {
    var s = vec4<f32>(0.0);
    for (var c = 0u; c < $MANY$; c++) { s += vals[c * $DT$ + i]; }
    let to = (head * $MAX$ + g.z) * $PART4$;
    y[to + 1u + i] = s;
    if (i == 0u) { y[to] = vec4<f32>(m, l, f32(nw.z), 0.0); }
  })";
constexpr std::string_view kFinishRow = R"(  $SINK$
  for (var i = t; i < $D4$; i += $T$) {
    var s = vec4<f32>(0.0);
    for (var c = 0u; c < $MANY$; c++) { s += vals[c * $DT$ + i]; }
    s = s * fix_out / l;
    y[($YO$ + head * $D$) / 4u + i] = s;
    row[i] = s;
  }
$QUANTISE$)";

/// Grid: x = heads. Merges the parts of a split attention; the result is left quantised too where that is wanted.
/// Bindings: parts, y, [sinks], [Y8].
constexpr std::string_view kMerge = R"(
var<workgroup> row: array<vec4<f32>, $D4$>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let base = g.x * $MAX$ * $PART4$;
  let used = u32(parts[base].z);
  var m = -3.0e38;
  for (var s = 0u; s < used; s++) { m = max(m, parts[base + s * $PART4$].x); }
  $SINKMAX$
  var l = 0.0;
  for (var s = 0u; s < used; s++) { let h = parts[base + s * $PART4$]; l += h.y * exp(h.x - m); }
  $SINKSUM$
  for (var i = t; i < $D4$; i += 64u) {
    var a = vec4<f32>(0.0);
    for (var s = 0u; s < used; s++) { a += parts[base + s * $PART4$ + 1u + i] * exp(parts[base + s * $PART4$].x - m); }
    a = a / l;
    y[($YO$ + g.x * $D$) / 4u + i] = a;
    row[i] = a;
  }
$QUANTISE$
}
)";

/// Blocks of 32 (dot8.h), a word a thread.
constexpr std::string_view kQuantise = R"(  workgroupBarrier();
  for (var i = t; i < $D4$; i += $T$) {
    let b = i / 8u;
    var top = vec4<u32>(0u);
    for (var c = 0u; c < 8u; c++) { top = max(top, bitcast<vec4<u32>>(abs(row[b * 8u + c]))); }
    let peak = bitcast<f32>(max(max(top.x, top.y), max(top.z, top.w)));
    let id = select(0.0, 127.0 / peak, peak > 1e-30);
    let at = $AT8$ * 4u;
    let q = vec4<u32>(vec4<i32>(round(row[i] * id))) & vec4<u32>(255u);
    Y8[i % 8u / 4u * 4u * $N8$ + at + i % 4u] = q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
    if (i % 8u < 2u) {
      var s = vec4<f32>(0.0);
      for (var c = 0u; c < 4u; c++) { s += round(row[b * 8u + (i % 8u) * 4u + c] * id); }
      Y8[8u * $N8$ + at + 1u + i % 8u] = bitcast<u32>((s.x + s.y + s.z + s.w) * peak / 127.0);
    }
    if (i % 8u == 2u) { Y8[8u * $N8$ + at] = bitcast<u32>(peak / 127.0); }
  }
)";

struct Geometry {
  uint32_t d, d4, threads, per_thread, parts;
  explicit Geometry(uint32_t head_dim) : d(head_dim), d4(head_dim / 4) {
    threads = std::min(d4, kThreads);
    per_thread = (d4 + threads - 1) / threads;
    parts = std::max(kThreads / threads, 1u);
  }
};

std::string declarations(const KvLayer& kv, bool sinks) {
  std::string text(kStateStruct);
  text += "@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;\n";
  text += fmt::format("@group(0) @binding(1) var<storage, read> K: array<{0}>;\n@group(0) @binding(2) var<storage, read> V: array<{0}>;\n",
                      kv_element(kv.type));
  text += "@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;\n@group(0) @binding(4) var<uniform> S: State;\n";
  if (sinks) text += "@group(0) @binding(5) var<storage, read> sinks: array<f32>;\n";
  return text + kv_helpers(kv.type);
}

std::string source(const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y) {
  const Geometry geo(kv.head_dim);
  const bool sinks = bool(a.sinks);
  const std::string cap = a.softcap > 0 ? expand("s = $C$ * tanh(clamp(s / $C$, -20.0, 20.0));", {{"C", a.softcap}}) : std::string();
  const std::string out = expand("y[(g.y * $YS$ + $YO$ + head * $D$) / 4u + i] = a * fix_out / l;", {{"YS", y.stride}, {"YO", y.offset}, {"D", geo.d}});
  const std::string load_v_index = fmt::format("((j + c) * {}u + kvh) * {}u + d4", kv.heads, geo.d4);
  const uint32_t step = geo.d4 % 4 == 0 ? 4 : 1;
  std::string keys, values;
  for (uint32_t u = 0; u < step; ++u) keys += fmt::format("        {{ let i = i0 + {}u; d += qs[i] * {}; }}\n", u, kv_load(kv.type, "K", "kb + i"));
  for (uint32_t u = 0; u < 4; ++u)
    values += fmt::format("          {{ let c = c0 + {}u; if (c < count) {{ a += sc[c] * {}; }} }}\n", u * geo.parts, kv_load(kv.type, "V", load_v_index));
  const std::string body = expand(kAttention, {{"RANGE", range_text(a)}, {"CAP", cap}, {"OUT", out}, {"SINK", sink_text(sinks)},
                                               {"KEYS", keys}, {"VALUES", values}, {"STEP", step}});
  return declarations(kv, sinks) +
         expand(body, {{"D", geo.d}, {"D4", geo.d4}, {"DT", geo.threads}, {"DPT", geo.per_thread}, {"PARTS", geo.parts},
                       {"DTALL", geo.threads * geo.per_thread}, {"VALS", geo.threads * geo.per_thread * geo.parts},
                       {"GROUP", a.heads / kv.heads}, {"KV", kv.heads}, {"QS", q.stride}, {"QO", q.offset}, {"SCALE", a.scale}});
}

/// Threads of the decode kernel, `d4` vec4 a head: many, where subgroups make the reductions cheap.
uint32_t part_threads(const gpu::Caps& caps, const Choices& choices, uint32_t d4) {
  if (choices.few_threads) return std::max(64u, std::bit_ceil(d4));
  const bool quick = caps.subgroups && caps.linear_subgroups && caps.subgroup_max <= 64;
  return quick && caps.max_invocations >= 1024 && caps.max_workgroup_x >= 1024 && caps.max_workgroup_memory >= 32768 ? 1024 : 256;
}

std::string part_source(const gpu::Caps& caps, uint32_t t, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y, bool direct, bool quantise) {
  const uint32_t c = t / 4;
  const bool subgroups = caps.subgroups && caps.linear_subgroups && caps.subgroup_max <= 64 && caps.subgroup_min >= 4;
  const uint32_t d4 = kv.head_dim / 4, threads = std::min(d4, t), parts = t / threads;
  const std::string cap = a.softcap > 0 ? expand("s = $C$ * tanh(clamp(s / $C$, -20.0, 20.0));", {{"C", a.softcap}}) : std::string();
  // The values of a chunk are asked for before its scores are known, where they fit into registers.
  const uint32_t loads = (c + parts - 1) / parts;
  std::string early, values;
  const auto load_v = [&](const std::string& at) { return kv_load(kv.type, "V", fmt::format("(({}) * {}u + kvh) * {}u + dim", at, kv.heads, d4)); };
  if (loads <= 8 && d4 == threads && t % d4 == 0 && parts <= c) {   // else `first` would pass the chunk's end
    for (uint32_t i = 0; i < loads; ++i) {
      early += fmt::format("    let v{} = {};\n", i, load_v(fmt::format("min(j + first + {}u, j1 - 1u)", i * parts)));
      values += fmt::format("    a += select(0.0, sc[first + {0}u], j + first + {0}u < j1) * v{1};\n", i * parts, i);
    }
  } else {
    values = expand("    let count = min($C$, j1 - j);\n    if (dim < $D4$ && first < $PARTS$) {\n      for (var c = first; c < count; c += $PARTS$) { a += sc[c] * $LOAD$; }\n    }",
                    {{"LOAD", load_v("j + c")}});
  }
  const std::string finish = direct ? expand(kFinishRow, {{"SINK", sink_text(bool(a.sinks))}, {"QUANTISE", quantise ? std::string(kQuantise) : std::string()}})
                                    : std::string(kFinishPart);
  const std::string body = expand(kPart, {{"RANGE", range_text(a)}, {"CAP", cap}, {"LOADK", kv_load(kv.type, "K", "kb + i")},
                                          {"EARLY", early}, {"VALUES", values}, {"FINISH", finish},
                                          {"TOP", std::string(subgroups ? kTopSubgroups : kTopShared)},
                                          {"SUM", std::string(subgroups ? kSumSubgroups : kSumShared)},
                                          {"SGARGS", subgroups ? ", @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32" : ""}});
  std::string text = preamble(caps, false, subgroups) + declarations(kv, direct && a.sinks);
  if (quantise) text += fmt::format("@group(0) @binding({}) var<storage, read_write> Y8: array<u32>;\n", direct && a.sinks ? 6 : 5);
  return text + expand(body, {{"T", t}, {"C", c}, {"SUBS", std::max(t / std::max(caps.subgroup_min, 4u), 1u)}, {"D", kv.head_dim}, {"D4", d4},
                              {"DT", threads}, {"PARTS", parts}, {"MANY", parts >= 16 ? 8u : parts}, {"VALS", threads * parts}, {"GROUP", a.heads / kv.heads}, {"KV", kv.heads},
                              {"QO", q.offset}, {"YO", y.offset}, {"SCALE", a.scale}, {"MAX", kMaxSplits}, {"PART4", d4 + 1}, {"N8", a.heads * kv.head_dim / 32},
                              {"AT8", place8(expand("(g.x * $D4$ / 8u + b)", {{"D4", d4}}), a.heads * kv.head_dim / 32)}});
}

std::string merge_source(const KvLayer& kv, const Attention& a, const Rows& y, bool quantise) {
  const Geometry geo(kv.head_dim);
  std::string text = "@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;\n"
                     "@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;\n";
  if (a.sinks) text += "@group(0) @binding(2) var<storage, read> sinks: array<f32>;\n";
  if (quantise) text += fmt::format("@group(0) @binding({}) var<storage, read_write> Y8: array<u32>;\n", a.sinks ? 3 : 2);
  const std::string body = expand(kMerge, {{"QUANTISE", quantise ? std::string(kQuantise) : std::string()}});
  return text + expand(body, {{"T", kThreads}, {"MAX", kMaxSplits}, {"PART4", geo.d4 + 1}, {"D", geo.d}, {"D4", geo.d4}, {"YO", y.offset}, {"N8", a.heads * geo.d / 32},
                                {"AT8", place8(expand("(g.x * $D4$ / 8u + b)", {{"D4", geo.d4}}), a.heads * geo.d / 32)},
                                {"SINKMAX", a.sinks ? "m = max(m, sinks[g.x]);" : ""}, {"SINKSUM", a.sinks ? "l += exp(sinks[g.x] - m);" : ""}});
}

void merge(Recorder& r, const gpu::BufferRef& parts, const KvLayer& kv, const Attention& a, const Rows& y, const gpu::BufferRef& y8) {
  std::vector<dispatch::Operand> operands{parts, y.buffer};
  std::string letters = "rw";
  if (a.sinks) operands.push_back(vector_operand(a.sinks)), letters += 'r';
  if (y8) operands.push_back(y8), letters += 'w';
  const std::string key = fmt::format("attention_merge:{}:{}:{}:{}:{}", a.heads, kv.head_dim, y.offset, bool(a.sinks), bool(y8));
  r.step(key, [&] { return gpu::PipelineDesc{"attention merge", merge_source(kv, a, y, bool(y8)), kinds(letters)}; }, std::move(operands), {a.heads});
}

/// Whichever kernel it takes.
void attend(Recorder& r, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y) {
  if (attention_tile_fits(r, kv)) return attention_tile(r, q, kv, a, y);
  const bool decode = r.decode() && a.causal;
  const std::string key = fmt::format("attention:{}:{}:{}:{}/{}:{}:{}:{}:{}/{}:{}:{}:{}", kv.head_dim, kv.heads, static_cast<int>(kv.type),
                                      a.heads, a.scale, a.softcap, a.window, a.causal, bool(a.sinks), q.stride, q.offset, y.stride, y.offset);
  std::vector<dispatch::Operand> operands{q.buffer, kv.k, kv.v};
  std::string letters = "rrrwu";
  if (!decode) {
    operands.push_back(y.buffer), operands.push_back(r.state);
    if (a.sinks) operands.push_back(vector_operand(a.sinks)), letters += 'r';
    return r.step(key, [&] { return gpu::PipelineDesc{"attention", source(q, kv, a, y), kinds(letters)}; }, std::move(operands),
                  {a.heads}, {1, dispatch::Var::Tokens, 1});
  }
  gpu::BufferRef y8;
  if (r.choices.packed_dot && kv.head_dim % 32 == 0 && y.offset == 0 && !kv_mixes(kv.type))
    y8 = block_buffer(r, y);
  const bool quick = attention_row_fits(r, kv);
  const uint32_t threads = part_threads(r.caps(), r.choices, kv.head_dim / 4);
  const bool link = quick && r.choices.chain;
  const uint32_t row_threads = link ? kChainThreads : kAttentionRowThreads;
  const std::string kernel = quick ? fmt::format(":subgroups:{}", row_threads) : fmt::format(":{}", threads);
  AttentionWords words;
  const auto text = [&](bool direct, bool quantise) {
    return quick ? attention_row_source(r.caps(), q, kv, a, y, direct, quantise, row_threads, words) : part_source(r.caps(), threads, q, kv, a, y, direct, quantise);
  };
  if (r.short_context) {
    operands.push_back(y.buffer), operands.push_back(r.state);
    if (a.sinks) operands.push_back(vector_operand(a.sinks)), letters += 'r';
    if (y8) operands.push_back(y8), letters += 'w';
    if (link) words = {q.offset == 0 ? r.taken_at(q.buffer) : 0, r.put_at(y8, a.heads * kv.head_dim / 32 * kBlock8Words)};
    const std::string name = key + (y8 ? ":row8" : ":row") + kernel + fmt::format("/{}:{}", words.qkv, words.y8);
    const auto describe = [&] { return gpu::PipelineDesc{"attention row", text(true, bool(y8)), kinds(letters)}; };
    // With its own row taken, it reads of the cache only what earlier dispatches wrote.
    if (link) r.link(name, describe, std::move(operands), a.heads, words.qkv ? dispatch::Takes::Part : dispatch::Takes::Nothing,
                     words.qkv ? std::vector<size_t>{} : std::vector<size_t>{0, 1, 2});
    else r.step(name, describe, std::move(operands), {a.heads});
  } else {
    auto parts = r.take(r.arena.raw("attention parts", uint64_t{a.heads} * kMaxSplits * (kv.head_dim / 4 + 1) * 16));
    if (r.failed()) return;
    operands.push_back(parts), operands.push_back(r.state);
    r.step(key + ":part" + kernel, [&] { return gpu::PipelineDesc{"attention part", text(false, false), kinds(letters)}; },
           std::move(operands), {a.heads}, {}, {1, dispatch::Var::Splits, 1});
    merge(r, parts, kv, a, y, y8);
  }
  if (y8 && !r.failed()) r.twins[y.buffer->id()] = y8;
}

}  // namespace

uint32_t short_context(const gpu::Caps& caps, const Choices& choices) { return choices.few_threads ? 512 : 2 * part_threads(caps, choices, 0) / 4; }

uint32_t attention_splits(uint32_t kv_length) {
  return std::clamp((kv_length + 63) / 64, 1u, kMaxSplits);
}

void attention(Recorder& r, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y) {
  if (r.failed()) return;
  attend(r, q, kv, a, y);
  if (kv_mixes(kv.type) && !r.failed()) kv_unmix(r, y, a.heads, kv.head_dim);
}

}  // namespace gull::kernels
