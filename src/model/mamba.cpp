// Mamba 1 and 2, and FalconMamba: state-space layers alone, no attention and no positions.
// Gu and Dao 2023, "Mamba"; Dao and Gu 2024, "Transformers are SSMs".
#include "base/log.h"
#include "model/blocks.h"
#include "model/families.h"
#include "model/ssm_block.h"

namespace gull::model {
namespace {

using kernels::Activation;

class Mamba final : public Family {
 public:
  static Result<std::unique_ptr<Family>> create(const gguf::File& file) {
    auto model = std::make_unique<Mamba>();
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
      if (second_) mamba2(r, x, rms(r, p + "attn_norm.weight", eps_), p, ssm_, in, 2 * l, eps_, x);
      else mamba1(r, in, l, x);
    }
    return x;
  }

  void head(Recorder& r, const Rows& x, const Rows& logits) const override {
    output_head(r, x, rms(r, "output_norm.weight", eps_), logits);
  }

 private:
  /// x += Wout · (scan(u, Δ, B, C) ⊙ silu(z)), where u | z = Win·norm(x), u = silu(conv(u)), Δ | B | C = Wx·u, Δ = Wdt·Δ
  void mamba1(Recorder& r, const Inputs& in, uint32_t l, const Rows& x) const {
    const std::string p = fmt::format("blk.{}.", l);
    const Rows both = r.rows("ssm in", 2 * ssm_.inner);
    kernels::project(r, x, rms(r, p + "attn_norm.weight", eps_), {{r.weight(p + "ssm_in.weight"), nullptr, both}});
    kernels::ShortConv conv;
    conv.x = both.columns(0, ssm_.inner);
    conv.weight = r.weight(p + "ssm_conv1d.weight"), conv.bias = r.weight_opt(p + "ssm_conv1d.bias");
    conv.activation = Activation::Silu;
    conv.state = in.states[2 * l];
    conv.y = r.rows("ssm conv", ssm_.inner);
    kernels::short_conv(r, conv);
    const Rows selection = r.rows("ssm selection", ssm_.dt_rank + 2 * ssm_.states);
    kernels::project(r, conv.y, {}, {{r.weight(p + "ssm_x.weight"), nullptr, selection}});
    const Rows rank = selection.columns(0, ssm_.dt_rank);
    const Rows b = selection.columns(ssm_.dt_rank, ssm_.states), c = selection.columns(ssm_.dt_rank + ssm_.states, ssm_.states);
    if (normed_selection_) {
      kernels::norm(r, rank, selection_norm(r, p + "ssm_dt_norm.weight"), rank);
      kernels::norm(r, b, selection_norm(r, p + "ssm_b_norm.weight"), b);
      kernels::norm(r, c, selection_norm(r, p + "ssm_c_norm.weight"), c);
    }
    const Rows dt = r.rows("ssm dt", ssm_.inner);
    kernels::project(r, rank, {}, {{r.weight(p + "ssm_dt.weight"), r.weight(p + "ssm_dt.bias"), dt}});
    kernels::SelectiveScan scan;
    scan.channels = scan.heads = ssm_.inner, scan.states = ssm_.states;
    scan.x = conv.y, scan.dt = dt, scan.b = b, scan.c = c;
    scan.z = both.columns(ssm_.inner, ssm_.inner);
    scan.a = r.weight(p + "ssm_a"), scan.d = r.weight(p + "ssm_d");
    scan.state = in.states[2 * l + 1];
    scan.y = r.rows("ssm out", ssm_.inner);
    kernels::selective_scan(r, scan);
    kernels::project_add(r, scan.y, {r.weight(p + "ssm_out.weight"), nullptr, x});
  }

  /// FalconMamba normalises Δ, B and C; the converter writes no weights for it, Jamba's files have them.
  kernels::Norm selection_norm(Recorder& r, const std::string& name) const { return rms_opt(r, name, eps_); }

  void read_settings(Metadata& meta) {
    Config& c = config_;
    read_common(meta, c);
    eps_ = meta.f32_or("attention.layer_norm_rms_epsilon", 1e-5f);
    second_ = c.arch == "mamba2";
    ssm_ = read_ssm(meta, second_);
    normed_selection_ = meta.bool_or("ssm.dt_b_c_rms", false);
    c.kv.assign(c.layers, {});
    for (uint32_t l = 0; l < c.layers; ++l) add_ssm_states(c, ssm_, second_);
  }

  void check_shapes(Metadata& meta) const {
    for (uint32_t l = 0; l < config_.layers && !meta.failed(); ++l) {
      const std::string p = fmt::format("blk.{}.", l);
      expect_shape(meta, p + "attn_norm.weight", config_.hidden);
      if (second_) {
        expect_mamba2(meta, p, config_.hidden, ssm_);
        continue;
      }
      expect_shape(meta, p + "ssm_in.weight", config_.hidden, 2ull * ssm_.inner);
      expect_shape(meta, p + "ssm_conv1d.weight", ssm_.conv, ssm_.inner);
      allow_shape(meta, p + "ssm_conv1d.bias", ssm_.inner);
      expect_shape(meta, p + "ssm_x.weight", ssm_.inner, ssm_.dt_rank + 2ull * ssm_.states);
      expect_shape(meta, p + "ssm_dt.weight", ssm_.dt_rank, ssm_.inner);
      expect_shape(meta, p + "ssm_dt.bias", ssm_.inner);
      expect_shape(meta, p + "ssm_a", ssm_.states, ssm_.inner);
      expect_shape(meta, p + "ssm_d", ssm_.inner);
      expect_shape(meta, p + "ssm_out.weight", ssm_.inner, config_.hidden);
      if (normed_selection_) {
        allow_shape(meta, p + "ssm_dt_norm.weight", ssm_.dt_rank);
        allow_shape(meta, p + "ssm_b_norm.weight", ssm_.states);
        allow_shape(meta, p + "ssm_c_norm.weight", ssm_.states);
      }
    }
    expect_head(meta, config_);
  }

  Ssm ssm_;
  bool second_ = false, normed_selection_ = false;
  float eps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Family>> make_mamba(const gguf::File& file) { return Mamba::create(file); }

}  // namespace gull::model
