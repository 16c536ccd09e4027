// What only wgpu-native has: adapter lists, polling by submission, trusted shader modules, immediates, timestamps within a pass.
#include "gpu/procs.h"

#if defined(GULL_HAS_WGPU_NATIVE)
#include <wgpu.h>

namespace gull::gpu {
namespace {

// The functions in use: one implementation of wgpu-native at a time serves all its users.
struct Native {
  decltype(&::wgpuInstanceEnumerateAdapters) enumerate = nullptr;
  decltype(&::wgpuDevicePoll) poll = nullptr;
  decltype(&::wgpuQueueSubmitForIndex) submit = nullptr;
  decltype(&::wgpuDeviceCreateShaderModuleTrusted) trusted = nullptr;
  decltype(&::wgpuComputePassEncoderSetImmediates) immediates = nullptr;
  decltype(&::wgpuComputePassEncoderWriteTimestamp) timestamp = nullptr;
  decltype(&::wgpuQueueGetTimestampPeriod) period = nullptr;
};
Native linked, loaded;

template <Native* N>
void install(Extensions& ext) {
  ext.enumerate_adapters = [](WGPUInstance instance, WGPUAdapter* out) {
    WGPUInstanceEnumerateAdapterOptions options{};
    options.backends = WGPUInstanceBackend_Primary;
    return N->enumerate(instance, &options, out);
  };
  ext.poll = [](WGPUDevice device, bool wait, const uint64_t* submission) {
    return N->poll(device, wait, submission) != 0;
  };
  ext.submit = [](WGPUQueue queue, size_t count, const WGPUCommandBuffer* buffers) -> uint64_t {
    return N->submit(queue, count, buffers);
  };
  ext.create_trusted_module = [](WGPUDevice device, const WGPUShaderModuleDescriptor* descriptor) {
    return N->trusted(device, descriptor, WGPUShaderRuntimeChecks_None);
  };
  ext.set_immediates = [](WGPUComputePassEncoder pass, uint32_t offset, const void* data, size_t size) {
    N->immediates(pass, offset, data, size);
  };
  ext.write_timestamp = [](WGPUComputePassEncoder pass, WGPUQuerySet queries, uint32_t index) { N->timestamp(pass, queries, index); };
  ext.timestamp_period = [](WGPUQueue queue) { return N->period(queue); };
  ext.naga = true;
  ext.aborts_on_bad_submit = true;
}

}  // namespace

void fill_wgpu_native(Extensions& ext, void* (*symbol)(void*, const char*), void* library) {
  if (!symbol) {
    linked = {&::wgpuInstanceEnumerateAdapters, &::wgpuDevicePoll, &::wgpuQueueSubmitForIndex,
              &::wgpuDeviceCreateShaderModuleTrusted, &::wgpuComputePassEncoderSetImmediates,
              &::wgpuComputePassEncoderWriteTimestamp, &::wgpuQueueGetTimestampPeriod};
    install<&linked>(ext);
    return;
  }
  Native found;
  const auto look = [&](auto& out, const char* name) {
    out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(symbol(library, name));
    return out != nullptr;
  };
  const bool all = look(found.enumerate, "wgpuInstanceEnumerateAdapters") && look(found.poll, "wgpuDevicePoll") &&
                   look(found.submit, "wgpuQueueSubmitForIndex") &&
                   look(found.trusted, "wgpuDeviceCreateShaderModuleTrusted") &&
                   look(found.immediates, "wgpuComputePassEncoderSetImmediates") &&
                   look(found.timestamp, "wgpuComputePassEncoderWriteTimestamp") && look(found.period, "wgpuQueueGetTimestampPeriod");
  if (!all) return;   // another implementation: the standard subset serves
  loaded = found;
  install<&loaded>(ext);
}

}  // namespace gull::gpu
#else
namespace gull::gpu {
void fill_wgpu_native(Extensions&, void* (*)(void*, const char*), void*) {}
}  // namespace gull::gpu
#endif
