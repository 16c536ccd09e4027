// Phi 3 and 4: Llama's layers with q, k and v in one matrix, gate and up in another, and perhaps LongRoPE's two sets of
// rotary factors. Abdin et al. 2024, "Phi-3 Technical Report"; Ding et al. 2024, "LongRoPE".
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"

namespace gull::model {
namespace {

class Phi3 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Phi3>();
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
  /// x += Wo · attention(rope(q), rope(k), v), where q | k | v = Wqkv·norm(x)
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, x, rms(r, p + "attn_norm.weight", eps_), p, heads_);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q());
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = 1.0f / std::sqrt(static_cast<float>(heads_.dim));
    a.window = window_;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, attention_output(r, p, x));
  }

  /// x += Wdown · (silu(g) ⊙ u), where g | u = Wup·norm(x)
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows both = r.rows("gate and up", 2 * ffn_);
    kernels::project(r, x, rms(r, p + "ffn_norm.weight", eps_), {{r.weight(p + "ffn_up.weight"), nullptr, both}});
    const Rows h = r.rows("ffn", ffn_);
    kernels::activate(r, kernels::Activation::Silu, both.columns(0, ffn_), both.columns(ffn_, ffn_), h);
    kernels::project_add(r, h, {r.weight(p + "ffn_down.weight"), nullptr, x});
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    window_ = meta.u32_or("attention.sliding_window", 0);   // of every layer; 0 in Phi 4, which has none
    RopeSpec rope = read_rope(meta, heads_.dim);
    read_rope_factors(meta, rope);
    c.ropes.push_back(rope);
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_shape(meta, p + "ffn_norm.weight", config_.hidden);
      expect_shape(meta, p + "ffn_up.weight", config_.hidden, 2ull * ffn_);
      expect_shape(meta, p + "ffn_down.weight", ffn_, config_.hidden);
    }
    expect_head(meta, config_);
  }

  Heads heads_;
  uint32_t ffn_ = 0, window_ = 0;
  float eps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_phi3(const gguf::File& file) { return Phi3::create(file); }

}  // namespace gull::model
