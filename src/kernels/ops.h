// The operations of a forward pass. Each records one or a few dispatches; which kernel is used depends on the number of
// tokens (one: decode) and on the device. Activations are row-major [tokens, width] f32.
#pragma once

#include "kernels/recorder.h"

namespace gull::kernels {

/// A normalisation: RMS (x / √(mean x² + ε) · w) or layer norm ((x − mean) / √(var + ε) · w + b).
struct Norm {
  weights::TensorRef weight;   ///< null: no weight
  weights::TensorRef bias;     ///< layer norm only
  float eps = 1e-5f;
  bool layer = false;
  weights::TensorRef out_scale;   ///< [1] multiplies what norm() gives, the addition included; null: 1
  explicit operator bool() const { return weight != nullptr; }
};

enum class Activation { None, Silu, GeluTanh, Gelu, GeluQuick, Relu, Relu2, Tanh, Sigmoid, Softplus };
/// The WGSL expression of an activation of `v`, for kernels that fuse it; helper functions are in activation_helpers().
std::string activation_call(Activation activation, std::string_view v);
std::string activation_helpers();

/// x[t] = W[ids[t]] · scale. ids: u32 a token.
void embed(Recorder& r, const weights::TensorRef& table, const gpu::BufferRef& ids, const Rows& x, float scale = 1.0f);
/// x[t] += W[position of t]; a position beyond the table adds nothing.
void add_position(Recorder& r, const weights::TensorRef& table, const Rows& x);
/// x[t] += W[0]
void add_first_row(Recorder& r, const weights::TensorRef& table, const Rows& x);

/// y = norm(x), and with `add`: y = add + norm(x). x and y may be the same memory.
void norm(Recorder& r, const Rows& x, const Norm& n, const Rows& y, const Rows& add = {});

/// One projection of a fused group: y = x·Wᵀ (+ bias).
struct Projection {
  weights::TensorRef weight;   ///< [rows, k]
  weights::TensorRef bias;     ///< null: none
  Rows y;                      ///< [tokens, rows]
  weights::TileRef tile;       ///< only the rows of this tile; null: all
};

/// Projections of one input, with an optional norm before.
void project(Recorder& r, const Rows& x, const Norm& n, std::vector<Projection> outputs);
/// y += x·Wᵀ (+ bias).
void project_add(Recorder& r, const Rows& x, const Projection& p);
/// y = activation(norm(x)·Gᵀ) ⊙ (norm(x)·Uᵀ). `gate` and `up` have the same shape.
void project_gated(Recorder& r, const Rows& x, const Norm& n, const weights::TensorRef& gate, const weights::TensorRef& up,
                   Activation activation, const Rows& y);

/// y = activation(a) ⊙ b, or activation(a) when b is absent. All [tokens, width].
void activate(Recorder& r, Activation activation, const Rows& a, const Rows& b, const Rows& y);
/// x[t] = x[t] · activation(factor[t, 0])
void scale_rows(Recorder& r, const Rows& x, Activation activation, const Rows& factor);
/// y = x·scale + (add or 0)
void scale_add(Recorder& r, const Rows& x, float scale, const Rows& add, const Rows& y);

/// How keys and values of a layer are stored: [position, heads·head_dim]. Q8_0 and Q4_0: blocks of 32 numbers of a head, each
/// a scale in f32 and then 8- or 4-bit integers (36 and 20 bytes). Before that rope_kv mixes the numbers of a head, also of q,
/// and attention takes that back (Walsh–Hadamard; kv.h says why).
struct KvLayer {
  gpu::BufferRef k, v;
  KvType type = KvType::F32;
  uint32_t heads = 0, head_dim = 0;
};
/// Bytes of one position of one layer's keys (or values).
uint64_t kv_row_bytes(KvType type, uint32_t heads, uint32_t head_dim);
/// Whether heads of this size can be stored so: multiples of 4 floats, or of whole blocks.
bool kv_holds(KvType type, uint32_t head_dim);

struct Rope {
  gpu::BufferRef table;         ///< [position][pairs] (cos, sin) f32; null: no rotation
  uint32_t pairs = 0;           ///< rotated pairs of a head (rotary dimensions ÷ 2)
  bool neox = true;             ///< pairs are (i, i + pairs); else (2i, 2i + 1)
};

/// Splits qkv into heads: optional RMS norm a head of q and k, rotation; q is rewritten in place, k and v go to the cache.
/// qkv: [tokens, (heads + 2·kv.heads)·head_dim] = q | k | v. When `write_kv` is false only q is there (shared KV).
struct RopeKv {
  uint32_t heads = 0;
  Norm q_norm, k_norm;
  bool v_norm = false;          ///< RMS norm without weight on v
  float eps = 1e-6f;            ///< of v_norm
  Rope rope;
  bool write_kv = true;
  bool keys_only = false;       ///< there is no v: the cache's keys serve as values (latent attention)
};
void rope_kv(Recorder& r, const Rows& qkv, const RopeKv& options, const KvLayer& kv);

struct Attention {
  uint32_t heads = 0;
  float scale = 1.0f;
  float softcap = 0.0f;         ///< 0: none; else s = cap·tanh(s / cap)
  uint32_t window = 0;          ///< 0: none; else a token sees this many positions, itself included
  bool causal = true;           ///< false: every token of the batch sees all of it (and at most window/2 away, if set)
  weights::TensorRef sinks;     ///< [heads] extra logits that take weight and give no value; null: none
};
/// y = softmax(q·Kᵀ·scale + mask)·V. q: the first heads·head_dim columns; y: [tokens, heads·head_dim].
void attention(Recorder& r, const Rows& q, const KvLayer& kv, const Attention& a, const Rows& y);
/// The number of parts that decode attention should be split into at this KV length (a replay variable).
uint32_t attention_splits(uint32_t kv_length);
inline constexpr uint32_t kMaxSplits = 32;
/// The KV length up to which decode attention takes one workgroup a head and needs no merge (Recorder::short_context).
uint32_t short_context(const gpu::Caps& caps, const Choices& choices);

/// y[0] = x[n − 1]: the last token's row.
void last_row(Recorder& r, const Rows& x, const Rows& y);

/// Greedy choice: id = index of the largest logit (the lowest on a tie), then the decode state moves on:
/// ids[0] = id, history[step mod 64] = id, pos += n, n = 1, step += 1. NaN is never chosen; where all are, the history gets −1.
void argmax(Recorder& r, const Rows& logits, const gpu::BufferRef& ids, const gpu::BufferRef& history);
/// y = cap·tanh(x / cap), in place, on `rows` rows.
void softcap(Recorder& r, const Rows& x, float cap);

}  // namespace gull::kernels
