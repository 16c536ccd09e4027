#include "kernels/attention_row.h"

#include <algorithm>
#include <bit>

#include "kernels/chain_text.h"
#include "kernels/dot8/dot8.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = heads, z = splits; groups of 32 threads. A group reads rows of keys 16 bytes a thread, several rows a load, and
/// asks for the values at the same time; each keeps its own maximum and sums, so that nothing waits until all meet at the end:
/// one barrier. That is what a short context needs, where latency is all there is.
/// Bindings: q, K, V, y or parts, State, [sinks], [Y8].
constexpr std::string_view kRow = R"(
var<workgroup> tops: array<vec2<f32>, $W$>;
var<workgroup> vals: array<f32, $W$ * $D$>;
@compute @workgroup_size($T$)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = g.x;
  let kvh = head / $GROUP$;
  let pos = S.pos;
  $RANGE$
  let per = (end - start + nw.z - 1u) / nw.z;
  let j0 = start + g.z * per;
  let j1 = min(end, j0 + per)$LESS$;
  let lane = t % 32u;
  let warp = t / 32u;
  let piece = lane % $LANES$;
  let slot = lane / $LANES$;
$EARLY$
$QUERY$
  var m = -3.0e38;
  var l = 0.0;
$ACC$
$ROWS$
$OWN$
$GATHER$
  if (slot == 0u) {
$STORE$
  }
  if (lane == 0u) { tops[warp] = vec2<f32>(m, l); }
  workgroupBarrier();
  if (t < $D$) {
    m = -3.0e38;
    for (var i = 0u; i < $W$; i++) { m = max(m, tops[i].x); }
    l = 0.0;
    var v = 0.0;
    for (var i = 0u; i < $W$; i++) {
      let weight = exp(tops[i].x - m);
      l += tops[i].y * weight;
      v += vals[i * $D$ + t] * weight;
    }
$FINISH$
  }
}
)";

constexpr std::string_view kRows = R"(  for (var j = j0 + warp * $P$; j < j1; j += $W$ * $P$) {
$LOAD$
$SCORE$
$MIX$
  })";

/// In a chain the first rows are asked for before the query is there, and the next ones when those before them have been used.
constexpr std::string_view kRowsEarly = R"(  let last = max(j1, 1u) - 1u;
  var j = j0 + warp * $P$;
$LOAD$)";
constexpr std::string_view kRowsLate = R"(  while (j < j1) {
$SCORE$
$MIX$
    j += $W$ * $P$;
$LOAD$
  })";

constexpr std::string_view kFinishPart = R"(    let to = (head * $MAX$ + g.z) * $PART$;
    y[to + 4u + t] = v;
    if (t == 0u) { y[to] = m; y[to + 1u] = l; y[to + 2u] = f32(nw.z); })";

/// 32 threads hold a block of 32 (dot8.h): it is quantised by shuffles.
constexpr std::string_view kQuantise = R"(    var most = bitcast<u32>(abs(v));
$PEAK$
    let peak = bitcast<f32>(most);
    let q8 = i32(round(v * select(0.0, 127.0 / peak, peak > 1e-30)));
    var sum = q8;
$SUM$
    var word = (u32(q8) & 0xffu) << ((t & 3u) * 8u);
    word |= subgroupShuffleXor(word, 1u);
    word |= subgroupShuffleXor(word, 2u);
    let block = g.x * $D$ / 32u + t / 32u;
    let at = $AT$ * 4u;
    let d = peak / 127.0;
    if ((t & 3u) == 0u) { let i = lane / 16u * 4u * $N$ + at + lane / 4u % 4u; Y8[i] = word; $PUT$ }
    if (lane < 2u) { let i = 8u * $N$ + at + lane * 3u; let word = select(bitcast<u32>(d), 0u, lane == 1u); Y8[i] = word; $PUT$ }
    if (lane % 16u == 0u) { let i = 8u * $N$ + at + 1u + lane / 16u; let word = bitcast<u32>(d * f32(sum)); Y8[i] = word; $PUT$ })";

