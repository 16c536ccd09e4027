#include "model/moe_block.h"

#include "base/log.h"

namespace gull::model {

using kernels::Router;

Moe read_moe(Metadata& meta, bool renormalise) {
  Moe moe;
  Router& router = moe.router;
  router.experts = meta.u32("expert_count", 1, 1024);
  router.used = meta.u32("expert_used_count", 1, 64);
  if (router.used > router.experts) meta.problem(ErrorKind::BadFile, "expert_used_count is above expert_count");
  moe.ffn = meta.has("expert_feed_forward_length") ? meta.u32("expert_feed_forward_length", 1) : meta.u32("feed_forward_length", 1);
  moe.shared_ffn = meta.u32_or("expert_shared_feed_forward_length", 0);
  router.renormalise = meta.bool_or("expert_weights_norm", renormalise);
  if (const float scale = meta.f32_or("expert_weights_scale", 0.0f); scale != 0) router.scale = scale;
  router.groups = meta.u32_or("expert_group_count", 1, 0, 1024);
  router.groups_used = meta.u32_or("expert_group_used_count", router.groups, 0, 1024);
  if (router.groups <= 1) router.groups = router.groups_used = 1;
  else if (router.experts % router.groups || router.groups_used > router.groups || router.groups_used * (router.experts / router.groups) < router.used)
    meta.problem(ErrorKind::BadFile, fmt::format("{} experts in {} groups, {} of them used", router.experts, router.groups, router.groups_used));
  // The format's numbers: 0 none given, 1 softmax, 2 sigmoid, 3 softmax of the chosen.
  switch (const uint32_t gating = meta.u32_or("expert_gating_func", 0)) {
    case 0: case 1: break;
    case 2: router.gate = Router::Gate::Sigmoid; break;
    case 3: router.gate = Router::Gate::SoftmaxOfChosen; break;
    default: meta.problem(ErrorKind::Unsupported, fmt::format("expert_gating_func {} is unknown to gull", gating));
  }
  return moe;
}

void expect_moe(Metadata& meta, const std::string& p, uint64_t hidden, const Moe& moe) {
  const uint64_t n = moe.router.experts;
  expect_shape(meta, p + "ffn_gate_inp.weight", hidden, n);
  allow_shape(meta, p + "ffn_gate_inp.bias", n);
  allow_shape(meta, p + "exp_probs_b.bias", n);
  if (!allow_shape(meta, p + "ffn_gate_up_exps.weight", hidden, 2ull * moe.ffn, n)) {
    expect_shape(meta, p + "ffn_gate_exps.weight", hidden, moe.ffn, n);
    expect_shape(meta, p + "ffn_up_exps.weight", hidden, moe.ffn, n);
    allow_shape(meta, p + "ffn_gate_exps.bias", moe.ffn, n);
    allow_shape(meta, p + "ffn_up_exps.bias", moe.ffn, n);
  }
  expect_shape(meta, p + "ffn_down_exps.weight", moe.ffn, hidden, n);
  allow_shape(meta, p + "ffn_down_exps.bias", hidden, n);
  allow_shape(meta, p + "ffn_down_exps.scale", n);
  if (!moe.shared_ffn) return;
  if (moe.shared_gate) expect_shape(meta, p + "ffn_gate_inp_shexp.weight", hidden);
  expect_shape(meta, p + "ffn_gate_shexp.weight", hidden, moe.shared_ffn);
  expect_shape(meta, p + "ffn_up_shexp.weight", hidden, moe.shared_ffn);
  expect_shape(meta, p + "ffn_down_shexp.weight", moe.shared_ffn, hidden);
}

void moe_experts(Recorder& r, const Rows& input, const Rows& logits, const std::string& p, const Moe& moe, const Rows& y, bool add) {
  Router router = moe.router;
  router.choice_bias = r.weight_opt(p + "exp_probs_b.bias");
  router.expert_scale = r.weight_opt(p + "ffn_down_exps.scale");
  kernels::Experts e;
  e.ffn = moe.ffn, e.activation = moe.activation, e.clamp = moe.clamp;
  if (auto both = r.weight_opt(p + "ffn_gate_up_exps.weight")) {
    e.up = both;
  } else {
    e.gate = r.weight(p + "ffn_gate_exps.weight"), e.up = r.weight(p + "ffn_up_exps.weight");
    e.gate_bias = r.weight_opt(p + "ffn_gate_exps.bias"), e.up_bias = r.weight_opt(p + "ffn_up_exps.bias");
  }
  e.down = r.weight(p + "ffn_down_exps.weight"), e.down_bias = r.weight_opt(p + "ffn_down_exps.bias");
  kernels::experts(r, input, kernels::route(r, logits, router), e, y, add);
}

void moe_ffn(Recorder& r, const Rows& input, const std::string& p, const Moe& moe, const Rows& y, bool add) {
  const Rows logits = r.rows("router", moe.router.experts);
  kernels::project(r, input, {}, {{r.weight(p + "ffn_gate_inp.weight"), r.weight_opt(p + "ffn_gate_inp.bias"), logits}});
  moe_experts(r, input, logits, p, moe, y, add);
  if (!moe.shared_ffn) return;
  const Rows h = r.rows("ffn", moe.shared_ffn);
  kernels::project_gated(r, input, {}, r.weight(p + "ffn_gate_shexp.weight"), r.weight(p + "ffn_up_shexp.weight"), moe.activation, h);
  if (moe.shared_gate) {
    const Rows gate = r.rows("shared gate", 1);
    kernels::project(r, input, {}, {{r.weight(p + "ffn_gate_inp_shexp.weight"), nullptr, gate}});
    kernels::scale_rows(r, h, kernels::Activation::Sigmoid, gate);
  }
  kernels::project_add(r, h, {r.weight(p + "ffn_down_shexp.weight"), nullptr, y});
}

}  // namespace gull::model
