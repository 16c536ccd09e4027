// From an operation's operands to a dispatch: bindings, caches, checks.
#include <algorithm>

#include "compute/impl.h"

namespace gull::compute {

Handle BufferTable::add(Entry entry) {
  Lock lock(mutex_);
  bytes_ += entry.bytes;
  entries_.emplace(next_, std::move(entry));
  return next_++;
}

Result<BufferTable::Entry> BufferTable::find(Handle handle) const {
  Lock lock(mutex_);
  const auto at = entries_.find(handle);
  if (at == entries_.end()) return fail_f(ErrorKind::NotFound, "unknown handle {}", handle);
  return at->second;
}

Result<BufferTable::Entry> BufferTable::remove(Handle handle) {
  Lock lock(mutex_);
  const auto at = entries_.find(handle);
  if (at == entries_.end()) return fail_f(ErrorKind::NotFound, "unknown handle {}", handle);
  Entry entry = std::move(at->second);
  entries_.erase(at);
  bytes_ -= entry.bytes;
  return entry;
}

uint64_t BufferTable::count() const {
  Lock lock(mutex_);
  return entries_.size();
}

uint64_t BufferTable::bytes() const {
  Lock lock(mutex_);
  return bytes_;
}

namespace {

/// The bytes of its memory that an operand needs, from the start of the memory.
uint64_t bytes_needed(const Operand& operand) {
  return (operand.view.offset + operand.elements) * element_bytes(operand.storage);
}

Result<void> check_size(const char* op, const Operand& operand, uint64_t holds) {
  if (bytes_needed(operand) <= holds) return {};
  return fail_f(ErrorKind::InvalidArgument, "{}: handle {} holds {} bytes, need {}", op, operand.view.handle, holds, bytes_needed(operand));
}

Result<void> check_counts(const Call& call) {
  for (const Operand& operand : call.used())
    if (operand.elements > kMaxElements || operand.view.offset > uint64_t{1} << 40)
      return fail_f(ErrorKind::Unsupported, "{}: operand {} spans {} elements from {}, at most {} can be addressed: split the operation",
                    call.op, operand.name, operand.elements, operand.view.offset, kMaxElements);
  return {};
}

/// No output may share elements with an input, but for the same element of an elementwise operation.
Result<void> check_overlap(const Call& call) {
  for (const Operand& out : call.used()) {
    if (!out.write || out.elements == 0) continue;
    for (const Operand& in : call.used()) {
      if (&in == &out || in.elements == 0 || in.view.handle != out.view.handle) continue;
      const uint64_t out_from = out.view.offset * element_bytes(out.storage), in_from = in.view.offset * element_bytes(in.storage);
      if (out_from >= bytes_needed(in) || in_from >= bytes_needed(out)) continue;
      if (in.elementwise && out_from == in_from && in.storage == out.storage) continue;
      return fail_f(ErrorKind::InvalidArgument, "{}: output {} overlaps input {} in handle {}", call.op, out.name, in.name, out.view.handle);
    }
  }
  return {};
}

/// Gives operand `i` a binding: a new one, or that of the same memory where either is written.
Result<void> bind(const Call& call, size_t i, Layout& layout) {
  const Operand& operand = call.operands[i];
  const bool written = std::ranges::any_of(call.used(), [&](const Operand& o) { return o.write && o.elements && o.view.handle == operand.view.handle; });
  uint32_t b = 0;
  while (b < layout.bounds && !(written && layout.bounds_of[b].handle == operand.view.handle)) ++b;
  const uint64_t bytes = element_bytes(operand.storage);
  const auto first = static_cast<uint32_t>(operand.view.offset * bytes / layout.window);
  const auto last = static_cast<uint32_t>((bytes_needed(operand) - 1) / layout.window);
  const bool vec4 = operand.vec4 && first == last && operand.view.offset % 4 == 0;
  layout.bound[i] = static_cast<uint8_t>(b);
  Bound& bound = layout.bounds_of[b];
  if (b == layout.bounds) {
    ++layout.bounds;
    bound = {operand.view.handle, first, last - first + 1, written, vec4, operand.storage};
    return {};
  }
  if (bound.storage != operand.storage)
    return fail_f(ErrorKind::InvalidArgument, "{}: handle {} is used with two element types at once", call.op, operand.view.handle);
  const uint32_t end = std::max(bound.first_window + bound.windows, last + 1);
  bound.first_window = std::min(bound.first_window, first);
  bound.windows = end - bound.first_window;
  bound.vec4 = bound.vec4 && vec4 && bound.windows == 1;
  return {};
}

/// Where each operand starts, counted from the first window of its binding.
Result<void> place(const Call& call, Layout& layout) {
  for (size_t i = 0; i < call.operand_count; ++i) {
    if (layout.bound[i] == Layout::kUnused) continue;
    const Operand& operand = call.operands[i];
    const uint64_t per_window = layout.window / element_bytes(operand.storage);
    const uint64_t relative = operand.view.offset - layout.bounds_of[layout.bound[i]].first_window * per_window;
    if (relative + operand.elements > kMaxElements)
      return fail_f(ErrorKind::Unsupported, "{}: operands in handle {} lie too far apart", call.op, operand.view.handle);
    layout.offset[i] = static_cast<uint32_t>(relative);
  }
  return {};
}

}  // namespace
}  // namespace gull::compute