/// The token's own key and value, which the cache holds only when the dispatch is over. Bindings as before, and q, k, v from the area.
constexpr std::string_view kOwn = R"(  if (warp == 0u) {
    var s0 = $DOT$;
$ADD$
$CAP$
    s0 = select(-3.0e38, s0, slot == 0u);
$MIX$
  })";

/// How a row of a head lies over the threads of a group.
struct Lay {
  uint32_t floats;     ///< of one 16-byte load
  uint32_t lanes;      ///< threads a row
  uint32_t rows;       ///< rows a load of a group
  uint32_t unroll;     ///< loads a turn
  explicit Lay(const KvLayer& kv)
      : floats(kv.type == KvType::F16 ? 8 : 4), lanes(kv.head_dim / floats), rows(32 / std::max(lanes, 1u)), unroll(rows >= 8 ? 2 : 4) {}
};

std::string shuffled(std::string_view operation, std::string_view name, uint32_t from, uint32_t to) {
  std::string text;
  for (uint32_t step = from; step < to; step *= 2)
    text += operation == "max" ? fmt::format("    {0} = max({0}, subgroupShuffleXor({0}, {1}u));\n", name, step)
                               : fmt::format("    {0} += subgroupShuffleXor({0}, {1}u);\n", name, step);
  return text;
}

/// The four floats number `half` of the loaded 16 bytes.
std::string floats_of(const KvLayer& kv, const std::string& name, uint32_t half) {
  if (kv.type == KvType::F32) return fmt::format("bitcast<vec4<f32>>({})", name);
  return fmt::format("vec4<f32>(unpack2x16float({0}.{1}), unpack2x16float({0}.{2}))", name, half ? "z" : "x", half ? "w" : "y");
}

std::string cap_text(const Attention& a, uint32_t i) {
  return a.softcap > 0 ? expand(fmt::format("    s{0} = $C$ * tanh(clamp(s{0} / $C$, -20.0, 20.0));\n", i), {{"C", a.softcap}}) : "";
}

std::string score_text(const KvLayer& kv, const Attention& a, const Lay& lay) {
  std::string text;
  for (uint32_t i = 0; i < lay.unroll; ++i) {
    text += fmt::format("    var s{0} = dot({1}, q0){2};\n", i, floats_of(kv, fmt::format("k{}", i), 0),
                        lay.floats == 8 ? fmt::format(" + dot({}, q1)", floats_of(kv, fmt::format("k{}", i), 1)) : "");
  }
  for (uint32_t i = 0; i < lay.unroll; ++i) text += shuffled("add", fmt::format("s{}", i), 1, lay.lanes);
  for (uint32_t i = 0; i < lay.unroll; ++i) {
    text += cap_text(a, i) + fmt::format("    s{0} = select(-3.0e38, s{0}, j + slot + {1}u < j1);\n", i, i * lay.rows);
  }
  return text;
}

/// Takes `rows` scored rows into the sums; `value` gives four floats of row i.
std::string mix_text(const Lay& lay, uint32_t rows, const std::function<std::string(uint32_t i, uint32_t half)>& value) {
  std::string text = "    var top = s0;\n";
  for (uint32_t i = 1; i < rows; ++i) text += fmt::format("    top = max(top, s{});\n", i);
  text += shuffled("max", "top", lay.lanes, 32) + "    let best = max(m, top);\n    let fix = exp(m - best);\n    m = best;\n    l = l * fix;\n";
  for (uint32_t h = 0; h < lay.floats / 4; ++h) text += fmt::format("    v{0} = v{0} * fix;\n", h);
  for (uint32_t i = 0; i < rows; ++i) {
    text += fmt::format("    let p{0} = exp(s{0} - best);\n    l += p{0};\n", i);
    for (uint32_t h = 0; h < lay.floats / 4; ++h) text += fmt::format("    v{} += p{} * {};\n", h, i, value(i, h));
  }
  return text;
}

