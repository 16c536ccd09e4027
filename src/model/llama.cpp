// Llama and its close kin: Llama 2 and 3, Mistral, Mixtral, Qwen 2 and 3 with their mixtures, OLMoE, SmolLM3, Granite.
// Pre-norm layers of grouped-query attention and a gated feed-forward network, or a mixture of them.
// Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models"; Jiang et al. 2024, "Mixtral of Experts".
#include <cmath>
#include <optional>

#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/moe_block.h"

namespace gull::model {
namespace {

using kernels::Activation;
using kernels::Norm;

/// What sets the architectures apart.
struct Kin {
  const char* arch;
  bool neox;                     ///< rotated pairs lie half a head apart (else the converter has permuted q and k)
  enum { None, Head, Whole } qk_norm;   ///< a norm of queries and keys: for each head, or over all of them
  bool renormalise;              ///< the weights of a token's experts add up to 1
  bool shared_gate;              ///< the shared expert is scaled by a gate of its own
  uint32_t no_rope_step;         ///< each so-manieth layer has no rotation (SmolLM3); 0: all have one
};

constexpr Kin kKin[] = {
    {"llama", false, Kin::None, true, false, 0},    {"qwen2", true, Kin::None, false, false, 0},
    {"qwen3", true, Kin::Head, false, false, 0},    {"qwen2moe", true, Kin::None, false, true, 0},
    {"qwen3moe", true, Kin::Head, true, false, 0},  {"olmoe", true, Kin::Whole, false, false, 0},
    {"smollm3", false, Kin::None, false, false, 4}, {"granite", false, Kin::None, false, false, 0},
    {"granitemoe", false, Kin::None, true, false, 0},
};

class Llama final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Llama>();
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
    kernels::embed(r, r.weight("token_embd.weight"), in.ids, x, embedding_scale_);
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      attention_block(r, in, l, x);
      feed_forward(r, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
    if (logit_scale_ != 1) kernels::scale_add(r, logits, 1 / logit_scale_, {}, logits);
  }

  void embedding_head(Recorder& r, const Rows& x, const Rows& y) const override {
    kernels::norm(r, x, rms(r, "output_norm.weight", eps_), y);
  }

 private:
  /// x += Wo · attention(rope(Wq·norm(x)), rope(Wk·norm(x)), Wv·norm(x))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows qkv = project_qkv(r, x, rms(r, p + "attn_norm.weight", eps_), p, heads_);
    kernels::RopeKv rope;
    rope.heads = heads_.heads;
    if (kin_.qk_norm == Kin::Whole) {
      const Rows q = qkv.columns(0, heads_.q()), k = qkv.columns(heads_.q(), heads_.kv());
      kernels::norm(r, q, rms(r, p + "attn_q_norm.weight", eps_), q);
      kernels::norm(r, k, rms(r, p + "attn_k_norm.weight", eps_), k);
    } else if (kin_.qk_norm == Kin::Head) {
      rope.q_norm = rms(r, p + "attn_q_norm.weight", eps_);
      rope.k_norm = rms(r, p + "attn_k_norm.weight", eps_);
    }
    const bool rotated = kin_.no_rope_step == 0 || (l + 1) % kin_.no_rope_step != 0;
    if (rotated) rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, kin_.neox};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_.q());
    kernels::Attention a;
    a.heads = heads_.heads;
    a.scale = scale_;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    if (residual_scale_ == 1) return kernels::project_add(r, mixed, attention_output(r, p, x));
    const Rows out = r.rows("branch", config_.hidden);
    kernels::project(r, mixed, {}, {attention_output(r, p, out)});
    kernels::scale_add(r, out, residual_scale_, x, x);
  }

  /// x += Wdown · (silu(Wgate·norm(x)) ⊙ Wup·norm(x)), or the same for a few experts of many
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Norm norm = rms(r, p + "ffn_norm.weight", eps_);
    const bool scaled = residual_scale_ != 1;
    const Rows out = scaled ? r.rows("branch", config_.hidden) : x;
    if (moe_) {
      const Rows input = r.rows("normed", config_.hidden);
      kernels::norm(r, x, norm, input);
      moe_ffn(r, input, p, *moe_, out, !scaled);
    } else if (scaled) {
      gated_ffn_to(r, x, norm, p, ffn_, Activation::Silu, out);
    } else {
      gated_ffn(r, x, norm, p, ffn_, Activation::Silu);
    }
    if (scaled) kernels::scale_add(r, out, residual_scale_, x, x);
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = read_heads(meta, c);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    scale_ = meta.f32_or("attention.scale", 0.0f);
    if (scale_ == 0) scale_ = 1.0f / std::sqrt(static_cast<float>(heads_.dim));
    if (meta.u32_or("expert_count", 0)) {
      moe_ = read_moe(meta, kin_.renormalise);
      moe_->shared_gate = kin_.shared_gate;
      if (kin_.shared_gate && !moe_->shared_ffn) moe_->shared_ffn = meta.u32("feed_forward_length", 1);
    } else {
      ffn_ = meta.u32("feed_forward_length", 1);
    }
    if (c.arch.starts_with("granite")) {
      embedding_scale_ = meta.f32_or("embedding_scale", 1.0f);
      residual_scale_ = meta.f32_or("residual_scale", 1.0f);
      logit_scale_ = meta.f32_or("logit_scale", 1.0f);
      if (!(std::abs(logit_scale_) > 1e-20f)) meta.problem(ErrorKind::BadFile, "logit_scale is 0");
    }
    // Files of Mistral and Qwen 2 name a window that the models were not run with; neither llama.cpp nor gull uses it.
    meta.ignore("attention.sliding_window");
    RopeSpec rope = read_rope(meta, heads_.dim);
    read_rope_factors(meta, rope);
    c.ropes.push_back(rope);
    c.kv.assign(c.layers, {heads_.kv_heads, heads_.dim});
    read_pooling(meta, c);
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden);
      expect_attention(meta, p, config_.hidden, heads_);
      if (kin_.qk_norm != Kin::None) {
        expect_shape(meta, p + "attn_q_norm.weight", kin_.qk_norm == Kin::Head ? heads_.dim : heads_.q());
        expect_shape(meta, p + "attn_k_norm.weight", kin_.qk_norm == Kin::Head ? heads_.dim : heads_.kv());
      }
      expect_shape(meta, p + "ffn_norm.weight", config_.hidden);
      if (moe_) expect_moe(meta, p, config_.hidden, *moe_);
      else expect_gated_ffn(meta, p, config_.hidden, ffn_);
    }
    expect_head(meta, config_);
  }

  Kin kin_{};
  Heads heads_;
  std::optional<Moe> moe_;
  uint32_t ffn_ = 0;
  float eps_ = 0, scale_ = 0, embedding_scale_ = 1, residual_scale_ = 1, logit_scale_ = 1;
};

}  // namespace

Result<std::unique_ptr<Family>> make_llama(const gguf::File& file) { return Llama::create(file); }

}  // namespace gull::model
