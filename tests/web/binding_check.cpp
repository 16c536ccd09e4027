// A program that uses webgpu.h as src/gpu does, to prove the browser's binding alone. Each export is one check: it returns
// 0, or the number of the line that failed, and prints what it saw as "name: value" lines.
#include <webgpu.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/procs.h"

namespace {

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))
#define CHECK(condition) do { if (!(condition)) return __LINE__; } while (false)

const gull::gpu::Procs& wgpu() { return gull::gpu::linked_procs(); }
WGPUStringView view(const char* text) { return {text, std::strlen(text)}; }
std::string text(WGPUStringView v) { return v.data ? std::string(v.data, v.length) : std::string(); }

WGPUInstance instance;
WGPUAdapter adapter;
WGPUDevice device;
WGPUQueue queue;
bool lost = false;
std::string lost_message, uncaptured_message;

template <class Done>
void wait_for(Done done) {
  while (!done()) wgpu().ext.suspend(instance);
}

// The error that a scope caught, "" for none.
std::string pop_scope() {
  struct Result { bool done = false; std::string message; } result;
  WGPUPopErrorScopeCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = [](WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void* user, void*) {
    auto* r = static_cast<Result*>(user);
    r->done = true;
    if (status != WGPUPopErrorScopeStatus_Success) r->message = "no scope: " + text(message);
    else if (type != WGPUErrorType_NoError) r->message = text(message);
  };
  info.userdata1 = &result;
  wgpuDevicePopErrorScope(device, info);
  wait_for([&] { return result.done; });
  return result.message;
}

WGPUBuffer make_buffer(uint64_t size, WGPUBufferUsage usage, bool mapped = false) {
  WGPUBufferDescriptor desc{};
  desc.label = view("check");
  desc.size = size;
  desc.usage = usage;
  desc.mappedAtCreation = mapped;
  return wgpuDeviceCreateBuffer(device, &desc);
}

WGPUShaderModule make_module(const char* wgsl) {
  WGPUShaderSourceWGSL source{};
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = view(wgsl);
  WGPUShaderModuleDescriptor desc{};
  desc.nextInChain = &source.chain;
  return wgpuDeviceCreateShaderModule(device, &desc);
}

WGPUMapAsyncStatus map(WGPUBuffer buffer, size_t size) {
  struct Result { bool done = false; WGPUMapAsyncStatus status{}; } result;
  WGPUBufferMapCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = [](WGPUMapAsyncStatus status, WGPUStringView, void* user, void*) { *static_cast<Result*>(user) = {true, status}; };
  info.userdata1 = &result;
  wgpuBufferMapAsync(buffer, WGPUMapMode_Read, 0, size, info);
  wait_for([&] { return result.done; });
  return result.status;
}

// out[i] = params.scale * x[i] + y[i], four groups of 64 threads a step, the start by a dynamic offset.
constexpr const char* kSaxpy = R"(
struct Params { first: u32, scale: f32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = params.first + id.x;
  if (i < arrayLength(&out)) { out[i] = params.scale * x[i] + y[i]; }
})";

}  // namespace

