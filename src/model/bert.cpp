// BERT and Nomic's: encoders whose tokens see each other both ways, with a layer norm after each block. BERT has learned
// positions and a plain feed-forward network; Nomic's rotates and gates. Devlin et al. 2018, "BERT"; Nussbaum et al. 2024,
// "Nomic Embed".
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"

namespace gull::model {
namespace {

using kernels::Activation;

class Bert final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Bert>();
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
    if (auto types = r.weight_opt("token_types.weight")) kernels::add_first_row(r, types, x);   // all is "sentence A"
    if (!rotary_) kernels::add_position(r, r.weight("position_embd.weight"), x);
    kernels::norm(r, x, layer_norm(r, "token_embd_norm", eps_), x);
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      attention_block(r, in, l, x);
      feed_forward(r, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows&, const Rows&) const override {
    r.fail_with({ErrorKind::Internal, "an encoder has no logits"});
  }

  void embedding_head(Recorder& r, const Rows& x, const Rows& y) const override { kernels::scale_add(r, x, 1.0f, {}, y); }

 private:
  /// x = norm(x + Wo · attention(Wq·x, Wk·x, Wv·x))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, x, {}, p, heads_);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    if (rotary_) rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q());
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = 1.0f / std::sqrt(static_cast<float>(heads_.dim));
    a.causal = !config_.bidirectional;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, attention_output(r, p, x));
    kernels::norm(r, x, layer_norm(r, p + "attn_output_norm", eps_), x);
  }

  /// x = norm(x + Wdown · gelu(Wup·x)), or with a gate of SiLU
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows h = r.rows("ffn", ffn_);
    if (rotary_) {
      kernels::project_gated(r, x, {}, r.weight(p + "ffn_gate.weight"), r.weight(p + "ffn_up.weight"), Activation::Silu, h);
    } else {
      kernels::project(r, x, {}, {{r.weight(p + "ffn_up.weight"), r.weight_opt(p + "ffn_up.bias"), h}});
      kernels::activate(r, Activation::Gelu, h, {}, h);
    }
    kernels::project_add(r, h, {r.weight(p + "ffn_down.weight"), r.weight_opt(p + "ffn_down.bias"), x});
    kernels::norm(r, x, layer_norm(r, p + "layer_output_norm", eps_), x);
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_epsilon", 1e-12f);
    rotary_ = c.arch == "nomic-bert";
    if (rotary_) c.ropes.push_back(read_rope(meta, heads_.dim));
    else c.max_context = c.context;
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
    read_pooling(meta, c);
    c.embedding = true;
    c.bidirectional = !meta.bool_or("attention.causal", true);
  }

  void check_shapes(Metadata& meta) const {
    const auto expect_norm = [&](const std::string& name) {
      expect_shape(meta, name + ".weight", config_.hidden);
      allow_shape(meta, name + ".bias", config_.hidden);
    };
    if (meta.has_tensor("token_types.weight"))
      expect_shape(meta, "token_types.weight", config_.hidden, meta.file().tensor("token_types.weight")->dims[1]);
    if (!rotary_) expect_shape(meta, "position_embd.weight", config_.hidden, config_.context);
    expect_norm("token_embd_norm");
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_norm(p + "attn_output_norm");
      expect_norm(p + "layer_output_norm");
      expect_shape(meta, p + "ffn_up.weight", config_.hidden, ffn_);
      if (rotary_) expect_shape(meta, p + "ffn_gate.weight", config_.hidden, ffn_);
      else allow_shape(meta, p + "ffn_up.bias", ffn_);
      expect_shape(meta, p + "ffn_down.weight", ffn_, config_.hidden);
      allow_shape(meta, p + "ffn_down.bias", config_.hidden);
    }
  }

  Heads heads_;
  uint32_t ffn_ = 0;
  float eps_ = 0;
  bool rotary_ = false;
};

}  // namespace

Result<std::unique_ptr<Family>> make_bert(const gguf::File& file) { return Bert::create(file); }

}  // namespace gull::model
