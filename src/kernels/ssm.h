// Recurrent layers: short convolutions and state-space scans. Each keeps a state from batch to batch.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// A causal convolution along the tokens, one filter a channel:
/// y[t, c] = activation(Σ_j w[c, j]·v[t − (K−1) + j, c] + b[c]) · out[t, c], where v = x · in.
struct ShortConv {
  Rows x;                      ///< [tokens, channels]
  Rows in, out;                ///< gates before and after, columns of x's buffer; null: none
  weights::TensorRef weight;   ///< [channels, K]
  weights::TensorRef bias;     ///< [channels]; null: none
  Activation activation = Activation::None;
  gpu::BufferRef state;        ///< the last K − 1 values of v: [K − 1, channels]
  Rows y;                      ///< [tokens, channels], another buffer than x's
};
void short_conv(Recorder& r, const ShortConv& c);

/// The selective scan of Mamba (Gu and Dao 2023, Dao and Gu 2024):
/// h[c, n] = exp(Δ·A)·h[c, n] + Δ·B[n]·x[c],  y[c] = (Σ_n C[n]·h[c, n] + D·x[c]) · silu(z[c]),  Δ = softplus(dt + bias).
/// Channels form `heads` heads that share Δ and D, and heads form `groups` groups that share B and C.
struct SelectiveScan {
  uint32_t channels = 0, states = 0, heads = 0, groups = 1;
  Rows x;                      ///< [tokens, channels]
  Rows dt;                     ///< [tokens, heads]
  Rows b, c;                   ///< [tokens, groups·states]
  Rows z;                      ///< [tokens, channels]; null: no gate
  weights::TensorRef dt_bias;  ///< [heads]; null: none
  weights::TensorRef a;        ///< [heads], or [channels, states] when heads == channels
  weights::TensorRef d;        ///< [heads]
  gpu::BufferRef state;        ///< h: [channels, states]
  Rows y;                      ///< [tokens, channels]
};
void selective_scan(Recorder& r, const SelectiveScan& s);

/// x = RMS norm of each of `groups` equal parts of a row, times the weights [groups, width ÷ groups], or [width ÷ groups] for all.
void group_norm(Recorder& r, const Rows& x, const weights::TensorRef& weight, uint32_t groups, float eps);

}  // namespace gull::kernels
