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
  const auto& kinds = (*pipeline)->bindings();
  for (size_t i = 0; i < operands.size() && i < kinds.size(); ++i)
    if (kinds[i] == gpu::BindingKind::Storage && operands[i].fixed.buffer) twins.erase(operands[i].fixed.buffer->id());
  dispatch::StepDesc step{*pipeline, std::move(operands), x, y, z, std::move(select)};
  if (replace_last) plan.replace_last(std::move(step));
  else plan.add(std::move(step));
}

std::vector<gpu::BindingKind> kinds(std::string_view letters) {
  std::vector<gpu::BindingKind> out;
  for (char c : letters)
    out.push_back(c == 'r' ? gpu::BindingKind::ReadStorage : c == 'w' ? gpu::BindingKind::Storage : gpu::BindingKind::Uniform);
  return out;
}

dispatch::Operand vector_operand(const weights::TensorRef& tensor) { return dispatch::Operand(tensor->tiles.front()); }

}  // namespace gull::kernels
