// What most transformers share: the shape of grouped-query attention, its projections, gated feed-forward networks, and
// the output. A family's file says how they follow one another.
#pragma once

#include <string>

#include "model/family.h"
#include "model/metadata.h"

namespace gull::model {

/// Attention heads of a layer: `heads` query heads share `kv_heads` key and value heads of `dim` floats.
struct Heads {
  uint32_t heads = 0, kv_heads = 0, dim = 0;
  uint32_t q() const { return heads * dim; }
  uint32_t kv() const { return kv_heads * dim; }
};

/// Reads head_count, head_count_kv and key_length (value_length must be equal).
Heads read_heads(Metadata& meta, const Config& config);

/// Checks the q, k and v projections (or one fused attn_qkv) and the output projection, each with an optional bias.
void expect_attention(Metadata& meta, const std::string& prefix, uint64_t hidden, const Heads& heads);
/// Checks ffn_gate, ffn_up and ffn_down.
void expect_gated_ffn(Metadata& meta, const std::string& prefix, uint64_t hidden, uint64_t ffn);
/// Checks output_norm and, where it is there, output; says whether output is there.
bool expect_head(Metadata& meta, const Config& config);

/// RMS norm with this weight.
kernels::Norm rms(Recorder& r, const std::string& name, float eps);
kernels::Norm rms_opt(Recorder& r, const std::string& name, float eps);   ///< no norm where the weight is absent
/// Layer norm with NAME.weight and NAME.bias (which may be absent).
kernels::Norm layer_norm(Recorder& r, const std::string& name, float eps);

/// q | k | v of norm(x): rows of q() + 2·kv() floats.
Rows project_qkv(Recorder& r, const Rows& x, const kernels::Norm& n, const std::string& prefix, const Heads& heads);
/// The projection PREFIX + "attn_output" with its bias, into y.
kernels::Projection attention_output(Recorder& r, const std::string& prefix, const Rows& y);
/// x += Wdown · (act(Wgate·norm(x)) ⊙ Wup·norm(x))
void gated_ffn(Recorder& r, const Rows& x, const kernels::Norm& n, const std::string& prefix, uint32_t ffn, kernels::Activation activation);
/// y = Wdown · (act(Wgate·norm(x)) ⊙ Wup·norm(x))
void gated_ffn_to(Recorder& r, const Rows& x, const kernels::Norm& n, const std::string& prefix, uint32_t ffn,
                  kernels::Activation activation, const Rows& y);
/// logits = W · norm(x), where W is output.weight or, when that is absent, the token embedding.
void output_head(Recorder& r, const Rows& x, const kernels::Norm& n, const Rows& logits);

}  // namespace gull::model
