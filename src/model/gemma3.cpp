// Gemma 3: sandwich norms, a norm on each query and key head, five sliding-window layers to a global one with a rotation
// of their own. Gemma Team 2025, "Gemma 3 Technical Report". (The converter has already added 1 to the norm weights.)
#include <cmath>

#include "base/log.h"
#include "model/families.h"
#include "model/metadata.h"

namespace gull::model {
namespace {

using kernels::Activation;
using kernels::Norm;

class Gemma3 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Gemma3>();
    Metadata meta(file);
    Config& c = model->config_;
    read_common(meta, c);
    model->heads_ = meta.u32("attention.head_count", 1, 65536);
    model->kv_heads_ = meta.u32_or("attention.head_count_kv", model->heads_, 1, 65536);
    model->ffn_ = meta.u32("feed_forward_length", 1);
    model->head_dim_ = meta.u32_or("attention.key_length", c.hidden / model->heads_, 1, 4096);
    model->eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-6f);
    model->window_ = meta.u32_or("attention.sliding_window", 0);
    model->pattern_ = meta.u32_or("attention.sliding_window_pattern", 6, 1, 1024);
    model->softcap_ = meta.f32_or("final_logit_softcapping", 0.0f);
    // The 27b model scales by hidden/heads instead of the head size (Gemma 3 report, table of configurations).
    model->scale_ = c.layers == 62 ? 1.0f / std::sqrt(static_cast<float>(c.hidden) / model->heads_)
                                   : 1.0f / std::sqrt(static_cast<float>(model->head_dim_));
    RopeSpec global = read_rope(meta, model->head_dim_, 1000000.0f);
    RopeSpec local;
    local.base = meta.f32_or("rope.freq_base_swa", 10000.0f);
    local.dims = global.dims;
    c.ropes = {global, local};
    c.kv.assign(c.layers, {model->kv_heads_, model->head_dim_});
    if (model->heads_ % model->kv_heads_) meta.problem(ErrorKind::BadFile, "head_count is no multiple of head_count_kv");
    model->check_shapes(meta);
    if (meta.failed()) return fail(meta.error());
    return model;
  }

  Rows body(Recorder& r, const Inputs& in) const override {
    Rows x = r.rows("x", config_.hidden);
    kernels::embed(r, r.weight("token_embd.weight"), in.ids, x, std::sqrt(static_cast<float>(config_.hidden)));
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
    if (softcap_ > 0) kernels::softcap(r, logits, softcap_);
  }

 private:
  Norm rms(Recorder& r, const std::string& name) const { return {r.weight(name), nullptr, eps_, false}; }
  bool local(uint32_t layer) const { return window_ > 0 && (layer + 1) % pattern_ != 0; }

  /// x += norm(Wo · attention(…norm(x)…))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const uint32_t nq = heads_ * head_dim_, nkv = kv_heads_ * head_dim_;
    Rows qkv = r.rows("qkv", nq + 2 * nkv);
    kernels::project(r, x, rms(r, p + "attn_norm.weight"), {{r.weight(p + "attn_q.weight"), nullptr, qkv.columns(0, nq)},
                                                            {r.weight(p + "attn_k.weight"), nullptr, qkv.columns(nq, nkv)},
                                                            {r.weight(p + "attn_v.weight"), nullptr, qkv.columns(nq + nkv, nkv)}});
    kernels::RopeKv rope;
    rope.heads = heads_;
    rope.q_norm = rms(r, p + "attn_q_norm.weight");
    rope.k_norm = rms(r, p + "attn_k_norm.weight");
    const uint32_t kind = local(l) ? 1 : 0;
    rope.rope = {in.rope_tables[kind], config_.ropes[kind].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    Rows mixed = r.rows("mixed", nq);
    kernels::Attention a;
    a.heads = heads_;
    a.scale = scale_;
    a.window = local(l) ? window_ : 0;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    Rows out = r.rows("sandwich", config_.hidden);
    kernels::project(r, mixed, {}, {{r.weight(p + "attn_output.weight"), nullptr, out}});
    kernels::norm(r, out, rms(r, p + "post_attention_norm.weight"), x, x);
  }

  /// x += norm(Wdown · (gelu(Wgate·norm(x)) ⊙ Wup·norm(x)))
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    Rows h = r.rows("ffn", ffn_);
    kernels::project_gated(r, x, rms(r, p + "ffn_norm.weight"), r.weight(p + "ffn_gate.weight"), r.weight(p + "ffn_up.weight"),
                           Activation::GeluTanh, h);
    Rows out = r.rows("sandwich", config_.hidden);
    kernels::project(r, h, {}, {{r.weight(p + "ffn_down.weight"), nullptr, out}});
    kernels::norm(r, out, rms(r, p + "post_ffw_norm.weight"), x, x);
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
      for (const char* norm : {"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"})
        expect_shape(meta, p + norm + ".weight", config_.hidden, 1);
      for (const char* norm : {"attn_q_norm", "attn_k_norm"}) expect_shape(meta, p + norm + ".weight", head_dim_, 1);
    }
    expect_shape(meta, "output_norm.weight", config_.hidden, 1);
    if (meta.file().tensor("output.weight")) expect_shape(meta, "output.weight", config_.hidden, config_.vocabulary);
  }

  uint32_t heads_ = 0, kv_heads_ = 0, head_dim_ = 0, ffn_ = 0, window_ = 0, pattern_ = 6;
  float eps_ = 0, scale_ = 0, softcap_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_gemma3(const gguf::File& file) { return Gemma3::create(file); }

}  // namespace gull::model
