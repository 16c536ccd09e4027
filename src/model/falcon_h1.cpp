// Falcon-H1: in every layer attention and Mamba 2 side by side, on the same normalised input.
// Falcon LLM Team 2025, "Falcon-H1". (The converter has already multiplied the weights by the model's multipliers.)
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/ssm_block.h"

namespace gull::model {
namespace {

class FalconH1 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<FalconH1>();
    Metadata meta(file);
    model->read_settings(meta);
    model->check_shapes(meta);
    meta.finish(model->config_);
    if (meta.failed()) return fail(meta.error());
    return model;
  }

  Rows body(Recorder& r, const Inputs& in) const override {
    Rows x = r.rows("x", config_.hidden);
    kernels::embed(r, r.weight("token_embd.weight"), in.ids, x);
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      const std::string p = fmt::format("blk.{}.", l);
      const Rows input = r.rows("layer in", config_.hidden);
      kernels::norm(r, x, rms(r, p + "attn_norm.weight", eps_), input);
      attention_block(r, in, l, input, x);
      mamba2(r, input, {}, p, ssm_, in, 2 * l, eps_, x);
      gated_ffn(r, x, rms(r, p + ffn_norm_, eps_), p, ffn_, kernels::Activation::Silu);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
  }

 private:
  /// x += Wo · attention(rope(Wq·input), rope(Wk·input), Wv·input)
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& input, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, input, {}, p, heads_);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q());
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = scale_;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, attention_output(r, p, x));
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    scale_ = meta.f32_or("attention.scale", 0.0f);
    if (scale_ == 0) scale_ = 1.0f / std::sqrt(static_cast<float>(heads_.dim));
    ssm_ = read_ssm(meta, true);
    for (uint32_t l = 0; l < c.layers; ++l) add_ssm_states(c, ssm_, true);
    RopeSpec rope = read_rope(meta, heads_.dim);
    read_rope_factors(meta, rope);
    c.ropes.push_back(rope);
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
    ffn_norm_ = meta.has_tensor("blk.0.ffn_norm.weight") ? "ffn_norm.weight" : "ffn_norm";
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_mamba2(meta, p, config_.hidden, ssm_);
      expect_shape(meta, p + ffn_norm_, config_.hidden);
      expect_gated_ffn(meta, p, config_.hidden, ffn_);
    }
    expect_head(meta, config_);
  }

  Heads heads_;
  Ssm ssm_;
  uint32_t ffn_ = 0;
  std::string ffn_norm_;
  float eps_ = 0, scale_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_falcon_h1(const gguf::File& file) { return FalconH1::create(file); }

}  // namespace gull::model
