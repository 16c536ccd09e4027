// OLMo 2 and 3: norms after the blocks instead of before, and over all queries and all keys; the third has windows in three
// of four layers, whose rotation is not scaled. OLMo Team 2024, "2 OLMo 2 Furious"; 2025, "Olmo 3".
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"

namespace gull::model {
namespace {

class Olmo2 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Olmo2>();
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
      attention_block(r, in, l, x);
      feed_forward(r, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
  }

 private:
  /// x += norm(Wo · attention(rope(norm(Wq·x)), rope(norm(Wk·x)), Wv·x))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, x, {}, p, heads_);
    const Rows q = qkv.columns(0, heads_.q()), k = qkv.columns(heads_.q(), heads_.kv());
    kernels::norm(r, q, rms(r, p + "attn_q_norm.weight", eps_), q);
    kernels::norm(r, k, rms(r, p + "attn_k_norm.weight", eps_), k);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    const size_t kind = windowed_[l] ? 1 : 0;
    rope.rope = {in.rope_tables[kind], config_.ropes[kind].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q()), out = r.rows("branch", config_.hidden);
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = 1.0f / std::sqrt(static_cast<float>(heads_.dim));
    a.window = windowed_[l] ? window_ : 0;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project(r, mixed, {}, {attention_output(r, p, out)});
    kernels::norm(r, out, rms(r, p + "post_attention_norm.weight", eps_), x, x);
  }

  /// x += norm(Wdown · (silu(Wgate·x) ⊙ Wup·x))
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows out = r.rows("branch", config_.hidden);
    gated_ffn_to(r, x, {}, p, ffn_, kernels::Activation::Silu, out);
    kernels::norm(r, out, rms(r, p + "post_ffw_norm.weight", eps_), x, x);
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-6f);
    window_ = meta.u32_or("attention.sliding_window", 0);
    windowed_ = window_ ? read_windowed_layers(meta, c.layers, 4) : std::vector<bool>(c.layers, false);
    const RopeSpec global = read_rope(meta, heads_.dim);
    RopeSpec local;
    local.base = meta.f32_or("rope.freq_base_swa", global.base);
    local.dims = global.dims;
    c.ropes = {global, local};
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_shape(meta, p + "attn_q_norm.weight", heads_.q());
      expect_shape(meta, p + "attn_k_norm.weight", heads_.kv());
      expect_shape(meta, p + "post_attention_norm.weight", config_.hidden);
      expect_gated_ffn(meta, p, config_.hidden, ffn_);
      expect_shape(meta, p + "post_ffw_norm.weight", config_.hidden);
    }
    expect_head(meta, config_);
  }

  Heads heads_;
  uint32_t ffn_ = 0, window_ = 0;
  std::vector<bool> windowed_;   ///< one a layer
  float eps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_olmo2(const gguf::File& file) { return Olmo2::create(file); }

}  // namespace gull::model