EXPORT(open_device) int open_device() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  instance = wgpuCreateInstance(nullptr);
  struct Opened { bool done = false; std::string message; } opened;
  WGPURequestAdapterCallbackInfo ask{};
  ask.mode = WGPUCallbackMode_AllowProcessEvents;
  ask.callback = [](WGPURequestAdapterStatus, WGPUAdapter found, WGPUStringView message, void* user, void*) {
    adapter = found;
    *static_cast<Opened*>(user) = {true, text(message)};
  };
  ask.userdata1 = &opened;
  WGPURequestAdapterOptions options{};
  options.powerPreference = WGPUPowerPreference_HighPerformance;
  wgpuInstanceRequestAdapter(instance, &options, ask);
  wait_for([&] { return opened.done; });
  CHECK(adapter);

  WGPUAdapterInfo info{};
  CHECK(wgpuAdapterGetInfo(adapter, &info) == WGPUStatus_Success);
  std::printf("vendor: %s\n", text(info.vendor).c_str());
  wgpuAdapterInfoFreeMembers(info);
  WGPULimits limits{};
  CHECK(wgpuAdapterGetLimits(adapter, &limits) == WGPUStatus_Success);
  std::printf("maxBufferSize: %llu\n", static_cast<unsigned long long>(limits.maxBufferSize));
  std::printf("maxStorageBuffersPerShaderStage: %u\n", limits.maxStorageBuffersPerShaderStage);
  std::printf("maxImmediateSize: %d\n", static_cast<int>(limits.maxImmediateSize));
  std::printf("shader-f16: %u\n", wgpuAdapterHasFeature(adapter, WGPUFeatureName_ShaderF16));
  std::printf("timestamp-query: %u\n", wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery));
  std::printf("subgroups: %u\n", wgpuAdapterHasFeature(adapter, WGPUFeatureName_Subgroups));

  std::vector<WGPUFeatureName> features;
  if (wgpuAdapterHasFeature(adapter, WGPUFeatureName_TimestampQuery)) features.push_back(WGPUFeatureName_TimestampQuery);
  WGPUDeviceDescriptor desc{};
  desc.label = view("binding check");
  desc.requiredFeatureCount = features.size();
  desc.requiredFeatures = features.data();
  desc.requiredLimits = &limits;
  desc.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  desc.deviceLostCallbackInfo.callback = [](WGPUDevice const*, WGPUDeviceLostReason reason, WGPUStringView message, void*, void*) {
    lost = reason == WGPUDeviceLostReason_Destroyed;
    lost_message = text(message);
  };
  desc.uncapturedErrorCallbackInfo.callback = [](WGPUDevice const*, WGPUErrorType, WGPUStringView message, void*, void*) {
    uncaptured_message = text(message);
  };
  opened.done = false;
  WGPURequestDeviceCallbackInfo open{};
  open.mode = WGPUCallbackMode_AllowProcessEvents;
  open.callback = [](WGPURequestDeviceStatus, WGPUDevice found, WGPUStringView message, void* user, void*) {
    device = found;
    *static_cast<Opened*>(user) = {true, text(message)};
  };
  open.userdata1 = &opened;
  wgpuAdapterRequestDevice(adapter, &desc, open);
  wait_for([&] { return opened.done; });
  if (!device) std::printf("device: %s\n", opened.message.c_str());
  CHECK(device);
  WGPULimits granted{};
  CHECK(wgpuDeviceGetLimits(device, &granted) == WGPUStatus_Success);
  CHECK(granted.maxBufferSize == limits.maxBufferSize);
  CHECK(wgpuDeviceHasFeature(device, WGPUFeatureName_TimestampQuery) == (features.empty() ? 0u : 1u));
  queue = wgpuDeviceGetQueue(device);
  return 0;
}

