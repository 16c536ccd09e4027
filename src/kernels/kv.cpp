#include "kernels/kv.h"

#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Words of a block of 32 in the quantised caches: its scale as f32, then the numbers, in order, the first in the lowest bits.
uint32_t block_words(KvType type) { return type == KvType::Q8_0 ? 9 : 5; }

bool quantised(KvType type) { return type == KvType::Q8_0 || type == KvType::Q4_0; }

/// d = max|x| ÷ 127, q = round(x ÷ d); a word holds four.
constexpr std::string_view kWrite8 = R"(  for (var i = t; i < $D4$; i += 64u) {
    let b = i / 8u;
    var top = 0u;
    for (var c = 0u; c < 32u; c++) { top = max(top, bitcast<u32>(abs(h[b * 32u + c]))); }
    let m = bitcast<f32>(top);
    let id = select(0.0, 127.0 / m, m > 1e-30);
    let q = vec4<u32>(vec4<i32>(round(vec4<f32>(h[4u * i], h[4u * i + 1u], h[4u * i + 2u], h[4u * i + 3u]) * id))) & vec4<u32>(255u);
    let v = q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
    let d = bitcast<u32>(m / 127.0);
    let at = to + b * 9u;
    $STORE$
  })";

/// d = x ÷ −8 of the x that is largest in magnitude, q = round(x ÷ d) + 8 in 0…15, as ggml makes Q4_0; a word holds eight.
constexpr std::string_view kWrite4 = R"(  for (var i = t; i < $D4$ / 2u; i += 64u) {
    let b = i / 4u;
    var m = 0.0;
    for (var c = 0u; c < 32u; c++) { let x = h[b * 32u + c]; m = select(m, x, bitcast<u32>(abs(x)) > bitcast<u32>(abs(m))); }
    let id = select(0.0, -8.0 / m, abs(m) > 1e-30);
    var v = 0u;
    for (var c = 0u; c < 8u; c++) { v |= u32(clamp(floor(h[8u * i + c] * id + 8.5), 0.0, 15.0)) << (4u * c); }
    let d = bitcast<u32>(m / -8.0);
    let at = to + b * 5u;
    $STORE$
  })";

/// Halves are clamped: f16 has no infinity to spare.
constexpr std::string_view kWrite16 = R"(  for (var i = t; i < $D4$; i += 64u) {
    let most = vec2<f32>(65504.0);
    let v = vec2<u32>(pack2x16float(clamp(vec2<f32>(h[4u * i], h[4u * i + 1u]), -most, most)),
      pack2x16float(clamp(vec2<f32>(h[4u * i + 2u], h[4u * i + 3u]), -most, most)));
    $STORE$
  })";

constexpr std::string_view kWrite32 = R"(  for (var i = t; i < $D4$; i += 64u) {
    let v = vec4<f32>(h[4u * i], h[4u * i + 1u], h[4u * i + 2u], h[4u * i + 3u]);
    $STORE$
  })";

/// The Walsh–Hadamard transform, in place, of each $B$ floats of the head in `h`; it is its own inverse.
constexpr std::string_view kMix = R"(  for (var step = 1u; step < $B$; step = step * 2u) {
    for (var i = t; i < $D$ / 2u; i += 64u) {
      let at = i / step * step * 2u + i % step;
      let a = h[at];
      let b = h[at + step];
      h[at] = (a + b) * 0.7071067811865476;
      h[at + step] = (a - b) * 0.7071067811865476;
    }
    workgroupBarrier();
  }
)";

/// Grid: x = heads, y = tokens.
constexpr std::string_view kUnmix = R"(
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
var<workgroup> h: array<f32, $D$>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let base = g.y * $STRIDE$ + $OFFSET$ + g.x * $D$;
  for (var i = t; i < $D$; i += 64u) { h[i] = y[base + i]; }
  workgroupBarrier();
$MIX$
  for (var i = t; i < $D$; i += 64u) { y[base + i] = h[i]; }
}
)";

