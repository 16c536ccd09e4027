// Whether gull can run a file, and what that takes, without a GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "gull/gguf.h"

namespace gull::app {

/// What a model needs on the GPU with default options, in bytes.
struct ModelSummary {
  uint64_t weights = 0;
  uint64_t kv = 0;                    ///< keys and values for `context` tokens, as f16
  uint64_t states = 0;                ///< of recurrent layers
  uint64_t working = 0;               ///< activations and tables
  uint32_t context = 0;               ///< tokens: the model's own, at most 4096
  uint32_t trained_context = 0;
  bool embedding = false;             ///< gives vectors instead of text
  uint64_t total() const { return weights + kv + states + working; }
};

/// Errors: what keeps gull from running it.
Result<ModelSummary> check_model(std::shared_ptr<const gguf::File> file);

}  // namespace gull::app
