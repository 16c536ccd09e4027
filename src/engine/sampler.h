// Choosing a token from logits on the CPU: every control that users know. The order is llama.cpp's: bias, penalties, DRY,
// top-k, typical, top-p, min-p, temperature; Mirostat 2 takes the place of the truncations. What kernels/draw.h does on the GPU,
// the same choice for the same seed and step included.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gull/engine.h"

namespace gull::engine {

class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);
  /// A token of the prompt or of the output, for the penalties.
  void accept(int32_t id);
  /// The next token. `logits` is changed. `allowed` is empty or says which ids may be chosen (a grammar's mask).
  int32_t sample(std::span<float> logits, std::span<const uint8_t> allowed = {});
  /// The seed of the options, or the fresh one that was taken for it.
  uint64_t seed() const { return seed_; }
  /// log softmax of the untouched logits: the chosen one first, then the `top` best.
  static std::vector<TokenLogprob> logprobs(std::span<const float> logits, int32_t chosen, uint32_t top);

 private:
  struct Candidate { int32_t id; float logit; float p; };
  void penalise(std::span<float> logits) const;
  void apply_dry(std::span<float> logits) const;
  void truncate(std::vector<Candidate>& candidates) const;
  int32_t mirostat(std::vector<Candidate>& candidates);
  int32_t draw(const std::vector<Candidate>& candidates, float temperature) const;

  SamplingOptions options_;
  uint64_t seed_ = 0;
  uint32_t step_ = 0;              ///< how many choices were made
  std::vector<int32_t> recent_;
  float mu_ = 0;
};

}  // namespace gull::engine
