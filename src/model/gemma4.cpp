// Gemma 4: Gemma 3's sandwich of norms with heads of two sizes (windowed and global layers), keys that are values too,
// caches shared by the last layers, an embedding of its own for each layer (E2B, E4B), and a mixture of experts beside the
// feed-forward network (26B-A4B). Gemma Team 2026; tensor names and order as in transformers' Gemma4.
#include <cmath>
#include <optional>

#include "base/log.h"
#include "kernels/ssm.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/moe_block.h"

namespace gull::model {
namespace {

using kernels::Activation;
using kernels::Norm;

class Gemma4 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Gemma4>();
    Metadata meta(file);
    model->read_settings(meta);
    model->check_shapes(meta);
    meta.finish(model->config_);
    if (meta.failed()) return fail(meta.error());
    return model;
  }

  Rows body(Recorder& r, const Inputs& in) const override {
    Rows x = r.rows("x", config_.hidden);
    kernels::embed(r, r.weight("token_embd.weight"), in.ids, x, std::sqrt(static_cast<float>(config_.hidden)));
    const Rows own = own_embedding_ ? layer_embeddings(r, in, x) : Rows{};
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      attention_block(r, in, l, x);
      feed_forward(r, l, x);
      if (own) own_embedding_block(r, l, own.columns(l * own_embedding_, own_embedding_), x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
    if (final_cap_ > 0) kernels::softcap(r, logits, final_cap_);
  }

 private:
  /// For each token and layer e[l] = (E[id, l]·√d + norm(P·x ÷ √hidden)[l]) ÷ √2, d floats each.
  Rows layer_embeddings(Recorder& r, const Inputs& in, const Rows& x) const {
    const uint32_t width = own_embedding_ * config_.layers;
    const Rows own = r.rows("layer embeddings", width), projected = r.rows("layer projections", width);
    kernels::embed(r, r.weight("per_layer_token_embd.weight"), in.ids, own, std::sqrt(static_cast<float>(own_embedding_)) * half_);
    kernels::project(r, x, {}, {{r.weight("per_layer_model_proj.weight"), nullptr, projected}});
    // The division by √hidden before a norm changes nothing but what ε weighs.
    kernels::group_norm(r, projected, r.weight("per_layer_proj_norm.weight"), config_.layers, eps_ * config_.hidden);
    kernels::scale_add(r, projected, half_, own, own);
    return own;
  }

  /// x += norm(Wo · attention(rope(norm(q)), rope(norm(k)), norm(v)))
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Heads heads = heads_of(l);
    const Norm norm = rms(r, p + "attn_norm.weight", eps_);
    kernels::RopeKv rope;
    rope.heads = heads.heads;
    rope.q_norm = rms(r, p + "attn_q_norm.weight", eps_);
    const size_t kind = windowed_[l] ? 1 : 0;
    rope.rope = {in.rope_tables[kind], config_.ropes[kind].dims / 2, true};
    Rows qkv;
    if (config_.kv[l].shares >= 0) {
      rope.write_kv = false;
      qkv = r.rows("qkv", heads.q());
      kernels::project(r, x, norm, {{r.weight(p + "attn_q.weight"), nullptr, qkv}});
    } else {
      rope.k_norm = rms(r, p + "attn_k_norm.weight", eps_);
      rope.v_norm = true, rope.eps = eps_;
      qkv = project(r, x, norm, p, heads);
    }
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads.q());
    kernels::Attention a;
    a.heads = heads.heads;
    a.window = windowed_[l] ? window_ : 0;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    const Rows out = r.rows("branch", config_.hidden);
    kernels::project(r, mixed, {}, {attention_output(r, p, out)});
    kernels::norm(r, out, rms(r, p + "post_attention_norm.weight", eps_), x, x);
  }

  /// q | k | v of norm(x); where there is no matrix for values, they are the keys as they come.
  Rows project(Recorder& r, const Rows& x, const Norm& norm, const std::string& p, const Heads& heads) const {
    if (r.weight_opt(p + "attn_v.weight") || r.weight_opt(p + "attn_qkv.weight")) return project_qkv(r, x, norm, p, heads);
    const Rows qkv = r.rows("qkv", heads.q() + 2 * heads.kv());
    const Rows k = qkv.columns(heads.q(), heads.kv());
    kernels::project(r, x, norm, {{r.weight(p + "attn_q.weight"), nullptr, qkv.columns(0, heads.q())}, {r.weight(p + "attn_k.weight"), nullptr, k}});
    kernels::scale_add(r, k, 1.0f, {}, qkv.columns(heads.q() + heads.kv(), heads.kv()));
    return qkv;
  }

  /// x += norm(F(norm(x))), where F is a gated network, or norm(that) + norm(a mixture of experts)
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows out = r.rows("branch", config_.hidden);
    gated_ffn_to(r, x, rms(r, p + "ffn_norm.weight", eps_), p, ffn_[l], Activation::GeluTanh, out);
    if (moe_) {
      const Rows sum = r.rows("ffn sum", config_.hidden);
      kernels::norm(r, out, rms(r, p + "post_ffw_norm_1.weight", eps_), sum);
      mixture(r, p, x, out);
      kernels::norm(r, out, rms(r, p + "post_ffw_norm_2.weight", eps_), sum, sum);
      return kernels::norm(r, sum, last_norm(r, p, "post_ffw_norm.weight", own_embedding_ == 0), x, x);
    }
    kernels::norm(r, out, last_norm(r, p, "post_ffw_norm.weight", own_embedding_ == 0), x, x);
  }

  /// out = the experts of norm(x), chosen by a router of its own norm: W·(norm(x) ⊙ scale ÷ √hidden).
  void mixture(Recorder& r, const std::string& p, const Rows& x, const Rows& out) const {
    const Rows routed = r.rows("router in", config_.hidden), logits = r.rows("router", moe_->router.experts), input = r.rows("normed", config_.hidden);
    kernels::norm(r, x, rms(r, p + "ffn_gate_inp.scale", eps_), routed);
    kernels::project(r, routed, {}, {{r.weight(p + "ffn_gate_inp.weight"), nullptr, logits}});
    kernels::scale_add(r, logits, 1.0f / std::sqrt(static_cast<float>(config_.hidden)), {}, logits);
    kernels::norm(r, x, rms(r, p + "pre_ffw_norm_2.weight", eps_), input);
    moe_experts(r, input, logits, p, *moe_, out, false);
  }

  /// x += norm(Wproj · (gelu(Wgate·x) ⊙ e[l]))
  void own_embedding_block(Recorder& r, uint32_t l, const Rows& own, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows gate = r.rows("layer gate", own_embedding_), out = r.rows("branch", config_.hidden);
    kernels::project(r, x, {}, {{r.weight(p + "inp_gate.weight"), nullptr, gate}});
    kernels::activate(r, Activation::GeluTanh, gate, own, gate);
    kernels::project(r, gate, {}, {{r.weight(p + "proj.weight"), nullptr, out}});
    kernels::norm(r, out, last_norm(r, p, "post_norm.weight", true), x, x);
  }

  /// The norm that ends a layer also scales what the layer gives.
  Norm last_norm(Recorder& r, const std::string& p, const char* name, bool last) const {
    Norm norm = rms(r, p + name, eps_);
    if (last) norm.out_scale = r.weight_opt(p + "layer_output_scale.weight");
    return norm;
  }

  Heads heads_of(uint32_t l) const { return {heads_, config_.kv[l].heads, config_.kv[l].head_dim}; }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = meta.u32("attention.head_count", 1, 65536);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-6f);
    final_cap_ = meta.f32_or("final_logit_softcapping", 0.0f);
    window_ = meta.u32_or("attention.sliding_window", 0);
    windowed_ = window_ ? read_windowed_layers(meta, c.layers, 6) : std::vector<bool>(c.layers, false);
    ffn_ = meta.per_layer("feed_forward_length", c.layers, 0);
    own_embedding_ = meta.u32_or("embedding_length_per_layer_input", 0, 0, 65536);
    if (meta.u32_or("expert_count", 0)) {
      moe_ = read_moe(meta, true);
      moe_->activation = Activation::GeluTanh;
    }
    read_heads_and_caches(meta);
    RopeSpec global = read_rope(meta, global_dim_, 1000000.0f);
    read_rope_factors(meta, global);   // they stop the rotation of all but the first pairs
    RopeSpec local;
    local.base = meta.f32_or("rope.freq_base_swa", 10000.0f);
    local.dims = meta.u32_or("rope.dimension_count_swa", local_dim_, 2, local_dim_);
    c.ropes = {global, local};
  }

  void read_heads_and_caches(Metadata& meta) {
    Config& c = config_;
    global_dim_ = meta.u32("attention.key_length", 1, 4096);
    local_dim_ = meta.u32_or("attention.key_length_swa", global_dim_, 1, 4096);
    if (meta.u32_or("attention.value_length", global_dim_) != global_dim_ || meta.u32_or("attention.value_length_swa", local_dim_) != local_dim_)
      meta.problem(ErrorKind::Unsupported, "keys and values of different lengths");
    const auto kv_heads = meta.per_layer("attention.head_count_kv", c.layers, heads_);
    const uint32_t sharing = meta.u32_or("attention.shared_kv_layers", 0, 0, c.layers - 1);
    int32_t latest[2] = {-1, -1};   // the last layer of each kind with a cache of its own
    for (uint32_t l = 0; l < c.layers; ++l) {
      LayerKv kv{kv_heads[l], windowed_[l] ? local_dim_ : global_dim_};
      if (kv.heads == 0 || heads_ % kv.heads) return meta.problem(ErrorKind::BadFile, "head_count is no multiple of head_count_kv");
      if (l + sharing >= c.layers) {
        kv.shares = latest[windowed_[l]];
        if (kv.shares < 0) return meta.problem(ErrorKind::BadFile, "a layer shares a cache that no earlier layer has");
        if (c.kv[kv.shares].heads != kv.heads) return meta.problem(ErrorKind::BadFile, "layers with different heads share a cache");
      } else {
        latest[windowed_[l]] = static_cast<int32_t>(l);
      }
      c.kv.push_back(kv);
    }
  }

  void check_shapes(Metadata& meta) const {
    const uint64_t n = config_.hidden, own = own_embedding_;
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) check_layer(meta, l);
    expect_head(meta, config_);
    if (!own) return;
    expect_shape(meta, "per_layer_token_embd.weight", own * config_.layers, config_.vocabulary);
    expect_shape(meta, "per_layer_model_proj.weight", n, own * config_.layers);
    expect_shape(meta, "per_layer_proj_norm.weight", own);
  }

  void check_layer(Metadata& meta, uint32_t l) const {
    const std::string p = fmt::format("blk.{}.", l);
    const uint64_t n = config_.hidden, own = own_embedding_;
    const Heads heads = heads_of(l);
    const bool shares = config_.kv[l].shares >= 0;
    if (shares || !allow_shape(meta, p + "attn_qkv.weight", n, heads.q() + 2ull * heads.kv())) {
      expect_shape(meta, p + "attn_q.weight", n, heads.q());
      if (!shares) expect_shape(meta, p + "attn_k.weight", n, heads.kv());
      // Layers that share a cache may still carry the matrices that the training left behind.
      for (const char* name : {"attn_k", "attn_v"}) allow_shape(meta, p + name + ".weight", n, heads.kv());
    }
    expect_shape(meta, p + "attn_output.weight", heads.q(), n);
    expect_shape(meta, p + "attn_q_norm.weight", heads.dim);
    if (!allow_shape(meta, p + "attn_k_norm.weight", heads.dim) && !shares) meta.problem(ErrorKind::BadFile, fmt::format("tensor '{}attn_k_norm.weight' is missing", p));
    expect_gated_ffn(meta, p, n, ffn_[l]);
    for (const char* norm : {"attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm"}) expect_shape(meta, p + norm + ".weight", n);
    allow_shape(meta, p + "layer_output_scale.weight", 1);
    if (moe_) {
      expect_moe(meta, p, n, *moe_);
      expect_shape(meta, p + "ffn_gate_inp.scale", n);
      for (const char* norm : {"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"}) expect_shape(meta, p + norm + ".weight", n);
    }
    if (own) {
      expect_shape(meta, p + "inp_gate.weight", n, own);
      expect_shape(meta, p + "proj.weight", own, n);
      expect_shape(meta, p + "post_norm.weight", n);
    }
  }

  static constexpr float half_ = 0.70710678118654752f;   // 1 ÷ √2
  uint32_t heads_ = 0, global_dim_ = 0, local_dim_ = 0, window_ = 0;
  uint32_t own_embedding_ = 0;       ///< floats of a layer's own embedding; 0: there is none
  std::vector<uint32_t> ffn_;        ///< one a layer
  std::vector<bool> windowed_;       ///< one a layer
  std::optional<Moe> moe_;
  float eps_ = 0, final_cap_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_gemma4(const gguf::File& file) { return Gemma4::create(file); }

}  // namespace gull::model