/// The token's own key and value, for the first group of threads.
std::string own_text(const KvLayer& kv, const Attention& a, const Lay& lay) {
  const uint32_t d4 = kv.head_dim / 4, halves = lay.floats / 4;
  const auto row = [&](uint32_t which, uint32_t half) { return fmt::format("own[{}u + piece * {}u + {}u]", which * d4, halves, half); };
  std::string dot;
  for (uint32_t h = 0; h < halves; ++h) dot += fmt::format("{}dot({}, q{})", h ? " + " : "", row(1, h), h);
  return expand(kOwn, {{"DOT", dot}, {"ADD", shuffled("add", "s0", 1, lay.lanes)}, {"CAP", cap_text(a, 0)},
                       {"MIX", mix_text(lay, 1, [&](uint32_t, uint32_t h) { return row(2, h); })}});
}

}  // namespace

namespace {

/// q, k and v of the token, of this head, into workgroup memory.
std::string taken_text(const KvLayer& kv, const Attention& a, uint32_t threads, uint32_t from) {
  const uint32_t d = kv.head_dim, q = a.heads * d;
  const std::string at = expand("  let own_q = $F$ + head * $D$;\n  let own_k = $F$ + $Q$ + kvh * $D$ - $D$;\n  let own_v = own_k + $KV$ - $D$;\n",
                                {{"F", from}, {"D", d}, {"Q", q}, {"KV", kv.heads * d}});
  const auto place = [&](const std::string& i) { return fmt::format("select(select(own_v, own_k, {0} < {1}u), own_q, {0} < {2}u) + {0}", i, 2 * d, d); };
  std::string arrived = "0u";
  for (uint32_t i = 0; i < Lay(kv).unroll; ++i) arrived += fmt::format(" ^ k{0}.x ^ w{0}.x", i);
  return at + "  let arrived = " + arrived + ";\n" + take_all(3 * d, threads, "arrived", place, [](const std::string& i, const std::string& v) { return fmt::format("own[{0} >> 2u][{0} & 3u] = bitcast<f32>({1});", i, v); }) + "  workgroupBarrier();\n";
}

}  // namespace

std::string range_text(const Attention& a) {
  if (a.causal) {
    return a.window ? fmt::format("let end = pos + 1u;\n  let start = u32(max(i32(end) - {}, 0));", a.window)
                    : "let end = pos + 1u;\n  let start = 0u;";
  }
  return a.window ? fmt::format("let end = min(S.kv, pos + {0}u + 1u);\n  let start = u32(max(i32(pos) - {0}, 0));", a.window / 2)
                  : "let end = S.kv;\n  let start = 0u;";
}

std::string sink_text(bool sinks) {
  return sinks ? "let sink = sinks[head];\n  let top_out = max(m, sink);\n  let fix_out = exp(m - top_out);\n  l = l * fix_out + exp(sink - top_out);"
               : "let fix_out = 1.0;";
}

bool attention_row_fits(const Recorder& r, const KvLayer& kv) {
  const gpu::Caps& caps = r.caps();
  if (!r.choices.subgroups || !caps.subgroups || !caps.linear_subgroups || caps.subgroup_min < 32) return false;
  if (caps.max_invocations < kAttentionRowThreads || caps.max_workgroup_x < kAttentionRowThreads) return false;
  if ((kv.type != KvType::F16 && kv.type != KvType::F32) || kv.head_dim % 32) return false;
  const uint32_t lanes = Lay(kv).lanes;
  return std::has_single_bit(lanes) && lanes <= 32 && kAttentionRowThreads / 32 * (kv.head_dim * 4 + 8) <= caps.max_workgroup_memory;
}

