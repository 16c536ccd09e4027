// DeepSeek V2 and V3 and their kin: keys and values of all heads come out of one small latent vector a token, which is all
// that the cache holds; experts beside one that every token goes through. DeepSeek-AI 2024, "DeepSeek-V2", section 2.1,
// and "DeepSeek-V3". Files since 2025 have the latent's matrices apart for each head (attn_k_b, attn_v_b), so that queries
// are taken into the latent space ("absorbed"); older ones have one attn_kv_b, and every head's own keys and values.
#include <cmath>
#include <optional>

#include "base/log.h"
#include "kernels/mla.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/moe_block.h"

namespace gull::model {
namespace {

using kernels::Activation;
using kernels::CopyGroups;
using kernels::Norm;

class DeepSeek2 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<DeepSeek2>();
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
  uint32_t query_dim() const { return plain_ + rotary_; }
  /// What a head is in the cache: rotary part first, so that the rotation is of the leading dimensions.
  uint32_t head_dim() const { return rotary_ + (absorbed_ ? latent_ : plain_); }

  /// x += Wo · attention(…)
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Norm norm = rms(r, p + "attn_norm.weight", eps_);
    const Rows q = queries(r, p, x, norm);
    const Rows latent = r.rows("latent", latent_ + rotary_);
    kernels::project(r, x, norm, {{r.weight(p + "attn_kv_a_mqa.weight"), nullptr, latent}});
    const Rows compressed = latent.columns(0, latent_);
    kernels::norm(r, compressed, rms(r, p + "attn_kv_a_norm.weight", eps_), compressed);
    const Rows qkv = absorbed_ ? absorbed_heads(r, p, q, latent) : plain_heads(r, p, q, latent);
    kernels::RopeKv rope;
    rope.heads = heads_;
    rope.rope = {in.rope_tables[0], rotary_ / 2, false};
    rope.keys_only = absorbed_;
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads_ * head_dim()), values = r.rows("values", heads_ * value_dim_);
    kernels::Attention a;
    a.heads = heads_;
    a.scale = scale_;
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    // The mixture of latents becomes each head's values; or those are there already, padded to the keys' length.
    if (absorbed_) kernels::project_heads(r, mixed.columns(rotary_, heads_ * head_dim() - rotary_), head_dim(), r.weight(p + "attn_v_b.weight"), values, value_dim_);
    else kernels::copy_groups(r, {mixed, head_dim(), values, value_dim_, heads_, value_dim_});
    kernels::project_add(r, values, attention_output(r, p, x));
  }

  /// q of each head: plain | rotary floats; through a small vector of its own in the larger models.
  Rows queries(Recorder& r, const std::string& p, const Rows& x, const Norm& norm) const {
    const Rows q = r.rows("q", heads_ * query_dim());
    if (!query_rank_) {
      kernels::project(r, x, norm, {{r.weight(p + "attn_q.weight"), nullptr, q}});
      return q;
    }
    const Rows small = r.rows("q latent", query_rank_);
    kernels::project(r, x, norm, {{r.weight(p + "attn_q_a.weight"), nullptr, small}});
    kernels::project(r, small, rms(r, p + "attn_q_a_norm.weight", eps_), {{r.weight(p + "attn_q_b.weight"), nullptr, q}});
    return q;
  }

  /// Queries rotary | Wk_bᵀ·plain for each head, and one key: rotary | latent.
  Rows absorbed_heads(Recorder& r, const std::string& p, const Rows& q, const Rows& latent) const {
    const uint32_t d = head_dim();
    const Rows out = r.rows("latent heads", (heads_ + 1) * d);
    kernels::project_heads(r, q, query_dim(), r.weight(p + "attn_k_b.weight"), out.columns(rotary_, heads_ * d - rotary_), d);
    kernels::copy_groups(r, {q.columns(plain_, q.width - plain_), query_dim(), out, d, heads_, rotary_});
    kernels::copy_groups(r, {latent.columns(latent_, rotary_), 0, out.columns(heads_ * d, rotary_), 0, 1, rotary_});
    kernels::copy_groups(r, {latent, 0, out.columns(heads_ * d + rotary_, latent_), 0, 1, latent_});
    return out;
  }

  /// Queries, keys (both rotary | plain) and values of every head, those padded with zeros to the keys' length.
  Rows plain_heads(Recorder& r, const std::string& p, const Rows& q, const Rows& latent) const {
    const uint32_t d = head_dim(), pair = plain_ + value_dim_;
    const Rows kv = r.rows("keys and values", heads_ * pair);
    kernels::project(r, latent.columns(0, latent_), {}, {{r.weight(p + "attn_kv_b.weight"), nullptr, kv}});
    const Rows out = r.rows("heads", 3 * heads_ * d);   // nothing writes the padding: it stays as zero as it was made
    const Rows k = out.columns(heads_ * d, heads_ * d), v = out.columns(2 * heads_ * d, heads_ * d);
    kernels::copy_groups(r, {q.columns(plain_, q.width - plain_), query_dim(), out, d, heads_, rotary_});
    kernels::copy_groups(r, {q, query_dim(), out.columns(rotary_, heads_ * d - rotary_), d, heads_, plain_});
    kernels::copy_groups(r, {latent.columns(latent_, rotary_), 0, k, d, heads_, rotary_});
    kernels::copy_groups(r, {kv, pair, k.columns(rotary_, k.width - rotary_), d, heads_, plain_});
    kernels::copy_groups(r, {kv.columns(plain_, kv.width - plain_), pair, v, d, heads_, value_dim_});
    return out;
  }

  /// x += a gated network of norm(x) in the first layers, a mixture of experts in the others
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Norm norm = rms(r, p + "ffn_norm.weight", eps_);
    if (l < dense_layers_) return gated_ffn(r, x, norm, p, ffn_, Activation::Silu);
    const Rows input = r.rows("normed", config_.hidden);
    kernels::norm(r, x, norm, input);
    moe_ffn(r, input, p, *moe_, x, true);
  }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    all_layers_ = c.layers;
    const uint32_t extra = meta.u32_or("nextn_predict_layers", 0, 0, c.layers - 1);   // layers that guess further tokens
    c.layers -= extra;
    heads_ = meta.u32("attention.head_count", 1, 65536);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-6f);
    ffn_ = meta.u32("feed_forward_length", 1);
    latent_ = meta.u32("attention.kv_lora_rank", 4, 65536);
    query_rank_ = meta.has_tensor("blk.0.attn_q_a.weight") ? meta.u32("attention.q_lora_rank", 1, 65536) : 0;
    meta.ignore("attention.q_lora_rank");   // the small models name one and have none
    rotary_ = meta.u32("rope.dimension_count", 2, 4096);
    absorbed_ = meta.has_tensor("blk.0.attn_k_b.weight");
    const uint32_t key = absorbed_ ? meta.u32("attention.key_length_mla", 1, 8192) : meta.u32("attention.key_length", 1, 8192);
    value_dim_ = absorbed_ ? meta.u32("attention.value_length_mla", 1, 8192) : meta.u32("attention.value_length", 1, 8192);
    meta.ignore("attention.key_length_mla");
    if (key <= rotary_ || (!absorbed_ && value_dim_ > key)) return meta.problem(ErrorKind::BadFile, "attention.key_length does not fit the other lengths");
    plain_ = key - rotary_;
    read_rotation(meta);
    LayerKv kv{absorbed_ ? 1 : heads_, head_dim()};
    kv.keys_only = absorbed_;
    c.kv.assign(c.layers, kv);
    dense_layers_ = meta.u32_or("leading_dense_block_count", 0, 0, c.layers);
    if (dense_layers_ == c.layers) return;
    moe_ = read_moe(meta, false);
    moe_->shared_ffn = moe_->ffn * meta.u32_or("expert_shared_count", 0, 0, 1024);
    // V2 ranks a group by its best expert, V3 (sigmoid) by its best two.
    if (moe_->router.gate == kernels::Router::Gate::Softmax) moe_->router.group_rank = 1;
  }

  /// YaRN here lengthens all of the scores instead of the rotated part alone: V2's mscale_all_dim.
  void read_rotation(Metadata& meta) {
    RopeSpec rope = read_rope(meta, rotary_);
    scale_ = 1.0f / std::sqrt(static_cast<float>(query_dim()));
    const float all = meta.f32_or("rope.scaling.yarn_log_multiplier", 0.0f);   // 0.1 · mscale_all_dim
    if (rope.yarn_mix != 0 && all != 0 && rope.scale > 1) {
      const float m = 1.0f + all * std::log(rope.scale);
      rope.attention_factor = meta.f32_or("rope.scaling.attn_factor", 1.0f);
      scale_ *= m * m;
    }
    config_.ropes.push_back(rope);
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) check_layer(meta, l);
    for (uint32_t l = config_.layers; l < all_layers_; ++l) meta.set_aside(fmt::format("blk.{}.", l));
    expect_head(meta, config_);
  }

  void check_layer(Metadata& meta, uint32_t l) const {
    const std::string p = fmt::format("blk.{}.", l);
    const uint64_t n = config_.hidden, heads = heads_;
    expect_shape(meta, p + "attn_norm.weight", n);
    if (query_rank_) {
      expect_shape(meta, p + "attn_q_a.weight", n, query_rank_);
      expect_shape(meta, p + "attn_q_a_norm.weight", query_rank_);
      expect_shape(meta, p + "attn_q_b.weight", query_rank_, heads * query_dim());
    } else {
      expect_shape(meta, p + "attn_q.weight", n, heads * query_dim());
    }
    expect_shape(meta, p + "attn_kv_a_mqa.weight", n, uint64_t{latent_} + rotary_);
    expect_shape(meta, p + "attn_kv_a_norm.weight", latent_);
    if (absorbed_) {
      expect_shape(meta, p + "attn_k_b.weight", plain_, latent_, heads);
      expect_shape(meta, p + "attn_v_b.weight", latent_, value_dim_, heads);
      meta.set_aside(p + "attn_kv_b.weight");   // some files have both forms
    } else {
      expect_shape(meta, p + "attn_kv_b.weight", latent_, heads * (plain_ + value_dim_));
    }
    expect_shape(meta, p + "attn_output.weight", heads * value_dim_, n);
    expect_shape(meta, p + "ffn_norm.weight", n);
    if (l < dense_layers_) expect_gated_ffn(meta, p, n, ffn_);
    else expect_moe(meta, p, n, *moe_);
  }

  bool absorbed_ = false;
  uint32_t all_layers_ = 0, heads_ = 0, ffn_ = 0, dense_layers_ = 0;
  uint32_t latent_ = 0, query_rank_ = 0;                ///< lengths of the small vectors; query_rank 0: there is none
  uint32_t plain_ = 0, rotary_ = 0, value_dim_ = 0;     ///< of a head
  std::optional<Moe> moe_;
  float eps_ = 0, scale_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_deepseek2(const gguf::File& file) { return DeepSeek2::create(file); }

}  // namespace gull::model
