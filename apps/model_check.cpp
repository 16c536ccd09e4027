#include "model_check.h"

#include <algorithm>

#include "gull/engine.h"
#include "text/tokenizer.h"

namespace gull::app {

Result<ModelSummary> check_model(std::shared_ptr<const gguf::File> file) {
  const auto check = gull::check_model(*file);
  if (!check) return fail(check.error());
  // A vocabulary of an unknown kind leaves `gull logits` usable, but not text.
  if (auto tokenizer = text::Tokenizer::from_gguf(*file); !tokenizer) return fail(tokenizer.error());

  ModelSummary summary;
  summary.embedding = check->embedding;
  summary.trained_context = check->context;
  summary.context = std::min(check->context, 4096u);
  const auto memory = gull::predict_memory(file);
  if (!memory) return fail(memory.error());
  summary.weights = memory->weights;
  summary.states = check->states;
  summary.kv = memory->kv - check->states;
  summary.working = memory->activations + memory->parameters + memory->staging;
  return summary;
}

}  // namespace gull::app
