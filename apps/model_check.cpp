#include "model_check.h"

#include <algorithm>

#include "model/family.h"
#include "text/tokenizer.h"

namespace gull::app {

Result<ModelSummary> check_model(std::shared_ptr<const gguf::File> file) {
  auto family = model::make_family(file);
  if (!family) return fail(family.error());
  // A vocabulary of an unknown kind leaves `gull logits` usable, but not text.
  if (auto tokenizer = text::Tokenizer::from_gguf(*file); !tokenizer) return fail(tokenizer.error());

  const model::Config& config = (*family)->config();
  ModelSummary summary;
  summary.embedding = config.embedding;
  summary.trained_context = config.context;
  summary.context = std::min(config.context, 4096u);
  for (const auto& tensor : file->tensors()) summary.weights += tensor.bytes;
  for (const auto& layer : config.kv)
    if (layer.shares < 0) summary.kv += uint64_t{2} * layer.heads * layer.head_dim * summary.context * 2;
  for (const auto& state : config.states) summary.states += state.floats * sizeof(float);
  return summary;
}

}  // namespace gull::app
