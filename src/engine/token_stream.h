// Tokens that the GPU chooses itself, greedily or by a draw.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "engine/impl.h"

namespace gull::engine {

/// The Plans that follow a step's logits and choose the next token. None where only the CPU's Sampler can: log-probabilities,
/// grammars, DRY, typical_p, Mirostat.
std::optional<std::vector<PlanKind>> gpu_choice(const GenerateOptions& options, uint32_t vocabulary);

/// Writes what those Plans read of the options and of the prompt that the cache holds.
Result<void> prepare_choice(Session::Impl& session, const std::vector<PlanKind>& choice, const SamplingOptions& options, uint64_t seed,
                            std::span<const int32_t> prompt);

/// The chosen id is written where the embedding reads it, so several steps are submitted ahead and the CPU reads ids late, a
/// batch at a time.
class TokenStream {
 public:
  TokenStream(Session::Impl& session, std::vector<PlanKind> choice, uint32_t most)
      : s_(session), choice_(std::move(choice)), position_(static_cast<uint32_t>(session.tokens.size())), most_(most) {}

  /// The next id; negative: no logit was a number. Errors: the GPU's.
  Result<int32_t> next();
  /// Waits for what was submitted ahead and not used.
  Result<void> drain();

 private:
  struct Batch {
    gpu::Mapping mapping;
    gpu::Submission submission;
    uint32_t first = 0, count = 0;
  };

  Result<int32_t> next_streamed();
  Result<void> fill();
  Result<void> launch(uint32_t count);
  Result<void> add(Replay& replay, PlanKind kind, uint32_t kv_length);
  Result<gpu::BufferRef> take_staging();
  Result<void> collect();

  Session::Impl& s_;
  std::vector<PlanKind> choice_;
  uint32_t position_, most_;
  uint32_t launched_ = 0, batch_ = 1;
  std::deque<Batch> flying_;
  std::deque<int32_t> ready_;
  std::vector<gpu::BufferRef> spare_;
};

}  // namespace gull::engine
