// gpt-oss: attention with a learned sink a head, a window in every other layer, and in every layer a mixture of experts with
// biases and a bounded gate. OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card".
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/moe_block.h"

namespace gull::model {
namespace {

class GptOss final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<GptOss>();
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
      attention_block(r, in, l, x);
      const Rows input = r.rows("normed", config_.hidden);
      kernels::norm(r, x, rms(r, p + "post_attention_norm.weight", eps_), input);
      moe_ffn(r, input, p, moe_, x, true);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
  }

 private:
  /// x += Wo · attention(rope(Wq·norm(x)), rope(Wk·norm(x)), Wv·norm(x)), all with biases
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
    a.window = windowed_[l] ? window_ : 0;
    a.sinks = r.weight(p + "attn_sinks.weight");
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, attention_output(r, p, x));
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    moe_ = read_moe(meta, false);
    moe_.router.gate = kernels::Router::Gate::SoftmaxOfChosen;
    moe_.clamp = 7.0f;
    window_ = meta.u32_or("attention.sliding_window", 0);
    windowed_ = window_ ? read_windowed_layers(meta, c.layers, 2) : std::vector<bool>(c.layers, false);
    RopeSpec rope = read_rope(meta, heads_.dim, 150000.0f);
    rope.yarn_round = false;   // the model was trained with a ramp whose ends are no whole dimensions
    c.ropes.push_back(rope);
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_shape(meta, p + "attn_sinks.weight", heads_.heads);
      expect_shape(meta, p + "post_attention_norm.weight", config_.hidden);
      expect_moe(meta, p, config_.hidden, moe_);
    }
    expect_head(meta, config_);
  }

  Heads heads_;
  Moe moe_;
  uint32_t window_ = 0;
  std::vector<bool> windowed_;   ///< one a layer
  float eps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_gpt_oss(const gguf::File& file) { return GptOss::create(file); }

}  // namespace gull::model
