// Attention in one pass over the keys: running maximum, sum and weighted values (Dao et al., "FlashAttention", 2022).
// All lengths, strides and offsets are parameters, so that no length ever compiles a shader of its own.
#include <algorithm>
#include <cmath>

#include "compute/impl.h"
#include "compute/shapes.h"
#include "dispatch/wgsl.h"

namespace gull {
namespace {

using namespace compute;
using dispatch::expand;

struct AttentionParams {
  uint32_t q_len, kv_len, heads, kv_heads;
  uint32_t head_dim, groups, blocks, causal;
  uint32_t kv_offset, window, mask_batch, mask_head;
  std::array<uint32_t, 4> q, k, v, out;   // strides of batch, head and row, then the offset
  float scale, softcap;
  uint32_t mask_offset, alibi_offset;
};

// The rows of one workgroup are queries of the heads that share one key-value head: row = query · heads_per_kv + head.
// 128 invocations: two halves share the rows; within a half, each takes one of 64 keys for the scores, and then every
// 64th dimension for the values.
constexpr std::string_view kText = R"(
struct Params {
  q_len: u32, kv_len: u32, heads: u32, kv_heads: u32,
  head_dim: u32, groups: u32, blocks: u32, causal: u32,
  kv_offset: u32, window: u32, mask_batch: u32, mask_head: u32,
  q: vec4<u32>, k: vec4<u32>, v: vec4<u32>, out: vec4<u32>,
  scale: f32, softcap: f32, mask_offset: u32, alibi_offset: u32,
};
const HIDDEN = -3.0e38;   // scores at or below are of keys that are not seen
const ROWS = $ROWS$;
const HALF = ROWS / 2u;
const WIDTH = $WIDTH$;    // head_dim rounded up to 64
var<workgroup> queries: array<vec4<f32>, ROWS * WIDTH / 4u>;
// Both [row][key], four keys a vector.
var<workgroup> scores: array<vec4<f32>, ROWS * 16u>;
var<workgroup> weights: array<vec4<f32>, ROWS * 16u>;

fn query_of(row: u32) -> u32 { return row / (p.heads / p.kv_heads); }
fn head_of(row: u32, kv_head: u32) -> u32 { let share = p.heads / p.kv_heads; return kv_head * share + row % share; }

/// What becomes of a raw score: soft cap, position bias, mask, visibility.
fn finish(raw: f32, batch: u32, head: u32, query: u32, key: u32) -> f32 {
  var s = raw;
  if (p.softcap > 0.0) { s = p.softcap * tanh(clamp(s / p.softcap, -10.0, 10.0)); }
  let position = query + p.kv_offset;
  $ALIBI$
  $MASK$
  if (p.causal != 0u && key > position) { return HIDDEN; }
  if (p.window != 0u && key + p.window <= position) { return HIDDEN; }
  return select(s, HIDDEN, s <= HIDDEN);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  let batch = id / (p.blocks * p.kv_heads);
  let kv_head = id / p.blocks % p.kv_heads;
  let first = id % p.blocks * ROWS;
  let rows = p.q_len * (p.heads / p.kv_heads);
  for (var e = t; e < ROWS * WIDTH; e += 128u) {
    let row = first + e / WIDTH;
    let d = e % WIDTH;
    var q = 0.0;
    if (row < rows && d < p.head_dim) {
      q = q_at(p.q.w + batch * p.q.x + head_of(row, kv_head) * p.q.y + query_of(row) * p.q.z + d) * p.scale;
    }
    queries[e / 4u][d % 4u] = q;
  }
  workgroupBarrier();

  // Keys that any of the rows sees.
  let first_query = query_of(first);
  let last_query = query_of(min(first + ROWS, rows) - 1u);
  var begin = 0u;
  var end = p.kv_len;
  if (p.causal != 0u) { end = min(end, last_query + p.kv_offset + 1u); }
  if (p.window != 0u && first_query + p.kv_offset + 1u > p.window) { begin = first_query + p.kv_offset + 1u - p.window; }
  begin = min(begin, end);

  let lane = t % 64u;
  let mine = t / 64u * HALF;   // first of this half's rows
  let keys = p.k.w + batch * p.k.x + kv_head * p.k.y;
  let values = p.v.w + batch * p.v.x + kv_head * p.v.y;
$STATE$
  for (var start = begin; start < end; start += 64u) {
    let key = start + lane;
$ZERO$
    if (key < end) {
$SCORES$
$FINISH$
    }
    workgroupBarrier();
$MAXIMA$
    for (var j = 0u; j < 16u; j++) {
$MAXIMUM$
    }
$RESCALE$
    workgroupBarrier();
    // Keys beyond the end have no weight; where their values would be, the last ones are read.
    for (var j = 0u; j < (min(64u, end - start) + 3u) / 4u; j++) {
$WEIGHTED$
    }
  }
$STORE$
}
)";

struct AttentionSpec {
  uint32_t rows = 8;      // of a workgroup
  uint32_t dims = 1;      // values an invocation makes for each row: head_dim / 64, rounded up
  bool mask = false, alibi = false;
};

/// Repeats a line for each of a half's rows.
std::string each(uint32_t rows, const auto& line) {
  std::string out;
  for (uint32_t r = 0; r < rows; ++r) out += line(r);
  return out;
}

std::string scores_text(uint32_t half, bool vec4) {
  std::string out = "      let at = keys + key * p.k.z;\n";
  if (vec4) {
    out += "      for (var d = 0u; d < p.head_dim / 4u; d++) {\n        let k = k_at4(at / 4u + d);\n";
    out += each(half, [](uint32_t r) { return fmt::format("        s{0} += dot(queries[(mine + {0}u) * WIDTH / 4u + d], k);\n", r); });
  } else {
    out += "      for (var d = 0u; d < p.head_dim; d++) {\n        let k = k_at(at + d);\n";
    out += each(half, [](uint32_t r) { return fmt::format("        s{0} += queries[(mine + {0}u) * WIDTH / 4u + d / 4u][d % 4u] * k;\n", r); });
  }
  return out + "      }\n";
}

std::string attention_text(const ShaderContext& context, const void* opaque) {
  const auto& spec = *static_cast<const AttentionSpec*>(opaque);
  const uint32_t half = spec.rows / 2;
  std::string state, zero, finish, maxima, maximum, rescale, weighted, store;
  for (uint32_t r = 0; r < half; ++r) {
    state += fmt::format("  var m{0} = HIDDEN; var l{0} = 0.0;", r);
    for (uint32_t d = 0; d < spec.dims; ++d) state += fmt::format(" var o{}_{} = 0.0;", r, d);
    state += "\n";
    zero += fmt::format("    var s{0} = 0.0;\n    scores[(mine + {0}u) * 16u + lane / 4u][lane % 4u] = HIDDEN;\n", r);
    finish += fmt::format("      s{0} = finish(s{0}, batch, head_of(first + mine + {0}u, kv_head), query_of(first + mine + {0}u), key);\n"
                          "      scores[(mine + {0}u) * 16u + lane / 4u][lane % 4u] = s{0};\n", r);
    maxima += fmt::format("    var x{0} = vec4<f32>(m{0});\n", r);
    maximum += fmt::format("      x{0} = max(x{0}, scores[(mine + {0}u) * 16u + j]);\n", r);
    rescale += fmt::format("    let n{0} = max(max(x{0}.x, x{0}.y), max(x{0}.z, x{0}.w));\n    let c{0} = exp(m{0} - n{0});\n    m{0} = n{0};\n    l{0} *= c{0};\n"
                           "    {{ let s = scores[(mine + {0}u) * 16u + lane / 4u][lane % 4u]; "
                           "weights[(mine + {0}u) * 16u + lane / 4u][lane % 4u] = select(exp(s - n{0}), 0.0, s <= HIDDEN); }}\n", r);
    for (uint32_t d = 0; d < spec.dims; ++d) rescale += fmt::format("    o{0}_{1} *= c{0};\n", r, d);
    weighted += fmt::format("      let w{0} = weights[(mine + {0}u) * 16u + j];\n      l{0} += w{0}.x + w{0}.y + w{0}.z + w{0}.w;\n", r);
    store += fmt::format("  if (first + mine + {0}u < rows) {{\n    let row = first + mine + {0}u;\n    let scale = select(1.0 / l{0}, 0.0, l{0} == 0.0);\n"
                         "    let at = p.out.w + batch * p.out.x + head_of(row, kv_head) * p.out.y + query_of(row) * p.out.z;\n", r);
    for (uint32_t d = 0; d < spec.dims; ++d)
      store += fmt::format("    if (lane + {0}u < p.head_dim) {{ out_put(at + lane + {0}u, o{1}_{2} * scale); }}\n", d * 64, r, d);
    store += "  }\n";
  }
  for (uint32_t j = 0; j < 4; ++j) weighted += fmt::format("      let at{0} = values + min(start + j * 4u + {0}u, end - 1u) * p.v.z;\n", j);
  for (uint32_t d = 0; d < spec.dims; ++d) {
    const std::string dim = fmt::format("min(lane + {}u, p.head_dim - 1u)", d * 64);
    weighted += fmt::format("      let v{0} = vec4<f32>(v_at(at0 + {1}), v_at(at1 + {1}), v_at(at2 + {1}), v_at(at3 + {1}));\n", d, dim);
    for (uint32_t r = 0; r < half; ++r) weighted += fmt::format("      o{0}_{1} += dot(w{0}, v{1});\n", r, d);
  }
  const char* mask = "s += mask_at(p.mask_offset + batch * p.mask_batch + head * p.mask_head + query * p.kv_len + key);";
  const char* alibi = "s += slope_at(p.alibi_offset + head) * (f32(key) - f32(position));";
  return expand(kText, {{"ROWS", spec.rows}, {"WIDTH", spec.dims * 64}, {"STATE", state}, {"ZERO", zero}, {"FINISH", finish},
                        {"SCORES", scores_text(half, context.layout.vec4(1))}, {"MAXIMA", maxima}, {"MAXIMUM", maximum}, {"RESCALE", rescale}, {"WEIGHTED", weighted}, {"STORE", store},
                        {"MASK", spec.mask ? mask : ""}, {"ALIBI", spec.alibi ? alibi : ""}});
}

/// Strides with the defaults filled in, or the first thing wrong with them.
Result<std::array<uint64_t, 3>> resolve(const char* name, const HeadStrides& strides, uint64_t heads, uint64_t rows, uint64_t head_dim) {
  if (strides.batch == 0 && strides.head == 0 && strides.row == 0) 
    return std::array{saturating_product({heads, rows, head_dim}), saturating_product({rows, head_dim}), head_dim};
  if (strides.row < head_dim && rows > 1)
    return fail_f(ErrorKind::InvalidArgument, "attention: rows of {} are {} elements apart, and {} wide", name, strides.row, head_dim);
  return std::array<uint64_t, 3>{strides.batch, strides.head, strides.row};
}

uint64_t span(const std::array<uint64_t, 3>& s, const Attention& a, uint64_t heads, uint64_t rows) {
  if (a.batch == 0 || heads == 0 || rows == 0) return 0;
  const uint64_t heads_and_rows = std::min(saturating_product({heads - 1, s[1]}) + saturating_product({rows - 1, s[2]}), uint64_t{1} << 62);
  return saturating_product({a.batch - uint64_t{1}, s[0]}) + heads_and_rows + a.head_dim;
}

/// What makes no sense whatever the memory holds.
Result<void> check_arguments(const Attention& a) {
  if (a.head_dim == 0 || a.head_dim > 1024) return fail_f(ErrorKind::InvalidArgument, "attention: head_dim is {}, wanted 1 to 1024", a.head_dim);
  if (a.kv_heads == 0 || a.heads % a.kv_heads != 0)
    return fail_f(ErrorKind::InvalidArgument, "attention: {} heads cannot share {} key-value heads", a.heads, a.kv_heads);
  if (uint64_t{a.kv_offset} + a.q_len + a.window > UINT32_MAX / 2 || a.kv_len > UINT32_MAX / 2)
    return fail(ErrorKind::InvalidArgument, "attention: positions beyond 2^31");
  return {};
}

struct Strides { std::array<uint64_t, 3> q, k, v, out; };

Result<Strides> resolve_all(const Attention& a) {
  const auto q = resolve("q", a.q_strides, a.heads, a.q_len, a.head_dim), out = resolve("out", a.out_strides, a.heads, a.q_len, a.head_dim);
  const auto k = resolve("k", a.k_strides, a.kv_heads, a.kv_len, a.head_dim), v = resolve("v", a.v_strides, a.kv_heads, a.kv_len, a.head_dim);
  for (const auto* strides : {&q, &k, &v, &out})
    if (!*strides) return fail(strides->error());
  return Strides{*q, *k, *v, *out};
}

Call describe(const Attention& a, const Strides& s) {
  const Storage storage = storage_of(a.type);
  const uint64_t mask = saturating_product({a.mask_per_batch ? a.batch : 1, a.mask_per_head ? a.heads : 1, a.q_len, a.kv_len});
  const bool vec4 = a.head_dim % 4 == 0 && std::ranges::all_of(s.k, [](uint64_t stride) { return stride % 4 == 0; });
  Call call;
  call.op = "attention";
  call.op_id = kAttention;
  call.add({"q", a.q, span(s.q, a, a.heads, a.q_len), storage, false, false, false});
  call.add({"k", a.k, span(s.k, a, a.kv_heads, a.kv_len), storage, false, false, vec4});
  call.add({"v", a.v, span(s.v, a, a.kv_heads, a.kv_len), storage, false, false, false});
  call.add({"out", a.out, span(s.out, a, a.heads, a.q_len), storage, true, false, false});
  call.add({"mask", a.mask, a.mask.handle ? mask : 0, Storage::F32, false, false, false});
  call.add({"slope", a.alibi_slopes, a.alibi_slopes.handle ? uint64_t{a.heads} : 0, Storage::F32, false, false, false});
  return call;
}

AttentionParams params_of(const Attention& a, const Strides& s, const Layout& layout, uint64_t groups, uint64_t blocks) {
  const auto small = [](uint64_t value) { return static_cast<uint32_t>(value); };   // spans are below 2^32
  const auto four = [&](const std::array<uint64_t, 3>& strides, size_t i) {
    return std::array{small(strides[0]), small(strides[1]), small(strides[2]), layout.offset[i]};
  };
  const uint64_t mask = uint64_t{a.q_len} * a.kv_len;
  return {a.q_len, a.kv_len, a.heads, a.kv_heads, a.head_dim, small(groups), small(blocks), a.causal, a.kv_offset, a.window,
          a.mask_per_batch ? small(mask * (a.mask_per_head ? a.heads : 1)) : 0, a.mask_per_head ? small(mask) : 0,
          four(s.q, 0), four(s.k, 1), four(s.v, 2), four(s.out, 3),
          a.scale != 0 ? a.scale : 1.0f / std::sqrt(static_cast<float>(a.head_dim)), a.softcap, layout.offset[4], layout.offset[5]};
}

}  // namespace

