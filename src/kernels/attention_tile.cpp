#include "kernels/attention_tile.h"

#include <algorithm>

#include "kernels/kv.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

constexpr uint32_t kStep = 8;   // keys of a tile whose values are added in one round of the loop

/// Grid: x = heads, y = ⌈tokens ÷ B⌉. Bindings: q, K, V, y, State, [sinks]. 256 threads.
/// A tile of B queries stays in workgroup memory while tiles of B keys, then their values, pass by: scores of B × B, an
/// online softmax a row (256 ÷ B threads share a row), values summed in registers. Rows are padded by one vec4 against
/// bank conflicts. Keys that no query of the tile can see are not read. Inner loops are unrolled here: Mesa's llvmpipe silently
/// ends all loops of an invocation after 65,535 iterations in all, which long contexts would reach.
constexpr std::string_view kTile = R"(
var<workgroup> qs: array<vec4<f32>, $TILE$>;
var<workgroup> ks: array<vec4<f32>, $TILE$>;
var<workgroup> ss: array<f32, $SCORES$>;
var<workgroup> sums: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = g.x;
  let kvh = head / $GROUP$;
  let m0 = g.y * $B$;
  let rows = min($B$, S.n - m0);
  let first = S.pos + m0;
  $RANGE$
  for (var i = t; i < $B$ * $D4$; i += 256u) {
    let r = i / $D4$;
    var v = vec4<f32>(0.0);
    if (r < rows) { v = q[((m0 + r) * $QS$ + $QO$ + head * $D$) / 4u + i % $D4$] * $SCALE$; }
    qs[r * $ROW$ + i % $D4$] = v;
  }
  let row = t / $PER$;
  let lane = t % $PER$;
  let tx = t % 16u;
  let ty = t / 16u;
  var m = -3.0e38;
  var l = 0.0;
$INIT$
  for (var j = start; j < end; j += $B$) {
    workgroupBarrier();
    for (var i = t; i < $B$ * $D4$; i += 256u) {
      let kb = (min(j + i / $D4$, end - 1u) * $KV$ + kvh) * $D4$ + i % $D4$;
      ks[(i / $D4$) * $ROW$ + i % $D4$] = $LOADK$;
    }
    workgroupBarrier();
$SCORE$
    workgroupBarrier();
    var top = m;
$TOP$
    let fix = exp(m - top);
    m = top;
    l = l * fix;
    workgroupBarrier();
    for (var c = lane; c < $B$; c += $PER$) {
      let s = ss[row * $SROW$ + c];
      let p = select(0.0, exp(s - m), s > -2.0e38);
      ss[row * $SROW$ + c] = p;
      l += p;
    }
    for (var i = t; i < $B$ * $D4$; i += 256u) {
      let vb = (min(j + i / $D4$, end - 1u) * $KV$ + kvh) * $D4$ + i % $D4$;
      ks[(i / $D4$) * $ROW$ + i % $D4$] = $LOADV$;
    }
    workgroupBarrier();
$SCALEACC$
    for (var c0 = 0u; c0 < $B$; c0 += $STEP$) {
$ACC$
    }
  }
  sums[t] = l;
  workgroupBarrier();
  l = 0.0;
  for (var i = 0u; i < $PER$; i++) { l += sums[row * $PER$ + i]; }
  $SINK$
  if (row < rows) {
    let at = ((m0 + row) * $YS$ + $YO$ + head * $D$) / 4u;
$OUT$
  }
}
)";

/// The keys that the tile's queries see between them, and (in `mask`) whether query position p sees key position k.
std::string range_text(const Attention& a) {
  if (a.causal)
    return a.window ? fmt::format("let end = first + rows;\n  let start = u32(max(i32(first) + 1 - {}, 0));", a.window)
                    : "let end = first + rows;\n  let start = 0u;";
  return a.window ? fmt::format("let end = min(S.kv, first + rows + {0}u);\n  let start = u32(max(i32(first) - {0}, 0));", a.window / 2)
                  : "let end = S.kv;\n  let start = 0u;";
}

std::string mask_text(const Attention& a) {
  std::string mask = "k < end";
  if (a.causal) mask += " && k <= p";
  if (a.causal && a.window) mask += fmt::format(" && p - k < {}u", a.window);
  if (!a.causal && a.window) mask += fmt::format(" && max(p, k) - min(p, k) <= {}u", a.window / 2);
  return mask;
}

/// Scores of a thread's pairs of rows and keys: one or two of each.
std::string score_text(const Attention& a, uint32_t b, uint32_t d4) {
  const uint32_t n = b / 16;
  const uint32_t step = d4 % 4 == 0 ? 4 : 1;
  std::string text;
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t j = 0; j < n; ++j) text += fmt::format("    var d{}{} = 0.0;\n", i, j);
  text += fmt::format("    for (var i = 0u; i < $D4$; i += {}u) {{\n", step);
  for (uint32_t u = 0; u < step; ++u) {
    text += "      {\n";
    for (uint32_t i = 0; i < n; ++i)
      text += fmt::format("        let q{0} = qs[(ty + {1}u) * $ROW$ + i + {2}u];\n        let k{0} = ks[(tx + {1}u) * $ROW$ + i + {2}u];\n", i, i * 16, u);
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t j = 0; j < n; ++j) text += fmt::format("        d{0}{1} += dot(q{0}, k{1});\n", i, j);
    text += "      }\n";
  }
  text += "    }\n";
  const std::string cap = a.softcap > 0 ? expand("s = $C$ * tanh(clamp(s / $C$, -20.0, 20.0)); ", {{"C", a.softcap}}) : std::string();
  for (uint32_t i = 0; i < n; ++i)
    for (uint32_t j = 0; j < n; ++j)
      text += fmt::format("    {{ let p = first + ty + {0}u; let k = j + tx + {1}u; var s = d{2}{3}; {4}ss[(ty + {0}u) * $SROW$ + tx + {1}u] = select(-3.0e38, s, {5}); }}\n",
                          i * 16, j * 16, i, j, cap, mask_text(a));
  return text;
}