// Explicit layouts, dynamic offsets, mapped creation, replay of a list in one call, timestamps, read-back.
EXPORT(saxpy) int saxpy(uint32_t n) {
  wgpuDevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUBindGroupLayoutEntry entries[4]{};
  for (uint32_t i = 0; i < 4; ++i) {
    entries[i].binding = i;
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = i < 2 ? WGPUBufferBindingType_ReadOnlyStorage : i == 2 ? WGPUBufferBindingType_Storage : WGPUBufferBindingType_Uniform;
  }
  entries[3].buffer.hasDynamicOffset = true;
  entries[3].buffer.minBindingSize = 16;
  WGPUBindGroupLayoutDescriptor layout_desc{};
  layout_desc.entryCount = 4;
  layout_desc.entries = entries;
  WGPUBindGroupLayout layout = wgpuDeviceCreateBindGroupLayout(device, &layout_desc);
  WGPUPipelineLayoutDescriptor pipeline_layout_desc{};
  pipeline_layout_desc.bindGroupLayoutCount = 1;
  pipeline_layout_desc.bindGroupLayouts = &layout;
  WGPUPipelineLayout pipeline_layout = wgpuDeviceCreatePipelineLayout(device, &pipeline_layout_desc);
  WGPUShaderModule module = make_module(kSaxpy);
  WGPUComputePipelineDescriptor pipeline_desc{};
  pipeline_desc.layout = pipeline_layout;
  pipeline_desc.compute.module = module;
  pipeline_desc.compute.entryPoint = view("main");
  WGPUComputePipeline pipeline = wgpuDeviceCreateComputePipeline(device, &pipeline_desc);

  const uint64_t bytes = n * sizeof(float);
  WGPUBuffer x = make_buffer(bytes, WGPUBufferUsage_Storage, true);
  auto* mapped = static_cast<float*>(wgpuBufferGetMappedRange(x, 0, bytes));
  CHECK(mapped);
  for (uint32_t i = 0; i < n; ++i) mapped[i] = static_cast<float>(i);
  wgpuBufferUnmap(x);
  WGPUBuffer y = make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst);
  std::vector<float> values(n);
  for (uint32_t i = 0; i < n; ++i) values[i] = 0.5f * static_cast<float>(i % 7);
  wgpuQueueWriteBuffer(queue, y, 0, values.data(), bytes);
  WGPUBuffer out = make_buffer(bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc);
  WGPUBuffer back = make_buffer(bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
  // Two halves, each with its own parameters at its own dynamic offset.
  WGPUBuffer params = make_buffer(512, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst);
  struct Params { uint32_t first; float scale; uint32_t pad[2]; };
  const uint32_t half = n / 2;
  const Params halves[2] = {{0, 2.0f, {}}, {half, 3.0f, {}}};
  wgpuQueueWriteBuffer(queue, params, 0, &halves[0], sizeof(Params));
  wgpuQueueWriteBuffer(queue, params, 256, &halves[1], sizeof(Params));
  WGPUBindGroupEntry bindings[4]{};
  WGPUBuffer buffers[4] = {x, y, out, params};
  for (uint32_t i = 0; i < 4; ++i) {
    bindings[i].binding = i;
    bindings[i].buffer = buffers[i];
    bindings[i].size = i == 3 ? 16 : WGPU_WHOLE_SIZE;
  }
  WGPUBindGroupDescriptor group_desc{};
  group_desc.layout = layout;
  group_desc.entryCount = 4;
  group_desc.entries = bindings;
  WGPUBindGroup group = wgpuDeviceCreateBindGroup(device, &group_desc);

  const bool timed = wgpuDeviceHasFeature(device, WGPUFeatureName_TimestampQuery);
  WGPUQuerySet queries = nullptr;
  WGPUBuffer resolved = nullptr;
  WGPUPassTimestampWrites stamps{};
  WGPUComputePassDescriptor pass_desc{};
  if (timed) {
    WGPUQuerySetDescriptor query_desc{};
    query_desc.type = WGPUQueryType_Timestamp;
    query_desc.count = 2;
    queries = wgpuDeviceCreateQuerySet(device, &query_desc);
    resolved = make_buffer(16, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc);
    stamps.querySet = queries;
    stamps.endOfPassWriteIndex = 1;
    pass_desc.timestampWrites = &stamps;
  }
  WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device, nullptr);
  WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, &pass_desc);
  const uint32_t groups = (half + 63) / 64;
  const gull::gpu::ReplayStep steps[2] = {{pipeline, group, groups, 1, 1, 0, 1}, {pipeline, group, (n - half + 63) / 64, 1, 1, 256, 1}};
  wgpu().ext.replay(pass, steps, 2);
  wgpuComputePassEncoderEnd(pass);
  wgpuComputePassEncoderRelease(pass);
  wgpuCommandEncoderCopyBufferToBuffer(encoder, out, 0, back, 0, bytes);
  if (timed) wgpuCommandEncoderResolveQuerySet(encoder, queries, 0, 2, resolved, 0);
  WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, nullptr);
  wgpuCommandEncoderRelease(encoder);
  wgpuQueueSubmit(queue, 1, &commands);
  wgpuCommandBufferRelease(commands);
  const std::string error = pop_scope();
  if (!error.empty()) std::printf("error: %s\n", error.c_str());
  CHECK(error.empty());
  CHECK(map(back, bytes) == WGPUMapAsyncStatus_Success);
  const auto* got = static_cast<const float*>(wgpuBufferGetConstMappedRange(back, 0, bytes));
  CHECK(got);
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < n; ++i) wrong += got[i] != (i < half ? 2.0f : 3.0f) * static_cast<float>(i) + values[i];
  wgpuBufferUnmap(back);
  for (WGPUBuffer b : {x, y, out, back, params, resolved}) if (b) { wgpuBufferDestroy(b); wgpuBufferRelease(b); }
  if (queries) wgpuQuerySetRelease(queries);
  wgpuBindGroupRelease(group);
  wgpuBindGroupLayoutRelease(layout);
  wgpuPipelineLayoutRelease(pipeline_layout);
  wgpuComputePipelineRelease(pipeline);
  wgpuShaderModuleRelease(module);
  std::printf("wrong: %u\n", wrong);
  return 0;
}

