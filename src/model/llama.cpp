// Llama and its close kin: Llama 2 and 3, Mistral, SmolLM2, Qwen 2 and 3. Pre-norm layers of grouped-query attention and
// a gated feed-forward network. Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models".
#include <cmath>

#include "model/families.h"

#include "base/log.h"
#include "model/metadata.h"

namespace gull::model {
namespace {

using kernels::Activation;
using kernels::Norm;

class Llama final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Llama>();
    Metadata meta(file);
    Config& c = model->config_;
    read_common(meta, c);
    model->heads_ = meta.u32("attention.head_count", 1, 65536);
    model->kv_heads_ = meta.u32_or("attention.head_count_kv", model->heads_, 1, 65536);
    model->ffn_ = meta.u32("feed_forward_length", 1);
    model->head_dim_ = meta.u32_or("attention.key_length", c.hidden / model->heads_, 1, 4096);
    model->eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    model->scale_ = 1.0f / std::sqrt(static_cast<float>(model->head_dim_));
    model->neox_ = c.arch != "llama";   // the converter has permuted llama's q and k rows for neighbouring pairs
    RopeSpec rope = read_rope(meta, model->head_dim_);
    rope.factors = read_floats(meta, "rope_freqs.weight");
    if (!rope.factors.empty() && rope.factors.size() != rope.dims / 2)
      meta.problem(ErrorKind::BadFile, "'rope_freqs.weight' does not fit rope.dimension_count");
    c.ropes.push_back(rope);
    c.kv.assign(c.layers, {model->kv_heads_, model->head_dim_});
    if (model->heads_ % model->kv_heads_) meta.problem(ErrorKind::BadFile, "head_count is no multiple of head_count_kv");
    if (meta.u32_or("expert_count", 0)) meta.problem(ErrorKind::Unsupported, "mixture-of-experts tensors in a llama file");
    model->check_shapes(meta);
    if (meta.failed()) return fail(meta.error());
    return model;
  }

  Rows body(Recorder& r, const Inputs& in) const override {
    Rows x = r.rows("x", config_.hidden);
    kernels::embed(r, r.weight("token_embd.weight"), in.ids, x);
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      attention_block(r, in, l, x);
      feed_forward(r, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    r.plan.begin_segment();
    auto output = r.weight_opt("output.weight");
    if (!output && !r.failed()) output = r.weight("token_embd.weight");   // tied
    kernels::project(r, x, rms(r, "output_norm.weight"), {{output, nullptr, logits}});
  }

 private:
  Norm rms(Recorder& r, const std::string& name) const { return {r.weight(name), nullptr, eps_, false}; }
  Norm rms_opt(Recorder& r, const std::string& name) const { return {r.weight_opt(name), nullptr, eps_, false}; }

  /// x += Wo · attention(rope(Wq·norm(x)), rope(Wk·norm(x)), Wv·norm(x))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const uint32_t nq = heads_ * head_dim_, nkv = kv_heads_ * head_dim_;
    Rows qkv = r.rows("qkv", nq + 2 * nkv);
    kernels::RopeKv rope;
    rope.heads = heads_;
    rope.q_norm = rms_opt(r, p + "attn_q_norm.weight");
    rope.k_norm = rms_opt(r, p + "attn_k_norm.weight");
    rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, neox_};
    kernels::project_heads(r, x, rms(r, p + "attn_norm.weight"),
                           {{r.weight(p + "attn_q.weight"), r.weight_opt(p + "attn_q.bias"), qkv.columns(0, nq)},
                            {r.weight(p + "attn_k.weight"), r.weight_opt(p + "attn_k.bias"), qkv.columns(nq, nkv)},
                            {r.weight(p + "attn_v.weight"), r.weight_opt(p + "attn_v.bias"), qkv.columns(nq + nkv, nkv)}},
                           qkv, rope, in.kv[l]);
    Rows mixed = r.rows("mixed", nq);
    kernels::Attention a;
    a.heads = heads_;
    a.scale = scale_;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, {r.weight(p + "attn_output.weight"), r.weight_opt(p + "attn_output.bias"), x});
  }

  /// x += Wdown · (silu(Wgate·norm(x)) ⊙ Wup·norm(x))
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    Rows h = r.rows("ffn", ffn_);
    kernels::project_gated(r, x, rms(r, p + "ffn_norm.weight"), r.weight(p + "ffn_gate.weight"), r.weight(p + "ffn_up.weight"),
                           Activation::Silu, h);
    kernels::project_add(r, h, {r.weight(p + "ffn_down.weight"), r.weight_opt(p + "ffn_down.bias"), x});
  }

  void check_shapes(Metadata& meta) const {
    const uint64_t nq = uint64_t{heads_} * head_dim_, nkv = uint64_t{kv_heads_} * head_dim_;
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_q.weight", config_.hidden, nq);
      expect_shape(meta, p + "attn_k.weight", config_.hidden, nkv);
      expect_shape(meta, p + "attn_v.weight", config_.hidden, nkv);
      expect_shape(meta, p + "attn_output.weight", nq, config_.hidden);
      expect_shape(meta, p + "ffn_gate.weight", config_.hidden, ffn_);
      expect_shape(meta, p + "ffn_up.weight", config_.hidden, ffn_);
      expect_shape(meta, p + "ffn_down.weight", ffn_, config_.hidden);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden, 1);
      expect_shape(meta, p + "ffn_norm.weight", config_.hidden, 1);
    }
    expect_shape(meta, "output_norm.weight", config_.hidden, 1);
    if (meta.file().tensor("output.weight")) expect_shape(meta, "output.weight", config_.hidden, config_.vocabulary);
  }

  uint32_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, ffn_ = 0;
  float eps_ = 0, scale_ = 0;
  bool neox_ = false;
};

}  // namespace

Result<std::unique_ptr<Family>> make_llama(const gguf::File& file) { return Llama::create(file); }

}  // namespace gull::model
