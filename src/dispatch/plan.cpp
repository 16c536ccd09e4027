#include "dispatch/plan.h"

#include <algorithm>

#include "base/log.h"

namespace gull::dispatch {

void Plan::add(StepDesc step) {
  if (segment_starts_.back() != steps_.size() && steps_.back().desc.select.ids != step.select.ids) begin_segment();
  auto& residents = segment_residents_.back();
  for (const Operand& operand : step.operands)
    if (operand.resident && std::find(residents.begin(), residents.end(), operand.resident) == residents.end())
      residents.push_back(operand.resident);
  segment_ready_.back() = 0;
  steps_.push_back({std::move(step), nullptr, {}});
}

void Plan::replace_last(StepDesc step) {
  // The current segment may still be empty: then the last step is the one before's.
  const size_t segment = segments() - (segment_starts_.back() == steps_.size() ? 2 : 1);
  auto& residents = segment_residents_[segment];
  for (const Operand& operand : step.operands)
    if (operand.resident && std::find(residents.begin(), residents.end(), operand.resident) == residents.end())
      residents.push_back(operand.resident);
  segment_ready_[segment] = 0;
  steps_.back() = {std::move(step), nullptr, {}};
}

void Plan::begin_segment() {
  if (segment_starts_.back() == steps_.size()) return;
  segment_starts_.push_back(steps_.size());
  segment_residents_.emplace_back();
  segment_ready_.push_back(0);
}

Result<void> Plan::prepare(size_t first, size_t last) {
  for (size_t segment = first; segment < last; ++segment) {
    if (segment_ready_[segment]) continue;
    for (size_t i = segment_begin(segment); i < segment_end(segment); ++i)
      if (auto ok = prepare_step(i); !ok) return ok;
    segment_ready_[segment] = 1;
  }
  return {};
}

Result<void> Plan::prepare_step(size_t i) {
  Step& step = steps_[i];
  if (step.group) return {};
  std::vector<gpu::Binding> bindings;
  step.resident_ids.clear();
  for (const Operand& operand : step.desc.operands) {
    bindings.push_back(operand.resident ? operand.resident->binding() : operand.fixed);
    if (!bindings.back().buffer)
      return fail_f(ErrorKind::Internal, "{}: a tensor that it reads is not on the GPU", step.desc.pipeline->label());
    if (operand.resident) step.resident_ids.push_back(bindings.back().buffer->id());
  }
  auto group = device_->create_bind_group(*step.desc.pipeline, bindings);
  if (!group) return fail(group.error());
  step.group = std::move(*group);
  return {};
}

void Plan::replay(gpu::Commands& commands, const Vars& vars, size_t first, size_t last) const {
  const size_t end = last == 0 ? 0 : segment_end(last - 1);
  for (size_t i = segment_starts_[first]; i < end; ++i) replay_step(commands, vars, i);
}

void Plan::replay_step(gpu::Commands& commands, const Vars& vars, size_t i) const {
  const Step& step = steps_[i];
  commands.dispatch(*step.desc.pipeline, *step.group, {step.desc.x.at(vars), step.desc.y.at(vars), step.desc.z.at(vars)});
}

Result<void> Plan::run(gpu::Commands& commands, const Vars& vars) {
  if (auto ok = prepare(0, segments()); !ok) return ok;
  replay(commands, vars, 0, segments());
  return {};
}

std::vector<Plan::StepCost> Plan::costs() const {
  std::vector<StepCost> out;
  for (const Step& step : steps_) {
    StepCost cost{.label = step.desc.pipeline->label()};
    if (step.desc.select.ids) cost.per_token = step.desc.select.per_token, cost.parts = std::max(step.desc.select.count, 1u);
    for (const Operand& operand : step.desc.operands)
      if (operand.resident) {
        const gpu::Binding binding = operand.resident->binding();
        cost.elements += operand.resident->elements();
        if (binding.buffer) cost.bytes += binding.size ? binding.size : binding.buffer->size() - binding.offset;
      }
    out.push_back(std::move(cost));
  }
  return out;
}

size_t Plan::drop_bind_groups(uint64_t buffer_id) {
  size_t dropped = 0;
  for (size_t segment = 0; segment < segments(); ++segment)
    for (size_t i = segment_starts_[segment]; i < segment_end(segment); ++i) {
      Step& step = steps_[i];
      if (!step.group) continue;
      bool names = std::find(step.resident_ids.begin(), step.resident_ids.end(), buffer_id) != step.resident_ids.end();
      for (const Operand& operand : step.desc.operands) names = names || (operand.fixed.buffer && operand.fixed.buffer->id() == buffer_id);
      if (!names) continue;
      step.group.reset();
      segment_ready_[segment] = 0;
      ++dropped;
    }
  return dropped;
}

}  // namespace gull::dispatch