// Parameters without a buffer, where the browser has them: prints what the shader read.
EXPORT(immediates) int immediates() {
  const auto set = wgpu().ext.set_immediates;
  std::printf("has immediates: %d\n", set != nullptr);
  if (!set) return 0;
  wgpuDevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUShaderModule module = make_module(R"(requires immediate_address_space;
    struct P { a: u32, b: u32 }
    var<immediate> p: P;
    @group(0) @binding(0) var<storage, read_write> out: array<u32>;
    @compute @workgroup_size(1) fn main() { out[0] = p.a; out[1] = p.b; })");
  WGPUBindGroupLayoutEntry entry{};
  entry.visibility = WGPUShaderStage_Compute;
  entry.buffer.type = WGPUBufferBindingType_Storage;
  WGPUBindGroupLayoutDescriptor layout_desc{};
  layout_desc.entryCount = 1;
  layout_desc.entries = &entry;
  WGPUBindGroupLayout layout = wgpuDeviceCreateBindGroupLayout(device, &layout_desc);
  WGPUPipelineLayoutDescriptor pipeline_layout_desc{};
  pipeline_layout_desc.bindGroupLayoutCount = 1;
  pipeline_layout_desc.bindGroupLayouts = &layout;
  pipeline_layout_desc.immediateSize = 8;
  WGPUPipelineLayout pipeline_layout = wgpuDeviceCreatePipelineLayout(device, &pipeline_layout_desc);
  WGPUComputePipelineDescriptor pipeline_desc{};
  pipeline_desc.layout = pipeline_layout;
  pipeline_desc.compute.module = module;
  pipeline_desc.compute.entryPoint = view("main");
  WGPUComputePipeline pipeline = wgpuDeviceCreateComputePipeline(device, &pipeline_desc);
  WGPUBuffer out = make_buffer(8, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc);
  WGPUBuffer back = make_buffer(8, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
  WGPUBindGroupEntry binding{};
  binding.buffer = out;
  binding.size = WGPU_WHOLE_SIZE;
  WGPUBindGroupDescriptor group_desc{};
  group_desc.layout = layout;
  group_desc.entryCount = 1;
  group_desc.entries = &binding;
  WGPUBindGroup group = wgpuDeviceCreateBindGroup(device, &group_desc);
  WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device, nullptr);
  WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, nullptr);
  wgpuComputePassEncoderSetPipeline(pass, pipeline);
  wgpuComputePassEncoderSetBindGroup(pass, 0, group, 0, nullptr);
  const uint32_t values[2] = {0x12345678u, 42u};
  set(pass, 0, values, sizeof values);
  wgpuComputePassEncoderDispatchWorkgroups(pass, 1, 1, 1);
  wgpuComputePassEncoderEnd(pass);
  wgpuComputePassEncoderRelease(pass);
  wgpuCommandEncoderCopyBufferToBuffer(encoder, out, 0, back, 0, 8);
  WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, nullptr);
  wgpuCommandEncoderRelease(encoder);
  wgpuQueueSubmit(queue, 1, &commands);
  wgpuCommandBufferRelease(commands);
  const std::string error = pop_scope();
  if (!error.empty()) std::printf("error: %s\n", error.c_str());
  CHECK(error.empty());
  CHECK(map(back, 8) == WGPUMapAsyncStatus_Success);
  const auto* got = static_cast<const uint32_t*>(wgpuBufferGetConstMappedRange(back, 0, 8));
  CHECK(got && got[0] == values[0] && got[1] == values[1]);
  wgpuBufferUnmap(back);
  wgpuBufferRelease(out);
  wgpuBufferRelease(back);
  wgpuBindGroupRelease(group);
  wgpuBindGroupLayoutRelease(layout);
  wgpuPipelineLayoutRelease(pipeline_layout);
  wgpuComputePipelineRelease(pipeline);
  wgpuShaderModuleRelease(module);
  return 0;
}

