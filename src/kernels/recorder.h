// Records the steps of a forward pass into a Plan. Model code calls the operations of ops.h on it, top to bottom.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dispatch/chain.h"
#include "dispatch/pipeline_cache.h"
#include "dispatch/plan.h"
#include "gull/engine.h"
#include "gull/tuning.h"
#include "weights/weight_cache.h"

namespace gull::kernels {

/// Activations: one row a token, `width` floats used of `stride`, starting `offset` floats into the buffer.
struct Rows {
  gpu::BufferRef buffer;
  uint32_t width = 0;
  uint32_t stride = 0;
  uint32_t offset = 0;
  /// Columns [first, first + n) of the same rows.
  Rows columns(uint32_t first, uint32_t n) const { return {buffer, n, stride, offset + first}; }
  explicit operator bool() const { return buffer != nullptr; }
};

/// Named activation buffers of a session, shared by its Plans: the same name gives the same memory.
class Arena {
 public:
  Arena(std::shared_ptr<gpu::Device> device, uint32_t max_tokens) : device_(std::move(device)), max_tokens_(max_tokens) {}
  /// Rows for `max_tokens` tokens (at least). The width is padded to a multiple of 32, so that kernels may read whole groups.
  Result<Rows> rows(const std::string& name, uint32_t width, uint32_t tokens = 0);
  Result<gpu::BufferRef> raw(const std::string& name, uint64_t bytes);
  uint32_t max_tokens() const { return max_tokens_; }

 private:
  std::shared_ptr<gpu::Device> device_;
  uint32_t max_tokens_;
  std::unordered_map<std::string, gpu::BufferRef> buffers_;
};

/// Which kernels a Plan may choose; each switch is also forced in tests.
struct Choices {
  Precision precision = Precision::Fast;
  bool f16 = false;           ///< shader-f16
  bool subgroups = false;
  bool packed_dot = false;    ///< 8-bit activations with dot4I8Packed
  bool few_threads = false;   ///< workgroups of few threads: a processor runs those of one in turn, from barrier to barrier
  bool chain = false;         ///< the steps of a layer are joined for one token (dispatch/chain.h)
  Tuning tuning;              ///< shapes found by measuring, all of them proven (tuning.h)
};

/// Plans for up to this many tokens (but more than one) take the kernels for a few.
inline constexpr uint32_t kFewTokens = 16;

struct LastProjection;

/// What the links of a chain hand on: buffers whose contents also stand in the chain's area, from which word on.
struct HandedOn {
  struct Word { uint32_t at; size_t step; };          ///< and which step of the Plan put it
  std::unordered_map<uint64_t, Word> at;
  std::vector<std::pair<uint64_t, uint32_t>> fresh;   ///< the same of the step that is being recorded
  size_t segment = 0;         ///< of the Plan, that all of them are in
  uint32_t end = 0, most = 0; ///< words: of this segment, and of the largest
};

/// Everything that recording needs. The first failure is kept in `error`, later calls do nothing: a forward pass reads
/// without error handling between its lines, and the caller looks at `error` once.
struct Recorder {
  dispatch::PipelineCache& pipelines;
  weights::WeightCache& weights;
  dispatch::Plan& plan;
  Arena& arena;
  gpu::BufferRef state;       ///< the State uniform
  uint32_t max_tokens = 1;    ///< 1: decode kernels
  Choices choices;
  std::optional<Error> error;
  bool short_context = false; ///< decode attention unsplit: for KV lengths up to kernels::short_context
  /// Buffers whose contents also stand quantised (blocks of dot8.h) in another, by id. A step that writes the buffer ends it.
  std::unordered_map<uint64_t, gpu::BufferRef> twins;

  /// The projection that the Plan ends with, while it does: what follows may be fused into it.
  std::shared_ptr<LastProjection> last;
  bool replace_last = false;  ///< the next step takes the place of the Plan's last one
  HandedOn handed;

  /// Where in its chain's area the next step finds what `buffer` holds, if the last step (or, for a step that takes from that one
  /// anyway, any earlier one of the chain) has put it there; 0: it has to read the buffer.
  uint32_t taken_at(const gpu::BufferRef& buffer, bool any_step = false) const;
  /// Where in its chain's area the next step (or the one that replaces the last) is to put what it writes to `buffer`, too; 0: nowhere.
  uint32_t put_at(const gpu::BufferRef& buffer, uint32_t words);

  gpu::BufferRef twin(const Rows& x) const {
    const auto it = x.offset == 0 ? twins.find(x.buffer->id()) : twins.end();
    return it == twins.end() ? nullptr : it->second;
  }
  const gpu::Caps& caps() const { return pipelines.device().caps(); }
  bool decode() const { return max_tokens == 1; }
  bool failed() const { return error.has_value(); }
  void fail_with(Error e) { if (!error) error = std::move(e); }
  /// Unwraps a result, keeping its error.
  template <class T>
  T take(Result<T> result) {
    if (result) return std::move(*result);
    fail_with(result.error());
    return T{};
  }

  Rows rows(const std::string& name, uint32_t width) { return take(arena.rows(name, width, max_tokens)); }
  weights::TensorRef weight(std::string_view name) { return take(weights.tensor(name)); }
  weights::TensorRef weight_opt(std::string_view name) { return take(weights.tensor_opt(name)); }

  /// Adds a step; `key` identifies the shader, `describe` gives its text when it has to be compiled. `select` says which ids
  /// the step has anything to do for, when it reads only the part of a weight that ids name.
  void step(const std::string& key, const std::function<gpu::PipelineDesc()>& describe, std::vector<dispatch::Operand> operands,
            dispatch::Count x, dispatch::Count y = {}, dispatch::Count z = {}, dispatch::Select select = {});
  /// The same for a step that may be joined with its neighbours (dispatch/chain.h); `reads`: which operands it reads that other steps
  /// may write.
  void link(const std::string& key, const std::function<gpu::PipelineDesc()>& describe, std::vector<dispatch::Operand> operands,
            uint32_t workgroups, dispatch::Takes takes, std::vector<size_t> reads);

 private:
  void add(dispatch::StepDesc step, const std::vector<gpu::BindingKind>& kinds);
};

/// The binding kinds of a kernel: 'r' read-only storage, 'w' storage, 'u' uniform.
std::vector<gpu::BindingKind> kinds(std::string_view letters);

/// A vector of weights (norm weights, biases): one row, f32, one tile.
dispatch::Operand vector_operand(const weights::TensorRef& tensor);

}  // namespace gull::kernels
