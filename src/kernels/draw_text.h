// WGSL that the kernels of draw.h share.
#pragma once

#include <string_view>

#include "kernels/recorder.h"

namespace gull::kernels {

/// The settings, and logits as keys: unsigned integers in the order of the logits, 0 for what is not a number. −0 equals 0.
/// Differences are taken within ±1e30, so that no infinity enters arithmetic.
inline constexpr std::string_view kDrawText = R"(
struct Settings { seed0: u32, seed1: u32, top_k: u32, window: u32, top_p: f32, min_p: f32, temperature: f32, repeat: f32, presence: f32, frequency: f32,
  unused0: u32, unused1: u32 };
const none = 0xffffffffu;
fn key_of(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  if ((b & 0x7fffffffu) > 0x7f800000u) { return 0u; }
  if (b == 0x80000000u) { return b; }
  return select(b | 0x80000000u, ~b, b >= 0x80000000u);
}
fn value_of(key: u32) -> f32 {
  let k = clamp(key, 0x0eb60d35u, 0xf149f2cau);
  return bitcast<f32>(select(~k, k & 0x7fffffffu, k >= 0x80000000u));
}
fn gap(key: u32, top: u32) -> f32 { return value_of(key) - value_of(top); }
)";

/// The race: Philox4x32-10, four ids a counter, and the score of a token (the highest wins): gap ÷ temperature − ln of a time
/// that is exponentially distributed. Times near 0, which win, keep their precision by a series.
inline constexpr std::string_view kRaceText = R"(
fn high(a: u32, b: u32) -> u32 {
  let t = (a >> 16u) * (b & 0xffffu) + (((a & 0xffffu) * (b & 0xffffu)) >> 16u);
  return (a >> 16u) * (b >> 16u) + (t >> 16u) + (((a & 0xffffu) * (b >> 16u) + (t & 0xffffu)) >> 16u);
}
fn random(id: u32, step: u32, seed0: u32, seed1: u32) -> u32 {
  var c = vec4<u32>(id >> 2u, step, 0u, 0u);
  var k = vec2<u32>(seed0, seed1);
  for (var round = 0u; round < 10u; round++) {
    c = vec4<u32>(high(0xcd9e8d57u, c.z) ^ c.y ^ k.x, 0xcd9e8d57u * c.z, high(0xd2511f53u, c.x) ^ c.w ^ k.y, 0xd2511f53u * c.x);
    k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
  }
  return c[id & 3u];
}
fn score(gap: f32, temperature: f32, bits: u32) -> f32 {
  let v = min((f32(bits) + 0.5) * 2.3283064e-10, 0.99999994);
  let time = select(-log(1.0 - v), v * (1.0 + v * (0.5 + v * 0.33333334)), v < 0.01);
  return gap / max(temperature, 1e-6) - log(time);
}
/// Whether score x of entry i wins against y of j; `none` is no entry.
fn wins(x: f32, i: u32, y: f32, j: u32) -> bool { return i != none && (j == none || x > y || (x == y && i < j)); }
)";

/// The chosen id goes to where the embedding reads it, and the decode state moves on, as in sample.cpp.
inline constexpr std::string_view kAdvanceText = R"(
fn advance(id: u32) {
  ids[0] = select(id, 0u, id == none);
  history[S.step % 64u] = id;
  S.pos = S.pos + S.n;
  S.n = 1u;
  S.kv = S.pos + 1u;
  S.step = S.step + 1u;
}
)";

/// Token e of group `group`: sixteen thousand invocations stride over the vocabulary, eight neighbours are a group.
inline constexpr std::string_view kGroupText = R"(
fn token(group: u32, e: u32) -> u32 { return (group >> 5u) * 256u + (group & 31u) * 8u + (e & 7u) + (e >> 3u) * 16384u; }
)";

inline constexpr uint32_t kPeaks = 2048;   ///< groups of tokens; the largest key of each is its peak
/// Records a dispatch that finds the peaks; in draw_top.cpp.
gpu::BufferRef draw_peaks(Recorder& r, const Rows& logits);

}  // namespace gull::kernels
