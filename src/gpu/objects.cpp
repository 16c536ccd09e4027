// Buffers, pipelines and bind groups: created inside error scopes, released by their owners.
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "gpu/commands.h"
#include "gpu/state.h"

namespace gull::gpu {
namespace {

WGPUBufferUsage usage_flags(uint32_t usage) {
  WGPUBufferUsage flags = 0;
  if (usage & kStorage) flags |= WGPUBufferUsage_Storage;
  if (usage & kUniform) flags |= WGPUBufferUsage_Uniform;
  if (usage & kCopySrc) flags |= WGPUBufferUsage_CopySrc;
  if (usage & kCopyDst) flags |= WGPUBufferUsage_CopyDst;
  if (usage & kMapRead) flags |= WGPUBufferUsage_MapRead;
  if (usage & kQueryResolve) flags |= WGPUBufferUsage_QueryResolve;
  return flags;
}

}  // namespace

struct MapAnswer {
  std::atomic<bool> done{false};
  bool ok = false;
  std::string message;
};

Buffer::Buffer(std::shared_ptr<DeviceState> state, WGPUBufferImpl* handle, uint64_t id, uint64_t size, Memory kind)
    : state_(std::move(state)), handle_(handle), id_(id), size_(size), kind_(kind) {
  state_->ledger.add(kind, size);
}

Buffer::~Buffer() {
  if (!destroyed_) state_->ledger.remove(kind_, size_);
  state_->procs->BufferRelease(handle_);
}

void Buffer::destroy() {
  if (destroyed_) return;
  destroyed_ = true;
  state_->ledger.remove(kind_, size_);
  state_->procs->BufferDestroy(handle_);
}

Result<BufferRef> Device::create_buffer(uint64_t size, uint32_t usage, Memory kind, std::string_view label) {
  const uint64_t asked = size;
  size = std::max<uint64_t>((size + 3) & ~uint64_t{3}, 4);
  if (size < asked || size > caps_.max_buffer)   // sizes near 2^64 wrap
    return fail_f(ErrorKind::OutOfMemory, "{}: {} is more than one buffer of this device can hold ({})", label,
                  human_bytes(asked), human_bytes(caps_.max_buffer));
  WGPUBufferDescriptor desc{};
  desc.label = view(label);
  desc.size = size;
  desc.usage = usage_flags(usage);
  WGPUBuffer handle = nullptr;
  auto ok = checked(*state_, label, [&] { handle = state_->procs->DeviceCreateBuffer(state_->device, &desc); });
  if (!ok || !handle) {
    if (handle) state_->procs->BufferRelease(handle);
    if (!ok && ok.error().kind != ErrorKind::OutOfMemory) return fail(ok.error());
    return fail_f(ErrorKind::OutOfMemory, "{}: the GPU has no room for {} more (gull holds {})", label, human_bytes(size),
                  human_bytes(state_->ledger.use().total));
  }
  return std::make_shared<Buffer>(state_, handle, state_->next_id++, size, kind);
}

Result<void> Device::write(const Buffer& buffer, uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const uint64_t whole = bytes.size() & ~size_t{3};
  const uint64_t padded = (bytes.size() + 3) & ~size_t{3};
  if (offset % 4 != 0 || padded > buffer.size() || offset > buffer.size() - padded)
    return fail_f(ErrorKind::Internal, "write of {} bytes at {} does not fit a buffer of {}", bytes.size(), offset, buffer.size());
  if (auto ok = healthy(); !ok) return ok;
  if (whole) state_->procs->QueueWriteBuffer(state_->queue, buffer.handle(), offset, bytes.data(), whole);
  if (whole < padded) {
    std::byte tail[4] = {};
    std::memcpy(tail, bytes.data() + whole, bytes.size() - whole);
    state_->procs->QueueWriteBuffer(state_->queue, buffer.handle(), offset + whole, tail, 4);
  }
  return {};
}

Mapping Device::start_map(BufferRef buffer, uint64_t size) {
  Mapping mapping{std::move(buffer), size, std::make_shared<MapAnswer>()};
  WGPUBufferMapCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = new std::shared_ptr<MapAnswer>(mapping.answer);
  callback.callback = [](WGPUMapAsyncStatus status, WGPUStringView message, void* user, void*) {
    auto* owner = static_cast<std::shared_ptr<MapAnswer>*>(user);
    (*owner)->ok = status == WGPUMapAsyncStatus_Success;
    (*owner)->message = text(message);
    (*owner)->done = true;
    delete owner;
  };
  state_->procs->BufferMapAsync(mapping.buffer->handle(), WGPUMapMode_Read, 0, size, callback);
  return mapping;
}

Result<void> Device::finish_map(const Mapping& mapping, Submission submission, std::span<std::byte> out) {
  while (!mapping.answer->done) state_->pump(true, &submission.index);
  if (!mapping.answer->ok) {
    if (auto ok = healthy(); !ok) return ok;
    return fail_f(ErrorKind::Device, "reading back from the GPU failed: {}", one_line(mapping.answer->message));
  }
  const void* mapped = state_->procs->BufferGetConstMappedRange(mapping.buffer->handle(), 0, mapping.size);
  if (mapped) std::memcpy(out.data(), mapped, std::min<uint64_t>(out.size(), mapping.size));
  state_->procs->BufferUnmap(mapping.buffer->handle());
  if (!mapped) return fail(ErrorKind::Device, "reading back from the GPU failed: no mapped range");
  return healthy();
}

Result<void> Device::read(const Buffer& buffer, uint64_t offset, std::span<std::byte> out) {
  if (out.empty()) return {};
  if (offset % 4 != 0 || out.size() % 4 != 0 || out.size() > buffer.size() || offset > buffer.size() - out.size())
    return fail_f(ErrorKind::Internal, "read of {} bytes at {} does not fit a buffer of {}", out.size(), offset, buffer.size());
  auto staging = create_buffer(out.size(), kMapRead | kCopyDst, Memory::Staging, "read-back");
  if (!staging) return fail(staging.error());
  auto commands = begin();
  if (!commands) return fail(commands.error());
  commands->copy(buffer, offset, **staging, 0, out.size());
  auto submission = submit(std::move(*commands));
  if (!submission) return fail(submission.error());
  return finish_map(start_map(*staging, out.size()), *submission, out);
}

Pipeline::Pipeline(std::shared_ptr<DeviceState> state, WGPUComputePipelineImpl* handle, WGPUBindGroupLayoutImpl* layout,
                   uint64_t id, std::vector<BindingKind> bindings, std::string label)
    : state_(std::move(state)), handle_(handle), layout_(layout), id_(id), bindings_(std::move(bindings)), label_(std::move(label)) {}

Pipeline::~Pipeline() {
  state_->procs->ComputePipelineRelease(handle_);
  state_->procs->BindGroupLayoutRelease(layout_);
}

namespace {

WGPUBindGroupLayoutEntry layout_entry(uint32_t index, BindingKind kind) {
  WGPUBindGroupLayoutEntry entry{};
  entry.binding = index;
  entry.visibility = WGPUShaderStage_Compute;
  switch (kind) {
    case BindingKind::ReadStorage: entry.buffer.type = WGPUBufferBindingType_ReadOnlyStorage; break;
    case BindingKind::Storage: entry.buffer.type = WGPUBufferBindingType_Storage; break;
    case BindingKind::Uniform: entry.buffer.type = WGPUBufferBindingType_Uniform; break;
    case BindingKind::DynamicUniform:
      entry.buffer.type = WGPUBufferBindingType_Uniform;
      entry.buffer.hasDynamicOffset = 1;
      break;
  }
  return entry;
}

/// What is made on the way to a pipeline, released at the end whatever happens.
struct PipelineParts {
  const Procs& procs;
  WGPUShaderModule module = nullptr;
  WGPUBindGroupLayout group_layout = nullptr;
  WGPUPipelineLayout layout = nullptr;
  WGPUComputePipeline pipeline = nullptr;
  ~PipelineParts() {
    if (module) procs.ShaderModuleRelease(module);
    if (group_layout) procs.BindGroupLayoutRelease(group_layout);
    if (layout) procs.PipelineLayoutRelease(layout);
    if (pipeline) procs.ComputePipelineRelease(pipeline);
  }
};

WGPUShaderModule create_module(const DeviceState& state, const PipelineDesc& desc, bool trusted) {
  WGPUShaderSourceWGSL wgsl{};
  wgsl.chain.sType = WGPUSType_ShaderSourceWGSL;
  wgsl.code = view(desc.wgsl);
  WGPUShaderModuleDescriptor module{};
  module.nextInChain = &wgsl.chain;
  module.label = view(desc.label);
  return trusted ? state.procs->ext.create_trusted_module(state.device, &module)
                 : state.procs->DeviceCreateShaderModule(state.device, &module);
}

}  // namespace

Result<PipelineRef> Device::create_pipeline(const PipelineDesc& desc) {
  PipelineParts parts{*state_->procs};
  const bool trusted = desc.trusted && caps_.trusted;
  const std::string what = "shader " + desc.label;
  if (auto ok = checked(*state_, what, [&] { parts.module = create_module(*state_, desc, trusted); }); !ok) return fail(ok.error());
  auto ok = checked(*state_, what, [&] {
    std::vector<WGPUBindGroupLayoutEntry> entries;
    for (size_t i = 0; i < desc.bindings.size(); ++i) entries.push_back(layout_entry(static_cast<uint32_t>(i), desc.bindings[i]));
    WGPUBindGroupLayoutDescriptor group{};
    group.entryCount = entries.size();
    group.entries = entries.data();
    parts.group_layout = parts.procs.DeviceCreateBindGroupLayout(state_->device, &group);
    WGPUPipelineLayoutDescriptor layout{};
    layout.bindGroupLayoutCount = 1;
    layout.bindGroupLayouts = &parts.group_layout;
    layout.immediateSize = desc.immediate_bytes;
    parts.layout = parts.procs.DeviceCreatePipelineLayout(state_->device, &layout);
    WGPUComputePipelineDescriptor pipeline{};
    pipeline.label = view(desc.label);
    pipeline.layout = parts.layout;
    pipeline.compute.module = parts.module;
    pipeline.compute.entryPoint = view("main");
    parts.pipeline = parts.procs.DeviceCreateComputePipeline(state_->device, &pipeline);
  });
  if (!ok) return fail(ok.error());
  if (!parts.pipeline) return fail_f(ErrorKind::Device, "{}: no pipeline came back", what);
  return std::make_shared<Pipeline>(state_, std::exchange(parts.pipeline, nullptr), std::exchange(parts.group_layout, nullptr),
                                    state_->next_id++, desc.bindings, desc.label);
}

BindGroup::BindGroup(std::shared_ptr<DeviceState> state, WGPUBindGroupImpl* handle) : state_(std::move(state)), handle_(handle) {}
BindGroup::~BindGroup() { state_->procs->BindGroupRelease(handle_); }

Result<BindGroupRef> Device::create_bind_group(const Pipeline& pipeline, std::span<const Binding> bindings) {
  if (bindings.size() != pipeline.bindings().size())
    return fail_f(ErrorKind::Internal, "{}: {} bindings given, {} needed", pipeline.label(), bindings.size(), pipeline.bindings().size());
  std::vector<WGPUBindGroupEntry> entries(bindings.size());
  for (size_t i = 0; i < bindings.size(); ++i) {
    const Binding& binding = bindings[i];
    if (!binding.buffer || binding.offset >= binding.buffer->size() || binding.size > binding.buffer->size() - binding.offset)
      return fail_f(ErrorKind::Internal, "{}: binding {} is outside its buffer", pipeline.label(), i);
    const uint64_t size = binding.size ? (binding.size + 3) & ~uint64_t{3} : binding.buffer->size() - binding.offset;
    const bool uniform = pipeline.bindings()[i] == BindingKind::Uniform || pipeline.bindings()[i] == BindingKind::DynamicUniform;
    const uint64_t limit = uniform ? caps_.max_uniform : caps_.max_binding;
    if (size > limit)
      return fail_f(ErrorKind::OutOfMemory, "{}: binding {} needs {}, this device binds at most {}", pipeline.label(), i,
                    human_bytes(size), human_bytes(limit));
    entries[i] = {};
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].buffer = binding.buffer->handle();
    entries[i].offset = binding.offset;
    entries[i].size = size;
  }
  WGPUBindGroupDescriptor desc{};
  desc.label = view(pipeline.label());
  desc.layout = pipeline.layout();
  desc.entryCount = entries.size();
  desc.entries = entries.data();
  WGPUBindGroup handle = nullptr;
  auto ok = checked(*state_, pipeline.label(), [&] { handle = state_->procs->DeviceCreateBindGroup(state_->device, &desc); });
  if (!ok) {
    if (handle) state_->procs->BindGroupRelease(handle);
    return fail(ok.error());
  }
  return std::make_shared<BindGroup>(state_, handle);
}

}  // namespace gull::gpu
