// A Plan: steps recorded once and replayed. What changes from replay to replay (how many tokens, how many parts the
// attention is split into) is a variable; everything else (pipelines, bind groups, parameters) is fixed at recording.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "gpu/commands.h"
#include "gpu/device.h"

namespace gull::dispatch {

/// Memory that may come and go, such as a tile of weights under a budget.
class Resident {
 public:
  virtual ~Resident() = default;
  /// Where it is now; a null buffer while it is not on the GPU.
  virtual gpu::Binding binding() const = 0;
  /// How many numbers it holds, for profiles.
  virtual uint64_t elements() const { return 0; }
};

/// What a step reads or writes: a fixed range of a buffer, or memory that may come and go.
struct Operand {
  gpu::Binding fixed;
  std::shared_ptr<Resident> resident;

  Operand(gpu::BufferRef buffer, uint64_t offset = 0, uint64_t size = 0) : fixed{std::move(buffer), offset, size} {}
  Operand(gpu::Binding binding) : fixed(std::move(binding)) {}
  template <class T>
    requires std::is_base_of_v<Resident, T>
  Operand(std::shared_ptr<T> memory) : resident(std::move(memory)) {}
};

/// The variables of a replay.
enum class Var : uint8_t { One, Tokens, Splits };
constexpr size_t kVars = 3;
using Vars = std::array<uint32_t, kVars>;   ///< indexed by Var; Vars[One] is 1

/// A count of workgroups: times × ⌈value of var ÷ per⌉.
struct Count {
  uint32_t times = 1;
  Var var = Var::One;
  uint32_t per = 1;
  uint32_t at(const Vars& vars) const {
    const uint32_t value = vars[static_cast<size_t>(var)];
    return times * ((value + per - 1) / per);
  }
};

/// Which part of its weights a step reads, where that follows from ids that an earlier step or the host left on the GPU:
/// the step may be left out when none of them lies in [first, first + count). Rows of an embedding, experts of a mixture.
struct Select {
  gpu::BufferRef ids;              ///< u32 [tokens, per_token]; null: the step always runs
  uint32_t per_token = 1;
  uint32_t first = 0, count = 0;
};

struct Link;

struct StepDesc {
  gpu::PipelineRef pipeline;       ///< null while `link` waits to be joined with its neighbours (chain.h)
  std::vector<Operand> operands;   ///< binding 0…
  Count x, y, z;
  Select select;                   ///< looked at only under a budget of weights
  std::shared_ptr<const Link> link;
};

/// Not thread-safe: belongs to one session.
class Plan {
 public:
  explicit Plan(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  /// A step whose ids for selection are others than those of the step before begins a segment by itself.
  void add(StepDesc step);
  /// Puts a step (a fused one) in the place of the last, in the last one's segment.
  void replace_last(StepDesc step);
  /// Steps added from here on belong to a new segment (a layer, say). The first segment starts by itself.
  void begin_segment();
  size_t segments() const { return segment_starts_.size(); }
  /// The segment that the next step will be in, and the one that the last step is in.
  size_t segment() const { return segments() - 1; }
  size_t last_segment() const { return segment_starts_.back() == steps_.size() && segments() > 1 ? segments() - 2 : segments() - 1; }
  size_t steps() const { return steps_.size(); }
  /// The memory that may come and go which a segment names, without repeats.
  std::span<const std::shared_ptr<Resident>> residents(size_t segment) const { return segment_residents_[segment]; }

  /// Creates the bind groups that are missing. Errors: a resident that is not on the GPU, a limit exceeded.
  Result<void> prepare(size_t first_segment, size_t last_segment);
  /// Encodes the segments [first, last). They must be prepared. No look-up and no allocation.
  void replay(gpu::Commands& commands, const Vars& vars, size_t first_segment, size_t last_segment) const;
  Result<void> run(gpu::Commands& commands, const Vars& vars);   ///< prepare and replay everything

  /// What a step is called, and its residents (the weights that it reads), for profiles. Of residents that ids choose from, a
  /// token reads `per_token` parts of `parts`.
  struct StepCost {
    std::string label;
    uint64_t bytes = 0, elements = 0;
    uint32_t per_token = 1, parts = 1;
  };
  std::vector<StepCost> costs() const;

  /// Step by step, where a segment has to be run in parts: as `prepare` and `replay`.
  size_t segment_begin(size_t segment) const { return segment_starts_[segment]; }
  size_t segment_end(size_t segment) const {
    return segment + 1 < segment_starts_.size() ? segment_starts_[segment + 1] : steps_.size();
  }
  const StepDesc& step(size_t i) const { return steps_[i].desc; }
  Result<void> prepare_step(size_t i);
  void replay_step(gpu::Commands& commands, const Vars& vars, size_t i) const;

  /// Drops each bind group that names the buffer; returns how many.
  size_t drop_bind_groups(uint64_t buffer_id);

 private:
  struct Step {
    StepDesc desc;
    gpu::BindGroupRef group;
    std::vector<uint64_t> resident_ids;   ///< buffers of the residents that the group was made with
  };
  std::shared_ptr<gpu::Device> device_;
  std::vector<Step> steps_;
  std::vector<size_t> segment_starts_{0};
  std::vector<std::vector<std::shared_ptr<Resident>>> segment_residents_{1};
  std::vector<uint8_t> segment_ready_{0};
};

}  // namespace gull::dispatch
