// What a model takes on the GPU, before any of it is taken: its Plans are recorded for a device that only counts.
#pragma once

#include <vector>

#include "engine/impl.h"

namespace gull::engine {

struct Prediction {
  MemoryUse memory;                 ///< with one session, by category; `peak` is the total
  uint64_t all_weights = 0;         ///< of the tensors that the model uses, budget or not
  uint64_t smallest_budget = 0;     ///< for weights; exact when the prediction was made under a budget
  uint64_t kv_per_token = 0;        ///< of memory.kv, what grows with the context
  std::vector<weights::TileRef> tiles;   ///< of `cache`, in the order of the file: what an upload of everything uploads
};

/// For a model whose file, family, device (a real or an imaginary one), options and settings are known. `cache` is where the
/// tiles come from: the model's own, or null.
/// Errors: a buffer that this device cannot bind, in words that say which setting would fit.
Result<Prediction> predict(const Model::Impl& model, weights::WeightCache* cache = nullptr);

/// What a GPU of today can do, for predictions where there is none.
gpu::Caps usual_caps();

/// "5.1 GiB on the GPU: weights 4.3 GiB, KV cache 512.0 MiB for 4096 tokens, …"
std::string figures(const Model::Impl& model, const Prediction& prediction);

/// The error of a model that needs more than `room` bytes: with the figures, and which --gpu-budget, --ctx or --kv would fit.
Error too_large(const Model::Impl& model, const Prediction& prediction, uint64_t room);

}  // namespace gull::engine