namespace gull {

using namespace compute;

Result<void> ComputeBackend::Impl::initialised() const {
  if (ready.load(std::memory_order_acquire)) return {};
  return fail(ErrorKind::NotInitialised, "the compute backend is not initialised: call init() first");
}

Result<void> ComputeBackend::Impl::check(const Call& call) const {
  if (auto ok = check_counts(call); !ok) return ok;
  for (const Operand& operand : call.used()) {
    if (operand.view.handle == 0 && operand.elements == 0) continue;
    auto entry = table.find(operand.view.handle);
    if (!entry) return fail(entry.error());
    if (auto ok = check_size(call.op, operand, entry->bytes); !ok) return ok;
  }
  return {};
}

Result<Layout> ComputeBackend::Impl::layout(const Call& call) const {
  if (auto ok = check_counts(call); !ok) return fail(ok.error());
  if (auto ok = check_overlap(call); !ok) return fail(ok.error());
  Layout layout;
  layout.window = std::min<uint64_t>(caps().max_binding, (uint64_t{1} << 32) - 256) & ~uint64_t{255};
  for (size_t i = 0; i < call.operand_count; ++i) {
    if (call.operands[i].elements == 0) continue;
    if (call.operands[i].write && call.operands[i].storage == Storage::F16 && !caps().f16)
      return fail_f(ErrorKind::Unsupported, "{}: this device cannot write float16 tensors (it has no shader-f16): use float32", call.op);
    if (auto ok = bind(call, i, layout); !ok) return fail(ok.error());
  }
  const uint32_t most = std::min<uint32_t>(caps().max_storage_buffers, dispatch::kMaxGroupBindings - 1);
  if (layout.bindings() > most)
    return fail_f(ErrorKind::Unsupported, "{}: its operands need {} bindings of {}, this device has {}: split the operation", call.op,
                  layout.bindings(), human_bytes(layout.window), most);
  if (auto ok = place(call, layout); !ok) return fail(ok.error());
  return layout;
}

Result<dispatch::GroupRef> ComputeBackend::Impl::build(const Call& call, const Layout& layout, const dispatch::GroupKey& key,
                                                       dispatch::ParamMode mode, uint32_t param_bytes) {
  auto entry = std::make_shared<dispatch::GroupEntry>();
  std::array<BufferTable::Entry, kMaxOperands> memory;
  for (size_t i = 0; i < call.operand_count; ++i) {
    if (layout.bound[i] == Layout::kUnused) continue;
    auto found = table.find(call.operands[i].view.handle);
    if (!found) return fail(found.error());
    if (auto ok = check_size(call.op, call.operands[i], found->bytes); !ok) return fail(ok.error());
    entry->operand_bytes[layout.bound[i]] = found->bytes;
    memory[layout.bound[i]] = std::move(*found);
  }
  const std::string name = fmt::format("{}:{:x}:{:x}", call.op, key.pipeline, key.layout);
  const auto describe = [&] {
    gpu::PipelineDesc desc;
    desc.label = fmt::format("{}:{:x}", call.op, call.variant);
    for (uint32_t b = 0; b < layout.bounds; ++b)
      desc.bindings.insert(desc.bindings.end(), layout.bounds_of[b].windows,
                           layout.bounds_of[b].write ? gpu::BindingKind::Storage : gpu::BindingKind::ReadStorage);
    if (mode == dispatch::ParamMode::Ring) desc.bindings.push_back(gpu::BindingKind::DynamicUniform);
    else desc.immediate_bytes = param_bytes;
    desc.wgsl = prelude(caps(), mode) + dispatch::declare_params(mode, layout.bindings()) +
                declare_operands(caps(), layout, call.used()) + call.text({caps(), layout, call.used()}, call.spec);
    if (options.on_shader) options.on_shader(name, desc.wgsl);
    return desc;
  };
  auto pipeline = pipelines->get(name, describe);
  if (!pipeline) return fail(pipeline.error());
  std::vector<gpu::Binding> bindings;
  for (uint32_t b = 0; b < layout.bounds; ++b) {
    const BufferTable::Entry& bound = memory[b];
    // Whole vectors of 16 bytes, so that the last few elements can be read four at a time.
    const uint64_t end = std::min((std::max<uint64_t>(bound.bytes, 1) + 15) & ~uint64_t{15}, bound.buffer->size());
    for (uint32_t w = 0; w < layout.bounds_of[b].windows; ++w) {
      const uint64_t from = (layout.bounds_of[b].first_window + w) * layout.window;
      bindings.push_back({bound.buffer, from, std::min(layout.window, end - from)});
    }
  }
  if (mode == dispatch::ParamMode::Ring) bindings.push_back({stream->ring().buffer(), 0, param_bytes});
  auto group = device->create_bind_group(**pipeline, bindings);
  if (!group) return fail(group.error());
  entry->key = key;
  entry->pipeline = std::move(*pipeline);
  entry->group = std::move(*group);
  entry->param_bytes = param_bytes;
  Lock lock(stream->mutex());   // nobody records a dispatch with the entry before it is known whether its operands are still there
  dispatch::GroupRef kept = groups->insert(std::move(entry));
  // An operand freed meanwhile was gone before the entry was there to be evicted.
  for (uint32_t b = 0; b < layout.bounds; ++b)
    if (auto still = table.find(layout.bounds_of[b].handle); !still) {
      groups->evict(layout.bounds_of[b].handle);
      return fail(still.error());
    }
  return kept;
}

Result<void> ComputeBackend::Impl::launch(const Call& call, const Layout& layout, std::span<const std::byte> params) {
  const auto param_bytes = static_cast<uint32_t>(params.size());
  const dispatch::ParamMode mode = dispatch::choose_mode(caps(), param_bytes, options.params == ParamTransport::Ring);
  dispatch::GroupKey key;
  key.pipeline = uint64_t{call.op_id} << 56 | call.variant;
  key.layout = layout.key();
  for (uint32_t b = 0; b < layout.bounds; ++b)
    for (uint32_t w = 0; w < layout.bounds_of[b].windows; ++w)
      key.add({layout.bounds_of[b].handle, (layout.bounds_of[b].first_window + w) * layout.window, layout.window});
  const uint64_t most = caps().max_workgroups;
  const uint64_t rows = (call.groups + most - 1) / most;
  if (rows > most) return fail_f(ErrorKind::Unsupported, "{}: {} workgroups are more than this device can count", call.op, call.groups);
  const gpu::Workgroups grid{static_cast<uint32_t>((call.groups + rows - 1) / std::max<uint64_t>(rows, 1)), static_cast<uint32_t>(rows), 1};
  for (;;) {
    dispatch::GroupRef entry = groups->find(key, param_bytes);
    if (!entry) {
      auto built = build(call, layout, key, mode, param_bytes);
      if (!built) return fail(built.error());
      entry = std::move(*built);
    }
    for (size_t i = 0; i < call.operand_count; ++i) {
      if (layout.bound[i] == Layout::kUnused) continue;
      if (auto ok = check_size(call.op, call.operands[i], entry->operand_bytes[layout.bound[i]]); !ok) return ok;
    }
    Lock lock(stream->mutex());
    // Freed since it was found: build() will say which operand is unknown. Memory goes back to the pool only after this
    // lock was taken once more, so whoever gets it next comes behind this dispatch in the queue.
    if (entry->dead.load(std::memory_order_acquire)) continue;
    return stream->dispatch(*entry, mode, params, grid, call.work);
  }
}

Result<Handle> ComputeBackend::Impl::alloc(uint64_t bytes) {
  auto buffer = pool->take(bytes);
  if (!buffer && buffer.error().kind == ErrorKind::OutOfMemory && bytes <= caps().max_buffer) {
    // What was freed may only now be given back: once the work that used it has ended.
    pool->trim();
    if (auto ok = stream->synchronize(); !ok) return fail(ok.error());
    buffer = pool->take(bytes);
  }
  if (!buffer) return fail(buffer.error());
  return table.add({std::move(*buffer), bytes});
}

Result<void> ComputeBackend::Impl::release(Handle handle) {
  auto entry = table.remove(handle);
  if (!entry) return fail(entry.error());
  groups->evict(handle);
  { Lock lock(stream->mutex()); }   // a dispatch that found its entry before it was evicted is recorded by now
  pool->give(std::move(entry->buffer));
  return {};
}

}  // namespace gull