Result<void> ComputeBackend::attention(const Attention& a) {
  Impl& impl = *impl_;
  if (auto ok = impl.initialised(); !ok) return ok;
  if (auto ok = check_arguments(a); !ok) return ok;
  auto strides = resolve_all(a);
  if (!strides) return fail(strides.error());
  Call call = describe(a, *strides);
  if (call.operands[0].elements == 0) return impl.check(call);
  if (a.kv_len == 0) {
    // Nothing of these is read; something must be bound in their places.
    if (auto ok = impl.check(call); !ok) return ok;
    for (size_t i : {1, 2}) call.operands[i].view = a.q, call.operands[i].elements = call.operands[0].elements, call.operands[i].vec4 = false;
    call.operands[4].elements = 0;
  }
  auto layout = impl.layout(call);
  if (!layout) return fail(layout.error());
  const uint64_t steps = (uint64_t{a.kv_len} + 63) / 64 * (33 + (layout->vec4(1) ? a.head_dim / 4 : a.head_dim)) + 200;
  if (steps > loop_budget(impl.caps()))
    return fail_f(ErrorKind::Unsupported, "attention: {} keys are more than a software adapter can walk in one dispatch", a.kv_len);
  const uint64_t rows = uint64_t{a.q_len} * (a.heads / a.kv_heads);
  if (rows > kMaxElements) return fail(ErrorKind::Unsupported, "attention: too many queries at once");
  AttentionSpec spec{a.head_dim > 256 || rows <= 2 ? 2u : 8u, (a.head_dim + 63) / 64, call.operands[4].elements != 0, a.alibi_slopes.handle != 0};
  const uint64_t blocks = (rows + spec.rows - 1) / spec.rows;
  call.groups = saturating_product({blocks, a.kv_heads, a.batch});
  call.work = 2.0 * double(a.batch) * a.heads * a.q_len * a.kv_len * a.head_dim;
  call.text = attention_text;
  call.spec = &spec;
  call.variant = uint64_t{spec.rows} << 16 | uint64_t{spec.dims} << 8 | uint64_t{spec.mask} << 2 | uint64_t{spec.alibi} << 1 | static_cast<uint64_t>(a.type);
  return impl.run(call, *layout, params_of(a, *strides, *layout, call.groups, blocks));
}

}  // namespace gull
