// LFM2: most layers mix tokens with a gated short convolution, the others with grouped-query attention.
// Liquid AI 2025, "LFM2 Technical Report". lfm2moe: the same with a mixture of experts after the first layers.
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

class Lfm2 final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Lfm2>();
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
    size_t state = 0;
    for (uint32_t l = 0; l < config_.layers && !r.failed(); ++l) {
      r.plan.begin_segment();
      if (config_.kv[l].heads) attention_block(r, in, l, x);
      else convolution_block(r, in.states[state++], l, x);
      feed_forward(r, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, output_norm_, eps_), logits);
  }

 private:
  /// x += Wout · (c ⊙ conv(b ⊙ u)), where b | c | u = Win·norm(x)
  void convolution_block(Recorder& r, const gpu::BufferRef& state, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const uint32_t n = config_.hidden;
    const Rows bcu = r.rows("conv in", 3 * n);
    kernels::project(r, x, rms(r, p + "attn_norm.weight", eps_), {{r.weight(p + "shortconv.in_proj.weight"), nullptr, bcu}});
    kernels::ShortConv conv;
    conv.in = bcu.columns(0, n), conv.out = bcu.columns(n, n), conv.x = bcu.columns(2 * n, n);
    conv.weight = r.weight(p + "shortconv.conv.weight");
    conv.state = state;
    conv.y = r.rows("conv out", n);
    kernels::short_conv(r, conv);
    kernels::project_add(r, conv.y, {r.weight(p + "shortconv.out_proj.weight"), nullptr, x});
  }

  /// x += Wo · attention(rope(norm(q)), rope(norm(k)), v)
  void attention_block(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Heads heads = heads_of(l);
    const Rows qkv = project_qkv(r, x, rms(r, p + "attn_norm.weight", eps_), p, heads);
    kernels::RopeKv rope;
    rope.heads = heads.heads;
    rope.q_norm = rms(r, p + "attn_q_norm.weight", eps_);
    rope.k_norm = rms(r, p + "attn_k_norm.weight", eps_);
    rope.rope = {in.rope_tables[0], config_.ropes[0].dims / 2, true};
    kernels::rope_kv(r, qkv, rope, in.kv[l]);
    const Rows mixed = r.rows("mixed", heads.q());
    kernels::Attention a;
    a.heads = heads.heads;
    a.scale = 1.0f / std::sqrt(static_cast<float>(heads.dim));
    kernels::attention(r, qkv, in.kv[l], a, mixed);
    kernels::project_add(r, mixed, attention_output(r, p, x));
  }

  /// x += Wdown · (silu(Wgate·norm(x)) ⊙ Wup·norm(x)), or the same for a few experts of many
  void feed_forward(Recorder& r, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const kernels::Norm norm = rms(r, p + "ffn_norm.weight", eps_);
    if (l < dense_layers_) return gated_ffn(r, x, norm, p, ffn_, Activation::Silu);
    const Rows input = r.rows("normed", config_.hidden);
    kernels::norm(r, x, norm, input);
    moe_ffn(r, input, p, *moe_, x, true);
  }

  Heads heads_of(uint32_t layer) const { return {heads_, config_.kv[layer].heads, dim_}; }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    heads_ = meta.u32("attention.head_count", 1, 65536);
    dim_ = meta.u32_or("attention.key_length", c.hidden / heads_, 1, 4096);
    meta.ignore("attention.value_length");
    ffn_ = meta.u32("feed_forward_length", 1);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    taps_ = meta.u32("shortconv.l_cache", 2, 32);
    for (uint32_t kv_heads : meta.per_layer("attention.head_count_kv", c.layers, heads_)) {
      if (kv_heads && heads_ % kv_heads) meta.problem(ErrorKind::BadFile, "head_count is no multiple of head_count_kv");
      c.kv.push_back({kv_heads, kv_heads ? dim_ : 0});
      if (!kv_heads) c.states.push_back({"convolution state", uint64_t{taps_ - 1} * c.hidden});
    }
    c.recurrent = !c.states.empty();
    c.ropes.push_back(read_rope(meta, dim_));
    dense_layers_ = c.layers;
    if (c.arch == "lfm2moe") {
      dense_layers_ = meta.u32_or("leading_dense_block_count", 0, 0, c.layers);
      moe_ = read_moe(meta, true);
    }
    output_norm_ = meta.has_tensor("output_norm.weight") ? "output_norm.weight" : "token_embd_norm.weight";
  }

  void check_shapes(Metadata& meta) const {
    const uint64_t n = config_.hidden;
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", n);
      if (config_.kv[l].heads) {
        expect_attention(meta, p, n, heads_of(l));
        for (const char* norm : {"attn_q_norm", "attn_k_norm"}) expect_shape(meta, p + norm + ".weight", dim_);
      } else {
        expect_shape(meta, p + "shortconv.in_proj.weight", n, 3 * n);
        expect_shape(meta, p + "shortconv.conv.weight", taps_, n);
        expect_shape(meta, p + "shortconv.out_proj.weight", n, n);
      }
      expect_shape(meta, p + "ffn_norm.weight", n);
      if (l < dense_layers_) expect_gated_ffn(meta, p, n, ffn_);
      else expect_moe(meta, p, n, *moe_);
    }
    expect_shape(meta, output_norm_, n);
    allow_shape(meta, "output.weight", n, config_.vocabulary);
  }

  uint32_t heads_ = 0, dim_ = 0, ffn_ = 0, taps_ = 0, dense_layers_ = 0;
  std::optional<Moe> moe_;
  std::string output_norm_;
  float eps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_lfm2(const gguf::File& file) { return Lfm2::create(file); }

}  // namespace gull::model
