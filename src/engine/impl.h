// What Model and Session hold. Private to src/engine.
#pragma once

#include <map>
#include <optional>

#include "dispatch/pipeline_cache.h"
#include "dispatch/plan.h"
#include "gull/engine.h"
#include "kernels/draw.h"
#include "kernels/recorder.h"
#include "model/family.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"
#include "weights/weight_cache.h"

namespace gull {

struct Model::Impl {
  std::shared_ptr<const gguf::File> file;
  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<dispatch::PipelineCache> pipelines;
  std::unique_ptr<weights::WeightCache> weights;
  std::shared_ptr<const model::Family> family;
  std::shared_ptr<const text::Tokenizer> tokenizer;       ///< null: the file has no vocabulary
  std::string tokenizer_problem;                          ///< why, then
  std::shared_ptr<const text::ChatTemplate> chat_template;
  std::vector<gpu::BufferRef> rope_tables;
  LoadOptions options;
  kernels::Choices choices;
  KvType kv_type = KvType::F32;
  uint32_t context = 0;
  uint32_t chunk = 0;              ///< tokens of a prefill step at most
  double load_s = 0;
  std::atomic<uint64_t> dispatches{0};
  Mutex trie_mutex;
  std::unique_ptr<text::TokenTrie> trie;                  ///< made when a grammar is first used

  /// All tokens by their bytes. The tokenizer must be there.
  const text::TokenTrie& token_trie();
};

namespace engine {

/// The Plans of one session: recorded on first use, replayed from then on.
enum class PlanKind {
  Prefill,      ///< layers for up to `chunk` tokens
  PrefillFew,   ///< the same for up to kernels::kFewTokens
  HeadLast,     ///< logits of the last token of a batch
  HeadAll,      ///< logits of every token of a batch of up to `head_rows`
  HeadAllFew,   ///< the same for up to kernels::kFewTokens
  Decode,       ///< layers and logits for one token, any KV length
  DecodeShort,  ///< the same for KV lengths up to kernels::short_context: fewer dispatches
  Greedy,       ///< argmax of the logits, and the step onward
  Penalise,     ///< biases and penalties on the logits
  DrawTop,      ///< a draw among the best few (top_k up to kernels::kMostTop), and the step onward
  DrawCut,      ///< the same with a larger top_k or none, and top_p
  DrawAll,      ///< the same without top_k and top_p
  EmbedAll,     ///< embedding models: final norm of every token
};

/// How the weights are to be kept.
weights::Options weight_options(const LoadOptions& options);

/// Plans replayed one after another, without a budget of weights: one submission for all of them, or where memory is tight
/// one a layer, so that no single one is long. Nothing is dropped from the weights meanwhile.
class Replay {
 public:
  explicit Replay(Model::Impl& model);
  /// Uploads what is missing, and encodes the whole Plan.
  Result<void> add(dispatch::Plan& plan, const dispatch::Vars& vars);
  Result<void> copy(const gpu::Buffer& from, const gpu::Buffer& to, uint64_t bytes);
  Result<gpu::Submission> submit();

 private:
  Result<gpu::Commands*> commands();
  Model::Impl& model_;
  SharedLock turn_;
  std::optional<gpu::Commands> commands_;
};

struct Recorded {
  std::unique_ptr<dispatch::Plan> plan;
  weights::Attached attached;      ///< the cache drops the Plan's bind groups before a weight's buffer goes
  kernels::Rows hidden;            ///< output of Prefill
};

}  // namespace engine

struct Session::Impl {
  std::shared_ptr<Model> model;
  std::unique_ptr<kernels::Arena> arena;
  gpu::BufferRef ids, state, history, logits, logits_all;
  kernels::DrawBuffers draw;       ///< made with the Plans that use them
  std::vector<gpu::BufferRef> kv_buffers;
  std::vector<gpu::BufferRef> states;
  model::Inputs inputs;
  std::map<engine::PlanKind, engine::Recorded> plans;
  std::vector<int32_t> tokens;     ///< what the cache holds
  uint32_t head_rows = 0;          ///< rows of logits_all
  bool poisoned = false;           ///< the cache or the states are not what `tokens` says: reset or restore first

  Model::Impl* owner = nullptr;    ///< the model's; predictions record Plans without a Model
  Model::Impl& m() const { return *owner; }
  Result<void> allocate();
  Result<engine::Recorded*> plan(engine::PlanKind kind);
  /// A Plan as the family records it; with `chain`, with its steps joined, and without a Plan where they cannot be.
  Result<engine::Recorded> record(engine::PlanKind kind, bool chain);
  engine::PlanKind decode_kind(uint32_t kv_length) const;
  engine::PlanKind prefill_kind(uint32_t count) const {
    return count <= kernels::kFewTokens ? engine::PlanKind::PrefillFew : engine::PlanKind::Prefill;
  }
  /// Uploads what the Plan needs (layer by layer under a budget) and submits it, into `commands` where that is possible.
  Result<void> run(std::span<const engine::PlanKind> kinds, uint32_t tokens, uint32_t kv_length);
  Result<void> run(std::initializer_list<engine::PlanKind> kinds, uint32_t tokens, uint32_t kv_length) {
    return run(std::span(kinds.begin(), kinds.size()), tokens, kv_length);
  }
  Result<void> write_state(uint32_t position, uint32_t tokens);
  /// Appends ids: layers for all of them; logits of the last one when `head`.
  Result<void> feed(std::span<const int32_t> ids, bool head, const CancelFlag* cancel);
  Result<void> read_logits(std::vector<float>& out);
  Result<void> clear_states();
  /// Computes anew what `tokens` says, where the cache or the states went on beyond it or broke off.
  Result<void> restore();
};

}  // namespace gull
