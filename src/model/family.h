// What every architecture family offers the engine: its shape, and its forward pass recorded into a Plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gull/gguf.h"
#include "kernels/ops.h"

namespace gull::model {

using kernels::Recorder;
using kernels::Rows;

/// The KV cache that a layer needs.
struct LayerKv {
  uint32_t heads = 0, head_dim = 0;   ///< heads 0: the layer has no cache of its own
  int32_t shares = -1;                ///< the layer whose cache it reads instead
  bool keys_only = false;             ///< the keys serve as values: one buffer for both
};

/// A rotary embedding: angle(position, i) = position / (base^(2i / dims) · factors[i] · scale), i < dims/2.
struct RopeSpec {
  float base = 10000.0f;
  uint32_t dims = 0;                  ///< rotated dimensions of a head
  float scale = 1.0f;                 ///< linear scaling factor (positions are divided by it)
  std::vector<float> factors;         ///< frequency divisors (llama3, longrope); empty: ones
  std::vector<float> long_factors;    ///< LongRoPE: those of a context beyond original_context
  float attention_factor = 1.0f;      ///< multiplies cos and sin (YaRN, longrope)
  float yarn_mix = 0.0f;              ///< YaRN: how much of the unscaled angle the fast dimensions keep; 0: plain scaling
  float yarn_beta_fast = 32.0f, yarn_beta_slow = 1.0f;
  bool yarn_round = true;             ///< the ramp's ends are whole dimensions
  uint32_t original_context = 0;
};

/// Memory of a session that is not KV: states of recurrent layers. Zeroed at reset.
struct StateSpec { std::string name; uint64_t floats = 0; };

/// Shape of a model, from its metadata.
struct Config {
  std::string arch;
  uint32_t layers = 0, hidden = 0, vocabulary = 0, context = 0;
  uint32_t max_context = 0;           ///< positions that exist at all (a learned table); 0: no end
  std::vector<LayerKv> kv;            ///< one a layer
  std::vector<RopeSpec> ropes;        ///< the kinds of rotation that layers refer to by index
  std::vector<StateSpec> states;
  std::vector<std::string> tensors;   ///< those of the file that the family uses
  bool embedding = false;             ///< gives vectors, not logits
  bool bidirectional = false;         ///< tokens see later ones: a text must go through in one batch
  bool recurrent = false;             ///< has states: cannot go back to an earlier position
};

/// What the engine lends a recording.
struct Inputs {
  gpu::BufferRef ids;                           ///< u32 token ids
  std::vector<kernels::KvLayer> kv;             ///< one a layer (shared ones point at the same buffers)
  std::vector<gpu::BufferRef> rope_tables;      ///< one a RopeSpec
  std::vector<gpu::BufferRef> states;           ///< one a StateSpec
};

class Family {
 public:
  virtual ~Family() = default;
  const Config& config() const { return config_; }
  /// Records embedding and layers; returns the hidden rows before the final norm. Begins a Plan segment a layer.
  virtual Rows body(Recorder& r, const Inputs& in) const = 0;
  /// Records final norm and output projection of `x` into `logits` (one row a row of x).
  virtual void head(Recorder& r, const Rows& x, const Rows& logits) const = 0;
  /// Embedding models: records the final norm (where there is one) of `x` into `y`.
  virtual void embedding_head(Recorder& r, const Rows& x, const Rows& y) const { head(r, x, y); }

 protected:
  Config config_;
};

/// Builds the family of a file. Errors: an architecture or a setting that gull does not know, named; a broken shape.
Result<std::unique_ptr<Family>> make_family(std::shared_ptr<const gguf::File> file);

Result<std::unique_ptr<Family>> make_family(const gguf::File& file);   ///< the family keeps nothing of the file

/// The (cos, sin) table of a rotation for positions [0, context): floats [context][dims/2][2].
std::vector<float> rope_table(const RopeSpec& spec, uint32_t context);

}  // namespace gull::model