std::string attention_row_source(const gpu::Caps& caps, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y, bool direct, bool quantise,
                                 uint32_t threads, const AttentionWords& words) {
  const Lay lay(kv);
  const uint32_t halves = lay.floats / 4, blocks = a.heads * kv.head_dim / 32;
  const bool taken = words.qkv != 0;
  const auto value = [&](uint32_t i, uint32_t h) { return floats_of(kv, fmt::format("w{}", i), h); };
  std::string query = taken ? taken_text(kv, a, threads, words.qkv) : "", acc, gather = shuffled("add", "l", lay.lanes, 32), store;
  for (uint32_t h = 0; h < halves; ++h) {
    query += expand(fmt::format("  let q{0} = $FROM$[$AT$piece * {1}u + {0}u] * $SCALE$;\n", h, halves),
                    {{"FROM", taken ? "own" : "q"}, {"AT", taken ? "" : fmt::format("({}u + head * {}u) / 4u + ", q.offset, kv.head_dim)}, {"SCALE", a.scale}});
    acc += fmt::format("  var v{} = vec4<f32>(0.0);\n", h);
    gather += shuffled("add", fmt::format("v{}", h), lay.lanes, 32);
    for (uint32_t c = 0; c < 4; ++c)
      store += fmt::format("    vals[warp * {}u + piece * {}u + {}u] = v{}.{};\n", kv.head_dim, lay.floats, 4 * h + c, h, "xyzw"[c]);
  }
  const auto loads = [&](const char* let, const char* last) {
    std::string text;
    for (uint32_t i = 0; i < lay.unroll; ++i)
      text += fmt::format("    {4}at{0} = (min(j + slot + {1}u, {5}) * {2}u + kvh) * {3}u + piece;\n    {4}k{0} = K[at{0}];\n    {4}w{0} = V[at{0}];\n", i,
                          i * lay.rows, kv.heads, lay.lanes, let, last);
    return text;
  };
  const std::string turn = mix_text(lay, lay.unroll, value);
  const std::string rows = taken ? expand(kRowsLate, {{"SCORE", score_text(kv, a, lay)}, {"MIX", turn}, {"LOAD", loads("", "last")}})
                                 : expand(kRows, {{"SCORE", score_text(kv, a, lay)}, {"MIX", turn}, {"LOAD", loads("let ", "j1 - 1u")}});
  std::string finish(kFinishPart);
  if (direct) {
    finish = "    " + sink_text(bool(a.sinks)) + "\n    v = v * fix_out / l;\n" + fmt::format("    y[{}u + head * {}u + t] = v;\n", y.offset, kv.head_dim);
    if (quantise)
      finish += expand(kQuantise, {{"PEAK", shuffled("max", "most", 1, 32)}, {"SUM", shuffled("add", "sum", 1, 16)}, {"D", kv.head_dim},
                                   {"N", blocks}, {"AT", place8("block", blocks)}, {"PUT", words.y8 ? fmt::format("put({}u + i, word);", words.y8) : ""}});
  }
  std::string text = preamble(caps, false, true) + std::string(kStateStruct) +
                     "@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;\n"
                     "@group(0) @binding(1) var<storage, read> K: array<vec4<u32>>;\n@group(0) @binding(2) var<storage, read> V: array<vec4<u32>>;\n"
                     "@group(0) @binding(3) var<storage, read_write> y: array<f32>;\n@group(0) @binding(4) var<uniform> S: State;\n";
  if (taken) text += fmt::format("var<workgroup> own: array<vec4<f32>, {}>;\n", kv.head_dim / 4 * 3);
  if (direct && a.sinks) text += "@group(0) @binding(5) var<storage, read> sinks: array<f32>;\n";
  if (quantise) text += fmt::format("@group(0) @binding({}) var<storage, read_write> Y8: array<u32>;\n", direct && a.sinks ? 6 : 5);
  const std::string body = expand(kRow, {{"RANGE", range_text(a)}, {"QUERY", query}, {"ACC", acc}, {"ROWS", rows}, {"EARLY", taken ? expand(kRowsEarly, {{"LOAD", loads("var ", "last")}}) : ""},
                                         {"OWN", taken ? own_text(kv, a, lay) : ""}, {"LESS", taken ? " - 1u" : ""}, {"GATHER", gather}, {"STORE", store}, {"FINISH", finish}});
  return text + expand(body, {{"T", threads}, {"W", threads / 32}, {"P", lay.rows * lay.unroll}, {"LANES", lay.lanes}, {"D", kv.head_dim},
                              {"GROUP", a.heads / kv.heads}, {"MAX", kMaxSplits}, {"PART", kv.head_dim + 4}});
}

}  // namespace gull::kernels
