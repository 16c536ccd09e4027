// The mixture-of-experts feed-forward network as most families have it: a router, experts, and perhaps a shared one.
#pragma once

#include <string>

#include "kernels/moe.h"
#include "model/metadata.h"

namespace gull::model {

struct Moe {
  kernels::Router router;
  uint32_t ffn = 0;                 ///< width of an expert
  uint32_t shared_ffn = 0;          ///< width of the expert that every token goes through; 0: none
  bool shared_gate = false;         ///< σ(w·x) scales the shared expert (Qwen 2)
  kernels::Activation activation = kernels::Activation::Silu;
  float clamp = 0.0f;               ///< see kernels::Experts
};

/// Reads expert_count, expert_used_count, expert_feed_forward_length (else feed_forward_length), and the settings of the
/// router that are there: gating function, renormalisation, scale, groups. `renormalise` is the architecture's own habit.
Moe read_moe(Metadata& meta, bool renormalise);
/// Checks the tensors of one layer.
void expect_moe(Metadata& meta, const std::string& prefix, uint64_t hidden, const Moe& moe);
/// y (+)= the mixture of `input` (already normalised), with the shared expert where there is one.
void moe_ffn(Recorder& r, const Rows& input, const std::string& prefix, const Moe& moe, const Rows& y, bool add);
/// The same, where the router's logits are given.
void moe_experts(Recorder& r, const Rows& input, const Rows& logits, const std::string& prefix, const Moe& moe, const Rows& y, bool add);

}  // namespace gull::model
