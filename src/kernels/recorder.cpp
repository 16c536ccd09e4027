#include "kernels/recorder.h"

#include <algorithm>

namespace gull::kernels {

Result<gpu::BufferRef> Arena::raw(const std::string& name, uint64_t bytes) {
  if (auto it = buffers_.find(name); it != buffers_.end() && it->second->size() >= bytes) return it->second;
  auto buffer = device_->create_buffer(bytes, gpu::kStorage | gpu::kCopySrc | gpu::kCopyDst, gpu::Memory::Activations, name);
  if (buffer) buffers_[name] = *buffer;
  return buffer;
}

Result<Rows> Arena::rows(const std::string& name, uint32_t width, uint32_t tokens) {
  const uint32_t stride = (width + 31) & ~31u;
  // The largest user decides, so that Plans of one session share memory whichever is recorded first.
  auto buffer = raw(name, uint64_t{4} * stride * std::max(tokens, max_tokens_));
  if (!buffer) return fail(buffer.error());
  return Rows{*buffer, width, stride, 0};
}

void Recorder::step(const std::string& key, const std::function<gpu::PipelineDesc()>& describe,
                    std::vector<dispatch::Operand> operands, dispatch::Count x, dispatch::Count y, dispatch::Count z,
                    dispatch::Select select) {
  if (failed()) return;
  auto pipeline = pipelines.get(key, describe);
  if (!pipeline) return fail_with(pipeline.error());
  handed.at.clear(), handed.fresh.clear();
  add({*pipeline, std::move(operands), x, y, z, std::move(select), nullptr}, (*pipeline)->bindings());
}

void Recorder::link(const std::string& key, const std::function<gpu::PipelineDesc()>& describe, std::vector<dispatch::Operand> operands,
                    uint32_t workgroups, dispatch::Takes takes, std::vector<size_t> reads) {
  if (failed()) return;
  const uint32_t wide = std::min<uint32_t>(workgroups, 32768), high = (workgroups + wide - 1) / wide;
  auto link = choices.chain && high == 1 ? dispatch::make_link(key, describe(), takes, std::move(reads)) : nullptr;
  if (!link && takes != dispatch::Takes::Nothing) return fail_with({ErrorKind::Internal, key + ": has nothing to take"});
  if (!link) return step(key, describe, std::move(operands), {wide}, {high});
  const auto kinds = link->desc.bindings;
  add({nullptr, std::move(operands), {workgroups}, {}, {}, {}, std::move(link)}, kinds);
}

void Recorder::add(dispatch::StepDesc step, const std::vector<gpu::BindingKind>& kinds) {
  for (size_t i = 0; i < step.operands.size() && i < kinds.size(); ++i)
    if (kinds[i] == gpu::BindingKind::Storage && step.operands[i].fixed.buffer) {
      twins.erase(step.operands[i].fixed.buffer->id());
      handed.at.erase(step.operands[i].fixed.buffer->id());
    }
  if (replace_last) plan.replace_last(std::move(step));
  else plan.add(std::move(step));
  for (auto [id, at] : handed.fresh) handed.at[id] = {at, plan.steps() - 1};
  handed.fresh.clear();
}

uint32_t Recorder::taken_at(const gpu::BufferRef& buffer, bool any_step) const {
  if (!buffer || handed.segment != plan.segment()) return 0;
  const auto it = handed.at.find(buffer->id());
  return it == handed.at.end() || (!any_step && it->second.step + 1 != plan.steps()) ? 0 : it->second.at;
}

uint32_t Recorder::put_at(const gpu::BufferRef& buffer, uint32_t words) {
  const size_t segment = plan.segment();
  if (!choices.chain || !buffer) return 0;
  if (replace_last && plan.last_segment() != segment) return 0;   // a step of the segment before: nobody takes it
  if (handed.segment != segment || (handed.at.empty() && handed.fresh.empty())) {
    handed.at.clear(), handed.fresh.clear();
    handed.segment = segment, handed.end = dispatch::kAreaHead;
  }
  const uint32_t at = handed.end;
  handed.fresh.emplace_back(buffer->id(), at);
  handed.end += (words + 15) & ~15u;
  handed.most = std::max(handed.most, handed.end);
  return at;
}

std::vector<gpu::BindingKind> kinds(std::string_view letters) {
  std::vector<gpu::BindingKind> out;
  for (char c : letters)
    out.push_back(c == 'r' ? gpu::BindingKind::ReadStorage : c == 'w' ? gpu::BindingKind::Storage : gpu::BindingKind::Uniform);
  return out;
}

dispatch::Operand vector_operand(const weights::TensorRef& tensor) { return dispatch::Operand(tensor->tiles.front()); }

}  // namespace gull::kernels
