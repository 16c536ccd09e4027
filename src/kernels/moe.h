// Mixtures of experts: a router picks a few feed-forward networks for each token, and only those are computed.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// How a router's logits become a choice of experts and their weights.
struct Router {
  enum class Gate {
    Softmax,           ///< probabilities of all experts; the chosen ones keep theirs
    Sigmoid,           ///< each expert by itself (DeepSeek V3)
    SoftmaxOfChosen,   ///< the largest logits are chosen first, then made probabilities (gpt-oss)
  };
  Gate gate = Gate::Softmax;
  uint32_t experts = 0, used = 0;
  bool renormalise = false;             ///< the weights of the chosen add up to 1
  float scale = 1.0f;                   ///< of all weights, after that
  uint32_t groups = 1, groups_used = 1; ///< only experts of the best groups are chosen
  uint32_t group_rank = 2;              ///< a group's rank is the score of its best expert (1), or the sum of its best two
  weights::TensorRef choice_bias;       ///< [experts] added for the choice, not in the weights; null: none
  weights::TensorRef expert_scale;      ///< [experts] multiplies an expert's weight; null: none
};

/// What each token of a batch goes through: `used` experts, in no particular order.
struct Routing {
  gpu::BufferRef ids;       ///< u32 [tokens, used]
  gpu::BufferRef weights;   ///< f32 [tokens, used]
  gpu::BufferRef order;     ///< prefill: u32 start of each expert (experts + 1), then (token·used + slot) sorted by expert
  uint32_t experts = 0, used = 0;
};

/// logits: [tokens, experts].
Routing route(Recorder& r, const Rows& logits, const Router& router);

/// The experts of a layer: three-dimensional weights, one matrix an expert.
struct Experts {
  weights::TensorRef gate, up;            ///< [experts, ffn, k]; gate null: `up` holds the gate's rows and then up's (2·ffn rows)
  weights::TensorRef down;                ///< [experts, n, ffn]
  weights::TensorRef gate_bias, up_bias, down_bias;   ///< [experts, rows]; null: none
  Activation activation = Activation::Silu;
  float clamp = 0.0f;                     ///< above 0: gpt-oss's bounded gate, g·σ(1.702·g)·(u + 1) with g ≤ clamp and |u| ≤ clamp
  uint32_t ffn = 0;
};

/// y (+)= Σ over a token's experts of weight · down(act(gate·x) ⊙ up·x).  x: [tokens, k], y: [tokens, n].
void experts(Recorder& r, const Rows& x, const Routing& routing, const Experts& e, const Rows& y, bool add);

/// y[t, h] = W[h]·x[t, h], where every row of x holds `matrices` vectors of k floats, `x_step` floats apart, and y those of
/// rows_per_matrix floats, `y_step` apart: a projection of its own for each head (DeepSeek's latent attention).
void project_heads(Recorder& r, const Rows& x, uint32_t x_step, const weights::TensorRef& weight, const Rows& y, uint32_t y_step);

}  // namespace gull::kernels
