// Gemma 1, 2, 3 and EmbeddingGemma. The second brought norms on both sides of each block, soft caps and sliding windows in
// every other layer; the third norms of each query and key head, five windowed layers to a global one and a rotation of
// their own for them; the embedding model looks both ways. Gemma Team 2024 ("Gemma", "Gemma 2") and 2025 ("Gemma 3",
// "EmbeddingGemma"). The converter has already added 1 to the norm weights.
#include <cmath>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"

namespace gull::model {
namespace {

using kernels::Activation;

/// What sets the generations apart.
struct Kin {
  const char* arch;
  bool sandwich;                 ///< norms after each block too
  bool qk_norm;                  ///< norms of each query and key head
  uint32_t pattern;              ///< of so many layers the last has no window; 0: no layer has one
  uint32_t window;               ///< where the file names none
  float global_base, local_base; ///< of the rotations; 0: the windowed layers rotate as the others do
  bool causal;
  uint32_t scaled_by_hidden;     ///< the model with so many layers scales by hidden ÷ heads, not by the head's size
};

constexpr Kin kKin[] = {
    {"gemma", false, false, 0, 0, 10000.0f, 0, true, 0},
    {"gemma2", true, false, 2, 4096, 10000.0f, 0, true, 46},
    {"gemma3", true, true, 6, 0, 1000000.0f, 10000.0f, true, 62},
    {"gemma-embedding", true, true, 6, 0, 1000000.0f, 10000.0f, false, 0},
};

class Gemma final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Gemma>();
    Metadata meta(file);
    for (const Kin& kin : kKin)
      if (meta.arch() == kin.arch) model->kin_ = kin;
    model->read_settings(meta);
    model->check_shapes(meta);
    meta.finish(model->config_);
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
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
    if (final_cap_ > 0) kernels::softcap(r, logits, final_cap_);
  }

  void embedding_head(Recorder& r, const Rows& x, const Rows& y) const override {
    kernels::norm(r, x, rms(r, "output_norm.weight", eps_), y);
  }

 private:
  /// x += norm(Wo · attention(…norm(x)…)), the outer norm from the second generation on
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, x, rms(r, p + "attn_norm.weight", eps_), p, heads_);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    if (kin_.qk_norm) {
      rope.q_norm = rms(r, p + "attn_q_norm.weight", eps_);
      rope.k_norm = rms(r, p + "attn_k_norm.weight", eps_);
    }
    const size_t kind = windowed_[l] && config_.ropes.size() > 1 ? 1 : 0;
    rope.rope = {in.rope_tables[kind], config_.ropes[kind].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q());
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = scale_;
    a.softcap = attention_cap_;
    a.window = windowed_[l] ? window_ : 0;
    a.causal = kin_.causal;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    if (!kin_.sandwich) return kernels::project_add(r, mixed, attention_output(r, p, x));
    const Rows out = r.rows("branch", config_.hidden);
    kernels::project(r, mixed, {}, {attention_output(r, p, out)});
    kernels::norm(r, out, rms(r, p + "post_attention_norm.weight", eps_), x, x);
  }

  /// x += norm(Wdown · (gelu(Wgate·norm(x)) ⊙ Wup·norm(x))), likewise
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const kernels::Norm norm = rms(r, p + "ffn_norm.weight", eps_);
    if (!kin_.sandwich) return gated_ffn(r, x, norm, p, ffn_, Activation::GeluTanh);
    const Rows out = r.rows("branch", config_.hidden);
    gated_ffn_to(r, x, norm, p, ffn_, Activation::GeluTanh, out);
    kernels::norm(r, out, rms(r, p + "post_ffw_norm.weight", eps_), x, x);
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-6f);
    final_cap_ = meta.f32_or("final_logit_softcapping", 0.0f);
    if (c.arch == "gemma2") attention_cap_ = meta.f32_or("attn_logit_softcapping", 0.0f);
    scale_ = 1.0f / std::sqrt(static_cast<float>(c.layers == kin_.scaled_by_hidden ? c.hidden / heads_.heads : heads_.dim));
    windowed_.assign(c.layers, false);
    if (kin_.pattern) {
      window_ = meta.u32_or("attention.sliding_window", kin_.window);
      if (window_) windowed_ = read_windowed_layers(meta, c.layers, kin_.pattern);
    }
    const RopeSpec global = read_rope(meta, heads_.dim, kin_.global_base);
    c.ropes = {global};
    if (kin_.local_base > 0) {
      RopeSpec local;   // never scaled
      local.base = meta.f32_or("rope.freq_base_swa", kin_.local_base);
      local.dims = global.dims;
      c.ropes.push_back(local);
    }
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
    if (!kin_.causal) {
      read_pooling(meta, c);
      meta.ignore("attention.causal");
      c.embedding = c.bidirectional = true;
    }
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_attention(meta, p, config_.hidden, heads_);
      expect_gated_ffn(meta, p, config_.hidden, ffn_);
      for (const char* norm : {"attn_norm", "ffn_norm"}) expect_shape(meta, p + norm + ".weight", config_.hidden);
      if (kin_.sandwich)
        for (const char* norm : {"post_attention_norm", "post_ffw_norm"}) expect_shape(meta, p + norm + ".weight", config_.hidden);
      if (kin_.qk_norm)
        for (const char* norm : {"attn_q_norm", "attn_k_norm"}) expect_shape(meta, p + norm + ".weight", heads_.dim);
    }
    expect_head(meta, config_);
  }

  Kin kin_{};
  Heads heads_;
  uint32_t ffn_ = 0, window_ = 0;
  std::vector<bool> windowed_;      ///< one a layer
  float eps_ = 0, scale_ = 0, attention_cap_ = 0, final_cap_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_gemma(const gguf::File& file) { return Gemma::create(file); }

}  // namespace gull::model