// What goes wrong arrives as a message in the scope, not as an exception.
EXPORT(errors) int errors() {
  wgpuDevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUShaderModule module = make_module("@compute @workgroup_size(1) fn main() { let a = undeclared_name; }");
  std::printf("shader: %s\n", pop_scope().c_str());
  if (module) wgpuShaderModuleRelease(module);

  wgpuDevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUBuffer bad = make_buffer(16, WGPUBufferUsage_MapRead | WGPUBufferUsage_Storage);
  std::printf("usage: %s\n", pop_scope().c_str());
  if (bad) wgpuBufferRelease(bad);

  // A range that is not mapped throws in JavaScript.
  wgpuDevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUBuffer plain = make_buffer(16, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst);
  CHECK(wgpuBufferGetMappedRange(plain, 0, 16) == nullptr);
  std::printf("range: %s\n", pop_scope().c_str());

  CHECK(pop_scope().starts_with("no scope"));
  // Without a scope the device's own callback hears of it.
  const uint32_t word = 1;
  wgpuQueueWriteBuffer(queue, plain, 14, &word, 4);
  wait_for([] { return !uncaptured_message.empty(); });
  std::printf("uncaptured: %s\n", uncaptured_message.c_str());
  wgpuBufferRelease(plain);
  return 0;
}

// The same wait by wgpuInstanceWaitAny, and its time limit.
EXPORT(wait_any) int wait_any() {
  bool done = false;
  WGPUQueueWorkDoneCallbackInfo info{};
  info.mode = WGPUCallbackMode_WaitAnyOnly;
  info.callback = [](WGPUQueueWorkDoneStatus, WGPUStringView, void* user, void*) { *static_cast<bool*>(user) = true; };
  info.userdata1 = &done;
  WGPUFutureWaitInfo wait{};
  wait.future = wgpuQueueOnSubmittedWorkDone(queue, info);
  CHECK(wgpuInstanceWaitAny(instance, 1, &wait, UINT64_MAX) == WGPUWaitStatus_Success);
  CHECK(wait.completed && done);
  WGPUFutureWaitInfo never{};
  never.future = wgpuDeviceGetLostFuture(device);
  CHECK(wgpuInstanceWaitAny(instance, 1, &never, 1000000) == WGPUWaitStatus_TimedOut);
  return 0;
}

// Destroys the device in the middle of a wait: everything that waits is answered.
EXPORT(lose_device) int lose_device() {
  WGPUBuffer back = make_buffer(16, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
  wgpuDeviceDestroy(device);
  CHECK(map(back, 16) != WGPUMapAsyncStatus_Success);
  wait_for([] { return lost; });
  std::printf("lost: %s\n", lost_message.c_str());
  wgpuBufferRelease(back);
  wgpuQueueRelease(queue);
  wgpuDeviceRelease(device);
  wgpuAdapterRelease(adapter);
  wgpuInstanceRelease(instance);
  return 0;
}