std::string_view write_text(KvType type) {
  switch (type) {
    case KvType::Q8_0: return kWrite8;
    case KvType::Q4_0: return kWrite4;
    case KvType::F16: return kWrite16;
    default: return kWrite32;
  }
}

/// Stores of one loop turn into the cache `name`.
std::string store_text(KvType type, std::string_view name) {
  if (type == KvType::Q8_0) return fmt::format("{0}[at + 1u + i % 8u] = v; if (i % 8u == 0u) {{ {0}[at] = d; }}", name);
  if (type == KvType::Q4_0) return fmt::format("{0}[at + 1u + i % 4u] = v; if (i % 4u == 0u) {{ {0}[at] = d; }}", name);
  return fmt::format("{}[to + i] = v;", name);
}

}  // namespace

std::string kv_element(KvType type) {
  return type == KvType::F32 ? "vec4<f32>" : type == KvType::F16 ? "vec2<u32>" : "u32";
}

std::string kv_helpers(KvType type) {
  switch (type) {
    case KvType::F16: return "fn kv_halves(v: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }\n";
    case KvType::Q8_0:
      return "fn kv_bytes(d: u32, v: u32) -> vec4<f32> {\n"
             "  return vec4<f32>((vec4<i32>(i32(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)) * bitcast<f32>(d);\n}\n";
    case KvType::Q4_0:
      return "fn kv_nibbles(d: u32, v: u32, i: u32) -> vec4<f32> {\n"
             "  let q = (vec4<u32>(v >> ((i & 1u) * 16u)) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);\n"
             "  return (vec4<f32>(q) - vec4<f32>(8.0)) * bitcast<f32>(d);\n}\n";
    default: return {};
  }
}

std::string kv_load(KvType type, std::string_view name, std::string_view index) {
  switch (type) {
    case KvType::F16: return fmt::format("kv_halves({}[{}])", name, index);
    case KvType::Q8_0: return fmt::format("kv_bytes({0}[({1}) / 8u * 9u], {0}[({1}) / 8u * 9u + 1u + ({1}) % 8u])", name, index);
    case KvType::Q4_0: return fmt::format("kv_nibbles({0}[({1}) / 8u * 5u], {0}[({1}) / 8u * 5u + 1u + ({1}) % 8u / 2u], {1})", name, index);
    default: return fmt::format("{}[{}]", name, index);
  }
}

std::string kv_write(KvType type, bool values) {
  const std::string store = values ? "if (is_k) { " + store_text(type, "K") + " } else { " + store_text(type, "V") + " }" : store_text(type, "K");
  const std::string place = quantised(type) ? fmt::format("$D4$ / 8u * {}u", block_words(type)) : "$D4$";
  return "  let kvh = (head - $Q$) % $KV$;\n  let to = (pos * $KV$ + kvh) * (" + place + ");\n" + expand(write_text(type), {{"STORE", store}});
}

bool kv_mixes(KvType type) { return quantised(type); }

std::string kv_mix(uint32_t head_dim) { return expand(kMix, {{"B", head_dim & (0u - head_dim)}, {"D", head_dim}}); }

void kv_unmix(Recorder& r, const Rows& y, uint32_t heads, uint32_t head_dim) {
  r.step(fmt::format("kv_unmix:{}:{}:{}", head_dim, y.stride, y.offset), [&] {
    return gpu::PipelineDesc{"kv_unmix", expand(kUnmix, {{"D", head_dim}, {"STRIDE", y.stride}, {"OFFSET", y.offset}, {"MIX", kv_mix(head_dim)}}), kinds("w")};
  }, {y.buffer}, {heads}, {1, dispatch::Var::Tokens, 1});
}

uint64_t kv_row_bytes(KvType type, uint32_t heads, uint32_t head_dim) {
  const uint64_t width = uint64_t{heads} * head_dim;
  return quantised(type) ? width / 32 * block_words(type) * 4 : width * (type == KvType::F32 ? 4 : 2);
}

bool kv_holds(KvType type, uint32_t head_dim) { return head_dim % (quantised(type) ? 32 : 4) == 0; }

}  // namespace gull::kernels
