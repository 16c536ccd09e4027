// Makes a model say given tokens: biases far above any logit, falling from token to token, and a presence penalty that
// removes each once it was said. What is tested is what becomes of the tokens, not which a model prefers.
#pragma once

#include <vector>

#include "gull/engine.h"

namespace gull::test {

/// `ids` must differ from each other and from the prompt's.
inline GenerateOptions forced(const std::vector<int32_t>& ids) {
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.sampling.presence_penalty = 1e5f;
  options.max_tokens = static_cast<int32_t>(ids.size());
  float bias = 5e4f;
  for (int32_t id : ids) options.sampling.logit_bias.push_back({id, bias -= 100});
  return options;
}

}  // namespace gull::test
