#include "model/blocks.h"

#include "base/log.h"

namespace gull::model {

using kernels::Norm;
using kernels::Projection;

Heads read_heads(Metadata& meta, const Config& config) {
  Heads heads;
  heads.heads = meta.u32("attention.head_count", 1, 65536);
  heads.kv_heads = meta.u32_or("attention.head_count_kv", heads.heads, 1, 65536);
  heads.dim = meta.u32_or("attention.key_length", config.hidden / heads.heads, 1, 4096);
  if (meta.u32_or("attention.value_length", heads.dim, 1, 4096) != heads.dim)
    meta.problem(ErrorKind::Unsupported, "keys and values of different lengths");
  if (heads.heads % heads.kv_heads) meta.problem(ErrorKind::BadFile, "head_count is no multiple of head_count_kv");
  return heads;
}

void expect_attention(Metadata& meta, const std::string& p, uint64_t hidden, const Heads& heads) {
  if (allow_shape(meta, p + "attn_qkv.weight", hidden, heads.q() + 2ull * heads.kv())) {
    allow_shape(meta, p + "attn_qkv.bias", heads.q() + 2ull * heads.kv());
  } else {
    expect_shape(meta, p + "attn_q.weight", hidden, heads.q());
    expect_shape(meta, p + "attn_k.weight", hidden, heads.kv());
    expect_shape(meta, p + "attn_v.weight", hidden, heads.kv());
    allow_shape(meta, p + "attn_q.bias", heads.q());
    allow_shape(meta, p + "attn_k.bias", heads.kv());
    allow_shape(meta, p + "attn_v.bias", heads.kv());
  }
  expect_shape(meta, p + "attn_output.weight", heads.q(), hidden);
  allow_shape(meta, p + "attn_output.bias", hidden);
}

void expect_gated_ffn(Metadata& meta, const std::string& p, uint64_t hidden, uint64_t ffn) {
  expect_shape(meta, p + "ffn_gate.weight", hidden, ffn);
  expect_shape(meta, p + "ffn_up.weight", hidden, ffn);
  expect_shape(meta, p + "ffn_down.weight", ffn, hidden);
  allow_shape(meta, p + "ffn_down.bias", hidden);
}

bool expect_head(Metadata& meta, const Config& config) {
  expect_shape(meta, "output_norm.weight", config.hidden);
  return allow_shape(meta, "output.weight", config.hidden, config.vocabulary);
}

Norm rms(Recorder& r, const std::string& name, float eps) { return {r.weight(name), nullptr, eps, false}; }
Norm rms_opt(Recorder& r, const std::string& name, float eps) { return {r.weight_opt(name), nullptr, eps, false}; }
Norm layer_norm(Recorder& r, const std::string& name, float eps) {
  return {r.weight(name + ".weight"), r.weight_opt(name + ".bias"), eps, true};
}

Rows project_qkv(Recorder& r, const Rows& x, const Norm& n, const std::string& p, const Heads& heads) {
  const uint32_t nq = heads.q(), nkv = heads.kv();
  Rows qkv = r.rows("qkv", nq + 2 * nkv);
  if (auto fused = r.weight_opt(p + "attn_qkv.weight")) {
    kernels::project(r, x, n, {{fused, r.weight_opt(p + "attn_qkv.bias"), qkv}});
    return qkv;
  }
  kernels::project(r, x, n, {{r.weight(p + "attn_q.weight"), r.weight_opt(p + "attn_q.bias"), qkv.columns(0, nq)},
                             {r.weight(p + "attn_k.weight"), r.weight_opt(p + "attn_k.bias"), qkv.columns(nq, nkv)},
                             {r.weight(p + "attn_v.weight"), r.weight_opt(p + "attn_v.bias"), qkv.columns(nq + nkv, nkv)}});
  return qkv;
}

Projection attention_output(Recorder& r, const std::string& p, const Rows& y) {
  return {r.weight(p + "attn_output.weight"), r.weight_opt(p + "attn_output.bias"), y};
}

namespace {

Rows gated(Recorder& r, const Rows& x, const Norm& n, const std::string& p, uint32_t ffn, kernels::Activation activation) {
  Rows h = r.rows("ffn", ffn);
  kernels::project_gated(r, x, n, r.weight(p + "ffn_gate.weight"), r.weight(p + "ffn_up.weight"), activation, h);
  return h;
}

}  // namespace

void gated_ffn(Recorder& r, const Rows& x, const Norm& n, const std::string& p, uint32_t ffn, kernels::Activation activation) {
  const Rows h = gated(r, x, n, p, ffn, activation);
  kernels::project_add(r, h, {r.weight(p + "ffn_down.weight"), r.weight_opt(p + "ffn_down.bias"), x});
}

void gated_ffn_to(Recorder& r, const Rows& x, const Norm& n, const std::string& p, uint32_t ffn, kernels::Activation activation,
                  const Rows& y) {
  const Rows h = gated(r, x, n, p, ffn, activation);
  kernels::project(r, h, {}, {{r.weight(p + "ffn_down.weight"), r.weight_opt(p + "ffn_down.bias"), y}});
}

void output_head(Recorder& r, const Rows& x, const Norm& n, const Rows& logits) {
  r.plan.begin_segment();
  auto output = r.weight_opt("output.weight");
  if (!output && !r.failed()) output = r.weight("token_embd.weight");   // tied
  kernels::project(r, x, n, {{output, nullptr, logits}});
}

}  // namespace gull::model