uint32_t bytes_for(uint32_t b, uint32_t d4) { return 2 * b * (d4 + 1) * 16 + b * (b + 1) * 4 + 1024; }

/// Rows of a tile: 32, or 16 where memory is short; 0 where neither fits.
uint32_t tile_rows(const gpu::Caps& caps, uint32_t head_dim) {
  for (uint32_t b : {32u, 16u})
    if (bytes_for(b, head_dim / 4) <= caps.max_workgroup_memory) return b;
  return 0;
}

std::string source(const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y, uint32_t b) {
  const uint32_t d4 = kv.head_dim / 4, per = 256 / b, each = (d4 + per - 1) / per;
  std::string init, scale, values, acc, top, out;
  for (uint32_t i = 0; i < each; ++i) {
    const std::string guard = (i + 1) * per <= d4 ? std::string() : fmt::format("if (lane + {}u < {}u) ", i * per, d4);
    init += fmt::format("  var o{} = vec4<f32>(0.0);\n", i);
    scale += fmt::format("    o{0} = o{0} * fix;\n", i);
    values += fmt::format("        {0}{{ o{1} += p * ks[c * $ROW$ + lane + {2}u]; }}\n", guard, i, i * per);
    out += fmt::format("    {0}{{ y[at + lane + {1}u] = o{2} * fix_out / l; }}\n", guard, i * per, i);
  }
  for (uint32_t c = 0; c < b; ++c) top += fmt::format("    top = max(top, ss[row * $SROW$ + {}u]);\n", c);
  for (uint32_t c = 0; c < kStep; ++c) acc += fmt::format("      {{\n        let c = c0 + {}u;\n        let p = ss[row * $SROW$ + c];\n", c) + values + "      }\n";
  std::string text = std::string(kStateStruct) + kv_helpers(kv.type);
  text += "@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;\n";
  text += fmt::format("@group(0) @binding(1) var<storage, read> K: array<{0}>;\n@group(0) @binding(2) var<storage, read> V: array<{0}>;\n", kv_element(kv.type));
  text += "@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;\n@group(0) @binding(4) var<uniform> S: State;\n";
  if (a.sinks) text += "@group(0) @binding(5) var<storage, read> sinks: array<f32>;\n";
  const std::string sink = a.sinks ? "let sink = sinks[head]; let top_out = max(m, sink); let fix_out = exp(m - top_out); l = l * fix_out + exp(sink - top_out);"
                                   : "let fix_out = 1.0;";
  const std::string body = expand(kTile, {{"RANGE", range_text(a)}, {"INIT", init}, {"SCORE", score_text(a, b, d4)}, {"SCALEACC", scale}, {"ACC", acc}, {"TOP", top}, {"STEP", kStep},
                                          {"OUT", out}, {"SINK", sink}, {"LOADK", kv_load(kv.type, "K", "kb")}, {"LOADV", kv_load(kv.type, "V", "vb")}});
  return text + expand(body, {{"B", b}, {"D", kv.head_dim}, {"D4", d4}, {"ROW", d4 + 1}, {"SROW", b + 1}, {"TILE", b * (d4 + 1)}, {"SCORES", b * (b + 1)},
                              {"PER", per}, {"GROUP", a.heads / kv.heads}, {"KV", kv.heads}, {"QS", q.stride}, {"QO", q.offset}, {"YS", y.stride},
                              {"YO", y.offset}, {"SCALE", a.scale}});
}

}  // namespace

bool attention_tile_fits(const Recorder& r, const KvLayer& kv) {
  return !r.decode() && r.caps().max_invocations >= 256 && r.caps().max_workgroup_x >= 256 && kv.head_dim <= 512 && tile_rows(r.caps(), kv.head_dim) != 0;
}

void attention_tile(Recorder& r, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y) {
  const uint32_t b = tile_rows(r.caps(), kv.head_dim);
  const std::string key = fmt::format("attention_tile:{}:{}:{}:{}:{}/{}:{}:{}:{}:{}/{}:{}:{}:{}", b, kv.head_dim, kv.heads, static_cast<int>(kv.type), a.heads,
                                      a.scale, a.softcap, a.window, a.causal, bool(a.sinks), q.stride, q.offset, y.stride, y.offset);
  std::vector<dispatch::Operand> operands{q.buffer, kv.k, kv.v, y.buffer, r.state};
  std::string letters = "rrrwu";
  if (a.sinks) operands.push_back(vector_operand(a.sinks)), letters += 'r';
  r.step(key, [&] { return gpu::PipelineDesc{"attention tile", source(q, kv, a, y, b), kinds(letters)}; }, std::move(operands), {a.heads},
         {1, dispatch::Var::Tokens, b});
}

}  // namespace gull::kernels
