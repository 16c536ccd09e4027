// What only the browser binding has (web/lib/webgpu.js): suspending, replay in one call, immediates where they exist.
#include "gpu/procs.h"

#define GULL_IMPORT(name) __attribute__((import_module("env"), import_name(#name)))

extern "C" {
GULL_IMPORT(gull_suspend) void gull_suspend();
GULL_IMPORT(gull_replay) void gull_replay(WGPUComputePassEncoder pass, const gull::gpu::ReplayStep* steps, size_t count);
GULL_IMPORT(gull_has_immediates) int32_t gull_has_immediates();
}

namespace gull::gpu {

// The binding reads the steps as seven 32-bit words each.
static_assert(sizeof(ReplayStep) == 28);

void fill_browser(Extensions& ext) {
  ext.suspend = [](WGPUInstance) { gull_suspend(); };
  ext.replay = [](WGPUComputePassEncoder pass, const ReplayStep* steps, size_t count) { gull_replay(pass, steps, count); };
  if (gull_has_immediates()) ext.set_immediates = &::wgpuComputePassEncoderSetImmediates;
}

}  // namespace gull::gpu
