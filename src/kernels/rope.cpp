// Heads: a norm for each, rotary positions, and the write into the KV cache.
#include "kernels/kv.h"
#include "kernels/matvec8.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {

namespace {

/// Grid: x = heads (q, then k, then v), y = tokens; one workgroup a head, 64 threads.
/// Bindings: qkv, K, V, State, [table], [q norm], [k norm]. The head is staged in workgroup memory: normalised, rotated, mixed
/// where the cache wants it (kv.h), and then written back (q) or packed into the cache (k, v).
constexpr std::string_view kRope = R"(
var<workgroup> h: array<f32, $D$>;
var<workgroup> part: array<f32, 64>;
fn rms(t: u32) -> f32 {
  var s = 0.0;
  for (var i = t; i < $D$; i += 64u) { s += h[i] * h[i]; }
  part[t] = s;
  workgroupBarrier();
  for (var k = 32u; k > 0u; k = k / 2u) {
    if (t < k) { part[t] += part[t + k]; }
    workgroupBarrier();
  }
  return part[0] / f32($D$);
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = g.x;
  let pos = S.pos + g.y;
  let at = g.y * $STRIDE$ + $OFFSET$ + head * $D$;
  for (var i = t; i < $D$; i += 64u) { h[i] = qkv[at + i]; }
  workgroupBarrier();
  let is_q = head < $Q$;
  let is_k = !is_q && head < $Q$ + $KV$;
$NORM$
$ROTATE$
$MIX$
  if (is_q) {
    for (var i = t; i < $D$; i += 64u) { qkv[at + i] = h[i]; }
    return;
  }
$WRITE$
}
)";

std::string norm_text(const RopeKv& o) {
  if (!o.q_norm && !o.k_norm && !o.v_norm) return {};
  // The condition is the same for the whole workgroup, but written so that every thread reaches the barriers in rms().
  std::string text = "  let mean = rms(t);\n";
  const auto scale = [](float eps, const char* weight) {
    return fmt::format("for (var i = t; i < $D$; i += 64u) {{ h[i] = h[i] * inverseSqrt(mean + {}){}; }}", Sub::float_literal(eps), weight);
  };
  if (o.q_norm) text += "  if (is_q) { " + scale(o.q_norm.eps, " * qn[i]") + " }\n";
  if (o.k_norm) text += "  if (is_k) { " + scale(o.k_norm.eps, " * kn[i]") + " }\n";
  if (o.v_norm) text += "  if (!is_q && !is_k) { " + scale(o.eps, "") + " }\n";
  return text + "  workgroupBarrier();\n";
}

std::string rotate_text(const Rope& rope) {
  if (!rope.table) return {};
  return expand(R"(  if (is_q || is_k) {
    for (var i = t; i < $P$; i += 64u) {
      let cs = table[pos * $P$ + i];
      let a = $A$;
      let b = $B$;
      let x = h[a];
      let y = h[b];
      h[a] = x * cs.x - y * cs.y;
      h[b] = x * cs.y + y * cs.x;
    }
  }
  workgroupBarrier();
)", {{"P", rope.pairs}, {"A", rope.neox ? "i" : "2u * i"}, {"B", rope.neox ? fmt::format("i + {}u", rope.pairs) : "2u * i + 1u"}});
}

std::string source(const Rows& qkv, const RopeKv& o, const KvLayer& kv) {
  std::string text(kStateStruct);
  text += "@group(0) @binding(0) var<storage, read_write> qkv: array<f32>;\n";
  int next = 1;
  const auto bind_cache = [&](const char* name) {
    text += fmt::format("@group(0) @binding({}) var<storage, read_write> {}: array<{}>;\n", next++, name, kv_element(kv.type));
  };
  if (o.write_kv) bind_cache("K");
  if (o.write_kv && !o.keys_only) bind_cache("V");
  text += fmt::format("@group(0) @binding({}) var<uniform> S: State;\n", next++);
  if (o.rope.table) text += fmt::format("@group(0) @binding({}) var<storage, read> table: array<vec2<f32>>;\n", next++);
  if (o.q_norm) text += fmt::format("@group(0) @binding({}) var<storage, read> qn: array<f32>;\n", next++);
  if (o.k_norm) text += fmt::format("@group(0) @binding({}) var<storage, read> kn: array<f32>;\n", next++);
  const std::string body = expand(kRope, {{"NORM", norm_text(o)}, {"ROTATE", rotate_text(o.rope)}, {"MIX", kv_mixes(kv.type) ? kv_mix(kv.head_dim) : std::string()},
                                          {"WRITE", o.write_kv ? kv_write(kv.type, !o.keys_only) : std::string()}});
  return text + expand(body, {{"D", kv.head_dim}, {"D4", kv.head_dim / 4}, {"Q", o.heads}, {"KV", std::max(kv.heads, 1u)},
                              {"STRIDE", qkv.stride}, {"OFFSET", qkv.offset}});
}

}  // namespace

void rope_kv(Recorder& r, const Rows& qkv, const RopeKv& o, const KvLayer& kv) {
  if (r.failed() || fuse_heads(r, qkv, o, kv)) return;
  if (!kv_holds(o.write_kv ? kv.type : KvType::F32, kv.head_dim))
    return r.fail_with({ErrorKind::Unsupported, fmt::format("attention heads of {} dimensions: gull needs a multiple of 4, and of 32 for a quantised KV cache", kv.head_dim)});
  std::vector<dispatch::Operand> operands{qkv.buffer};
  std::string letters = "w";
  if (o.write_kv) operands.push_back(kv.k), letters += 'w';
  if (o.write_kv && !o.keys_only) operands.push_back(kv.v), letters += 'w';
  operands.push_back(r.state), letters += 'u';
  if (o.rope.table) operands.push_back(o.rope.table), letters += 'r';
  if (o.q_norm) operands.push_back(vector_operand(o.q_norm.weight)), letters += 'r';
  if (o.k_norm) operands.push_back(vector_operand(o.k_norm.weight)), letters += 'r';
  const std::string key = fmt::format("rope:{}:{}:{}:{}:{}:{}/{}:{}/{}:{}:{}:{}:{}:{}", kv.head_dim, kv.heads, static_cast<int>(kv.type), o.heads,
                                      qkv.stride, qkv.offset, o.rope.table ? o.rope.pairs : 0, o.rope.neox, o.q_norm ? o.q_norm.eps : -1.0f,
                                      o.k_norm ? o.k_norm.eps : -1.0f, o.v_norm, o.eps, o.write_kv, letters);
  const uint32_t heads = o.heads + (!o.write_kv ? 0 : o.keys_only ? kv.heads : 2 * kv.heads);
  r.step(key, [&] { return gpu::PipelineDesc{"rope_kv", source(qkv, o, kv), kinds(letters)}; }, std::move(operands), {heads},
         {1, dispatch::Var::Tokens, 1});
}

}  // namespace gull::kernels
