#include "gpu/device.h"

#include <algorithm>

#include "base/log.h"
#include "gpu/commands.h"
#include "gpu/state.h"

namespace gull::gpu {

void Ledger::add(Memory kind, uint64_t bytes) {
  Lock lock(mutex_);
  const auto i = static_cast<size_t>(kind);
  bytes_[i] += bytes;
  peaks_[i] = std::max(peaks_[i], bytes_[i]);
  uint64_t total = 0;
  for (uint64_t b : bytes_) total += b;
  peak_ = std::max(peak_, total);
}

uint64_t Ledger::peak(Memory kind) const {
  Lock lock(mutex_);
  return peaks_[static_cast<size_t>(kind)];
}

void Ledger::remove(Memory kind, uint64_t bytes) {
  Lock lock(mutex_);
  bytes_[static_cast<size_t>(kind)] -= bytes;
}

MemoryUse Ledger::use() const {
  Lock lock(mutex_);
  MemoryUse use{bytes_[0], bytes_[1], bytes_[2], bytes_[3], bytes_[4], 0, peak_};
  for (uint64_t b : bytes_) use.total += b;
  return use;
}

DeviceState::~DeviceState() {
  if (queue) procs->QueueRelease(queue);
  if (device) procs->DeviceRelease(device);
  if (instance) procs->InstanceRelease(instance);
}

void DeviceState::pump(bool wait, const uint64_t* submission) const {
  if (procs->ext.suspend && wait) procs->ext.suspend(instance);
  procs->InstanceProcessEvents(instance);
  if (procs->ext.poll) procs->ext.poll(device, wait, submission);
}

void DeviceState::report(std::string message) {
  Lock lock(mutex);
  if (problem.empty()) problem = std::move(message);
}

Result<void> DeviceState::healthy() const {
  Lock lock(mutex);
  if (problem.empty()) return {};
  return fail(ErrorKind::Device, problem);
}

std::string one_line(std::string message) {
  std::string out;
  for (char c : message) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
    if (c == ' ' && !out.empty() && out.back() == ' ') continue;
    out += c;
    if (out.size() > 900) { out += "…"; break; }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

ErrorScopes::ErrorScopes(DeviceState& state) : state_(state), lock_(state.scope_mutex) {
  // Not WGPUErrorFilter_Internal: wgpu-native v29 panics on it.
  state_.procs->DevicePushErrorScope(state_.device, WGPUErrorFilter_OutOfMemory);
  state_.procs->DevicePushErrorScope(state_.device, WGPUErrorFilter_Validation);
}

ErrorScopes::~ErrorScopes() {
  if (open_) (void)finish("");
}

namespace {

struct ScopeAnswer {
  int pending = 2;
  WGPUErrorType type = WGPUErrorType_NoError;
  std::string message;
};

}  // namespace

Result<void> ErrorScopes::finish(std::string_view what) {
  open_ = false;
  ScopeAnswer answer;
  WGPUPopErrorScopeCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &answer;
  callback.callback = [](WGPUPopErrorScopeStatus, WGPUErrorType type, WGPUStringView message, void* user, void*) {
    auto* out = static_cast<ScopeAnswer*>(user);
    --out->pending;
    if (type != WGPUErrorType_NoError && out->type == WGPUErrorType_NoError) out->type = type, out->message = text(message);
  };
  for (int i = 0; i < 2; ++i) state_.procs->DevicePopErrorScope(state_.device, callback);
  while (answer.pending > 0) state_.pump(state_.procs->ext.suspend != nullptr);
  if (answer.type == WGPUErrorType_NoError) return {};
  const auto kind = answer.type == WGPUErrorType_OutOfMemory ? ErrorKind::OutOfMemory : ErrorKind::Device;
  return fail_f(kind, "{}: {}", what, one_line(answer.message));
}

namespace {

struct DeviceAnswer {
  WGPUDevice device = nullptr;
  std::string message;
  bool done = false;
};

std::vector<WGPUFeatureName> wanted_features(const Procs& procs, WGPUAdapter adapter, const DeviceOptions& options, Caps& caps) {
  std::vector<WGPUFeatureName> features;
  const auto want = [&](bool allowed, WGPUFeatureName feature) {
    if (!allowed || options.baseline_limits || !procs.AdapterHasFeature(adapter, feature)) return false;
    features.push_back(feature);
    return true;
  };
  caps.f16 = want(!options.no_f16, WGPUFeatureName_ShaderF16);
  // wgpu-native has its own feature numbers for subgroup operations and for immediates.
  constexpr auto native_subgroups = static_cast<WGPUFeatureName>(0x00030021);
  caps.subgroups = want(!options.no_subgroups, WGPUFeatureName_Subgroups) ||
                   (procs.ext.naga && want(!options.no_subgroups, native_subgroups));
  caps.timestamps = want(true, WGPUFeatureName_TimestampQuery);
  constexpr auto native_pass_timestamps = static_cast<WGPUFeatureName>(0x00030025), native_encoder_timestamps = static_cast<WGPUFeatureName>(0x00030024);
  caps.pass_timestamps = procs.ext.naga && procs.ext.write_timestamp && caps.timestamps && want(true, native_encoder_timestamps) &&
                         want(true, native_pass_timestamps);
  constexpr auto native_immediates = static_cast<WGPUFeatureName>(0x00030001);
  if (procs.ext.set_immediates && !options.no_immediates && !options.baseline_limits &&
      (!procs.ext.naga || procs.AdapterHasFeature(adapter, native_immediates))) {
    if (procs.ext.naga) features.push_back(native_immediates);
    caps.immediate_bytes = 1;
  }
  return features;
}

void read_limits(const Procs& procs, WGPUDevice device, Caps& caps) {
  WGPULimits limits{};
  procs.DeviceGetLimits(device, &limits);
  caps.max_buffer = limits.maxBufferSize;
  caps.max_binding = limits.maxStorageBufferBindingSize & ~uint64_t{3};
  caps.max_uniform = limits.maxUniformBufferBindingSize;
  caps.max_storage_buffers = limits.maxStorageBuffersPerShaderStage;
  caps.max_workgroup_memory = limits.maxComputeWorkgroupStorageSize;
  caps.max_invocations = limits.maxComputeInvocationsPerWorkgroup;
  caps.max_workgroup_x = limits.maxComputeWorkgroupSizeX;
  caps.max_workgroups = limits.maxComputeWorkgroupsPerDimension;
  caps.storage_align = limits.minStorageBufferOffsetAlignment;
  caps.uniform_align = limits.minUniformBufferOffsetAlignment;
  if (caps.immediate_bytes) caps.immediate_bytes = std::min<uint32_t>(limits.maxImmediateSize, 256);
}

/// wgpu-native v29 leaves the sizes out: then what the vendors' GPUs have, and what WebGPU allows of any other's. The probe below
/// sees whether it is so.
void set_subgroup_sizes(const WGPUAdapterInfo& info, Caps& caps) {
  constexpr struct { uint32_t vendor, min, max; } kVendors[] = {{0x10de, 32, 32}, {0x1002, 32, 64}, {0x106b, 32, 32}, {0x8086, 8, 32}};
  caps.subgroup_min = info.subgroupMinSize, caps.subgroup_max = info.subgroupMaxSize;
  if (caps.subgroup_min) return;
  caps.subgroup_min = 4, caps.subgroup_max = 128;
  for (const auto& v : kVendors)
    if (v.vendor == info.vendorID) caps.subgroup_min = v.min, caps.subgroup_max = v.max;
}

WGPUDevice request_device(const Procs& procs, WGPUInstance instance, WGPUAdapter adapter, DeviceState& state,
                          const std::vector<WGPUFeatureName>& features, bool baseline, std::string& message) {
  WGPULimits limits{};
  procs.AdapterGetLimits(adapter, &limits);
  limits.nextInChain = nullptr;
  WGPUDeviceDescriptor desc{};
  desc.label = view("gull");
  desc.requiredFeatureCount = features.size();
  desc.requiredFeatures = features.data();
  desc.requiredLimits = baseline ? nullptr : &limits;
  desc.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowProcessEvents;
  desc.deviceLostCallbackInfo.userdata1 = &state;
  desc.deviceLostCallbackInfo.callback = [](const WGPUDevice*, WGPUDeviceLostReason reason, WGPUStringView why, void* user, void*) {
    if (reason == WGPUDeviceLostReason_CallbackCancelled) return;
    auto* lost = static_cast<DeviceState*>(user);
    if (lost->lost.exchange(true)) return;
    lost->report(fmt::format("the GPU device was lost ({}): load the model again", one_line(text(why))));
  };
  desc.uncapturedErrorCallbackInfo.userdata1 = &state;
  desc.uncapturedErrorCallbackInfo.callback = [](const WGPUDevice*, WGPUErrorType, WGPUStringView why, void* user, void*) {
    static_cast<DeviceState*>(user)->report("the GPU reported an error: " + one_line(text(why)));
  };
  DeviceAnswer answer;
  WGPURequestDeviceCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &answer;
  callback.callback = [](WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView why, void* user, void*) {
    auto* out = static_cast<DeviceAnswer*>(user);
    if (status == WGPURequestDeviceStatus_Success) out->device = device;
    out->message = text(why);
    out->done = true;
  };
  procs.AdapterRequestDevice(adapter, &desc, callback);
  while (!answer.done) {
    if (procs.ext.suspend) procs.ext.suspend(instance);
    procs.InstanceProcessEvents(instance);
  }
  message = answer.message;
  return answer.device;
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(const DeviceOptions& options) {
  auto list = find_adapters(options);
  if (!list) return fail(list.error());
  if (list->chosen < 0)
    return fail(ErrorKind::NotFound,
                "no WebGPU adapter found: install your GPU's Vulkan driver, or Debian's packages libvulkan1 and "
                "mesa-vulkan-drivers to run on the CPU");
  const Procs& procs = *list->procs;
  const Adapter& adapter = list->adapters[list->chosen];
  auto device = std::shared_ptr<Device>(new Device());
  device->options_ = options;
  device->info_ = adapter.info;
  device->state_ = std::make_shared<DeviceState>();
  DeviceState& state = *device->state_;
  state.procs = list->procs;
  Caps& caps = device->caps_;
  const auto features = wanted_features(procs, adapter.handle, options, caps);
  std::string message;
  state.device = request_device(procs, list->instance, adapter.handle, state, features, options.baseline_limits, message);
  if (!state.device) return fail_f(ErrorKind::Device, "{} could not be opened: {}", adapter.info.name, one_line(message));
  state.instance = std::exchange(list->instance, nullptr);
  let_go_at_exit(device->state_);
  state.queue = procs.DeviceGetQueue(state.device);
  read_limits(procs, state.device, caps);
  caps.naga = procs.ext.naga;
  caps.trusted = procs.ext.create_trusted_module && !options.checked_shaders;
  caps.software = adapter.info.type == "software";
  // naga has it everywhere. Chromium's software adapter has it too, but takes three times as long with it as with floats.
  constexpr auto packed = WGPUWGSLLanguageFeatureName_Packed4x8IntegerDotProduct;
  caps.packed_dot = caps.naga || (!caps.software && procs.InstanceHasWGSLLanguageFeature(state.instance, packed));
  WGPUAdapterInfo raw{};
  procs.AdapterGetInfo(adapter.handle, &raw);
  set_subgroup_sizes(raw, caps);
  procs.AdapterInfoFreeMembers(raw);
  if (caps.subgroups) {
    auto linear = device->probe_subgroups();
    if (!linear) return fail(linear.error());
    caps.linear_subgroups = *linear;
  }
  caps.chains = caps.naga && device->info_.backend == "Vulkan" && device->info_.name.starts_with("NVIDIA") && caps.linear_subgroups;
  return device;
}

// WGSL does not say which invocations share a subgroup, though every known driver takes runs of a 1-D workgroup in
// order. Kernels that reduce parts of a subgroup rely on it, so it is looked at once.
Result<bool> Device::probe_subgroups() {
  PipelineDesc desc{"subgroup probe", caps_.naga ? "" : "enable subgroups;\n", {BindingKind::Storage}};
  desc.wgsl += R"(
@group(0) @binding(0) var<storage, read_write> lanes: array<vec2<u32>>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32) {
  lanes[t] = vec2<u32>(lane, size);
}
)";
  auto pipeline = create_pipeline(desc);
  if (!pipeline) return fail(pipeline.error());
  auto buffer = create_buffer(2048, kStorage | kCopySrc, Memory::Staging, "subgroup probe");
  if (!buffer) return fail(buffer.error());
  auto group = create_bind_group(**pipeline, std::vector<Binding>{{*buffer}});
  if (!group) return fail(group.error());
  auto commands = begin();
  if (!commands) return fail(commands.error());
  commands->dispatch(**pipeline, **group, {1, 1, 1});
  if (auto ok = submit(std::move(*commands)); !ok) return fail(ok.error());
  std::vector<uint32_t> lanes(512);
  if (auto ok = read(**buffer, 0, std::span<uint32_t>(lanes)); !ok) return fail(ok.error());
  bool linear = true;
  for (uint32_t t = 0; t < 256; ++t) linear = linear && lanes[2 * t + 1] >= caps_.subgroup_min && lanes[2 * t + 1] <= caps_.subgroup_max && lanes[2 * t] == t % lanes[2 * t + 1];
  return linear;
}

Device::~Device() {
  if (state_ && state_->device) state_->pump(true);
}

Ledger& Device::ledger() { return state_->ledger; }
Result<void> Device::healthy() const { return state_->healthy(); }

void Device::destroy() {
  state_->report("the GPU device was closed: load the model again");
  state_->lost = true;
  state_->procs->DeviceDestroy(state_->device);
}

Result<void> Device::wait(Submission submission) {
  if (auto ok = healthy(); !ok) return ok;
  if (state_->procs->ext.poll) {
    state_->pump(true, &submission.index);
    return healthy();
  }
  return wait_idle();
}

Result<void> Device::wait_idle() {
  if (auto ok = healthy(); !ok) return ok;
  bool done = false;
  WGPUQueueWorkDoneCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &done;
  callback.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void* user, void*) { *static_cast<bool*>(user) = true; };
  state_->procs->QueueOnSubmittedWorkDone(state_->queue, callback);
  while (!done) state_->pump(true);
  return healthy();
}

Result<Submission> Device::submit(Commands commands) {
  commands.close_pass();
  if (!commands.problem_.empty()) return fail(ErrorKind::Internal, commands.problem_);
  WGPUCommandBuffer buffer = nullptr;
  const auto finish = [&] { buffer = state_->procs->CommandEncoderFinish(commands.encoder_, nullptr); };
  // Where a bad command buffer would end the process, it is looked at first; elsewhere it raises an error that is caught later.
  if (state_->procs->ext.aborts_on_bad_submit) {
    if (auto ok = checked(*state_, "encoding GPU commands", finish); !ok) {
      if (buffer) state_->procs->CommandBufferRelease(buffer);
      return fail(ok.error());
    }
  } else {
    if (auto ok = healthy(); !ok) return fail(ok.error());
    finish();
  }
  Submission submission;
  if (state_->procs->ext.submit) submission.index = state_->procs->ext.submit(state_->queue, 1, &buffer);
  else state_->procs->QueueSubmit(state_->queue, 1, &buffer);
  state_->procs->CommandBufferRelease(buffer);
  ++submissions_;
  return submission;
}

}  // namespace gull::gpu
