#include "model/ssm_block.h"

#include "base/log.h"

namespace gull::model {

using kernels::Activation;

Ssm read_ssm(Metadata& meta, bool second) {
  Ssm ssm;
  ssm.conv = meta.u32("ssm.conv_kernel", 2, 32);
  ssm.inner = meta.u32("ssm.inner_size", 1, 1u << 20);
  ssm.states = meta.u32("ssm.state_size", 1, 1024);
  const uint32_t rank = meta.u32("ssm.time_step_rank", 1, 1u << 20);
  ssm.groups = meta.u32_or("ssm.group_count", 1, 1, 1024);
  ssm.heads = second ? rank : ssm.inner;
  ssm.dt_rank = second ? 0 : rank;
  if (ssm.inner % ssm.heads || ssm.heads % ssm.groups)
    meta.problem(ErrorKind::BadFile, fmt::format("{} state-space channels in {} heads and {} groups", ssm.inner, ssm.heads, ssm.groups));
  return ssm;
}

size_t add_ssm_states(Config& config, const Ssm& ssm, bool second) {
  const size_t first = config.states.size();
  config.states.push_back({"convolution state", uint64_t{ssm.conv - 1} * (second ? ssm.conv_width() : ssm.inner)});
  config.states.push_back({"scan state", uint64_t{ssm.inner} * ssm.states});
  config.recurrent = true;
  return first;
}

void expect_mamba2(Metadata& meta, const std::string& p, uint64_t hidden, const Ssm& ssm) {
  expect_shape(meta, p + "ssm_in.weight", hidden, uint64_t{ssm.inner} + ssm.conv_width() + ssm.heads);
  expect_shape(meta, p + "ssm_conv1d.weight", ssm.conv, ssm.conv_width());
  allow_shape(meta, p + "ssm_conv1d.bias", ssm.conv_width());
  expect_shape(meta, p + "ssm_dt.bias", ssm.heads);
  expect_shape(meta, p + "ssm_a", 1, ssm.heads);
  expect_shape(meta, p + "ssm_d", 1, ssm.heads);
  allow_shape(meta, p + "ssm_norm.weight", ssm.inner / ssm.groups, ssm.groups);
  expect_shape(meta, p + "ssm_out.weight", ssm.inner, hidden);
}

void mamba2(Recorder& r, const Rows& input, const kernels::Norm& n, const std::string& p, const Ssm& ssm, const Inputs& in, size_t state,
            float eps, const Rows& x) {
  const uint32_t bc = ssm.groups * ssm.states;
  const Rows all = r.rows("ssm in", ssm.inner + ssm.conv_width() + ssm.heads);
  kernels::project(r, input, n, {{r.weight(p + "ssm_in.weight"), nullptr, all}});
  kernels::ShortConv conv;
  conv.x = all.columns(ssm.inner, ssm.conv_width());
  conv.weight = r.weight(p + "ssm_conv1d.weight"), conv.bias = r.weight_opt(p + "ssm_conv1d.bias");
  conv.activation = Activation::Silu;
  conv.state = in.states[state];
  conv.y = r.rows("ssm conv", ssm.conv_width());
  kernels::short_conv(r, conv);
  kernels::SelectiveScan scan;
  scan.channels = ssm.inner, scan.states = ssm.states, scan.heads = ssm.heads, scan.groups = ssm.groups;
  scan.x = conv.y.columns(0, ssm.inner), scan.b = conv.y.columns(ssm.inner, bc), scan.c = conv.y.columns(ssm.inner + bc, bc);
  scan.dt = all.columns(ssm.inner + ssm.conv_width(), ssm.heads);
  scan.z = all.columns(0, ssm.inner);
  scan.dt_bias = r.weight(p + "ssm_dt.bias"), scan.a = r.weight(p + "ssm_a"), scan.d = r.weight(p + "ssm_d");
  scan.state = in.states[state + 1];
  scan.y = r.rows("ssm out", ssm.inner);
  kernels::selective_scan(r, scan);
  if (auto weight = r.weight_opt(p + "ssm_norm.weight")) kernels::group_norm(r, scan.y, weight, ssm.groups, eps);
  kernels::project_add(r, scan.y, {r.weight(p + "ssm_out.weight"), nullptr, x});
}

}  // namespace gull::model
