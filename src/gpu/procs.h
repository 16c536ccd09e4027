// The WebGPU functions that gull calls, as a table: filled from the linked library, from another one at run time, or by
// a test that injects faults. Only src/gpu includes this file and webgpu.h.
#pragma once

#include <webgpu.h>

#include <string>

#include "gull/error.h"

namespace gull::gpu {

// One line a function keeps the table, its filling and the dynamic loading in step; that is why this is a macro.
#define GULL_WEBGPU_PROCS(X)                                                                                        \
  X(CreateInstance) X(InstanceRequestAdapter) X(InstanceProcessEvents) X(InstanceRelease)                            \
  X(InstanceHasWGSLLanguageFeature)                                                                                  \
  X(AdapterGetInfo) X(AdapterGetLimits) X(AdapterHasFeature) X(AdapterRequestDevice) X(AdapterRelease)               \
  X(AdapterInfoFreeMembers)                                                                                          \
  X(DeviceGetQueue) X(DeviceGetLimits) X(DevicePushErrorScope) X(DevicePopErrorScope) X(DeviceRelease)               \
  X(DeviceDestroy) X(DeviceCreateBuffer) X(DeviceCreateShaderModule) X(DeviceCreateBindGroupLayout)                  \
  X(DeviceCreatePipelineLayout) X(DeviceCreateComputePipeline) X(DeviceCreateBindGroup)                              \
  X(DeviceCreateCommandEncoder) X(DeviceCreateQuerySet)                                                              \
  X(BufferMapAsync) X(BufferGetConstMappedRange) X(BufferGetMappedRange) X(BufferUnmap) X(BufferDestroy)             \
  X(BufferRelease) X(ShaderModuleRelease) X(BindGroupLayoutRelease) X(PipelineLayoutRelease)                         \
  X(ComputePipelineRelease) X(BindGroupRelease) X(CommandEncoderBeginComputePass)                                    \
  X(CommandEncoderCopyBufferToBuffer) X(CommandEncoderResolveQuerySet) X(CommandEncoderFinish)                       \
  X(CommandEncoderRelease) X(CommandBufferRelease) X(ComputePassEncoderSetPipeline)                                  \
  X(ComputePassEncoderSetBindGroup) X(ComputePassEncoderDispatchWorkgroups) X(ComputePassEncoderEnd)                 \
  X(ComputePassEncoderRelease) X(QueueSubmit) X(QueueWriteBuffer) X(QueueOnSubmittedWorkDone) X(QueueRelease)        \
  X(QuerySetRelease)

/// One dispatch of a recorded list, laid out so that a browser can replay a whole list in one call.
struct ReplayStep {
  WGPUComputePipeline pipeline;
  WGPUBindGroup group;
  uint32_t x, y, z;
  uint32_t dynamic_offset;   ///< used when has_dynamic is 1
  uint32_t has_dynamic;
};

/// What only some implementations have; null where absent. Filled by wgpu_native.cpp, or by the browser binding.
struct Extensions {
  size_t (*enumerate_adapters)(WGPUInstance, WGPUAdapter* out) = nullptr;
  /// Runs callbacks; `wait` blocks until the submission is done (all of them when `submission` is null).
  bool (*poll)(WGPUDevice, bool wait, const uint64_t* submission) = nullptr;
  uint64_t (*submit)(WGPUQueue, size_t, const WGPUCommandBuffer*) = nullptr;
  WGPUShaderModule (*create_trusted_module)(WGPUDevice, const WGPUShaderModuleDescriptor*) = nullptr;
  void (*set_immediates)(WGPUComputePassEncoder, uint32_t offset, const void*, size_t) = nullptr;
  /// A timestamp between two dispatches of a pass, for devices opened with the feature for it.
  void (*write_timestamp)(WGPUComputePassEncoder, WGPUQuerySet, uint32_t index) = nullptr;
  float (*timestamp_period)(WGPUQueue) = nullptr;   ///< nanoseconds a tick; null: resolved timestamps are nanoseconds
  /// Suspends until at least one pending callback has run (browsers).
  void (*suspend)(WGPUInstance) = nullptr;
  /// Encodes a list in one call (browsers).
  void (*replay)(WGPUComputePassEncoder, const ReplayStep*, size_t) = nullptr;
  bool naga = false;                 ///< the shader dialect: naga's or Tint's
  bool aborts_on_bad_submit = false; ///< an invalid command buffer ends the process
};

struct Procs {
#define GULL_DECLARE(name) decltype(&::wgpu##name) name = nullptr;
  GULL_WEBGPU_PROCS(GULL_DECLARE)
#undef GULL_DECLARE
  Extensions ext;
};

/// The functions of the library that gull is linked with.
const Procs& linked_procs();
/// The functions of the shared library at `path` (native only). It stays loaded.
Result<const Procs*> load_procs(const std::string& path);

/// Fills the extensions of wgpu-native; `symbol` looks a function up by name, null for the linked library.
void fill_wgpu_native(Extensions& ext, void* (*symbol)(void* library, const char* name), void* library);

}  // namespace gull::gpu
