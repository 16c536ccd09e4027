// A device without a GPU: everything is created, counted and never computed.
#include "gpu/commands.h"
#include "gpu/state.h"

namespace gull::gpu {
namespace {

/// A function of the table that does nothing: pointers come back as something that is not null.
template <class F>
struct Nothing;
template <class R, class... A>
struct Nothing<R (*)(A...)> {
  static R call(A...) {
    if constexpr (std::is_pointer_v<R>) return reinterpret_cast<R>(uintptr_t{16});
    else if constexpr (!std::is_void_v<R>) return R{};
  }
};

WGPUFuture pop_error_scope(WGPUDevice, WGPUPopErrorScopeCallbackInfo info) {
  info.callback(WGPUPopErrorScopeStatus_Success, WGPUErrorType_NoError, {}, info.userdata1, info.userdata2);
  return {};
}

WGPUFuture work_done(WGPUQueue, WGPUQueueWorkDoneCallbackInfo info) {
  info.callback(WGPUQueueWorkDoneStatus_Success, {}, info.userdata1, info.userdata2);
  return {};
}

WGPUFuture map_async(WGPUBuffer, WGPUMapMode, size_t, size_t, WGPUBufferMapCallbackInfo info) {
  info.callback(WGPUMapAsyncStatus_Success, {}, info.userdata1, info.userdata2);
  return {};
}

}  // namespace

const Procs& imaginary_procs() {
  static const Procs procs = [] {
    Procs table;
#define GULL_NOTHING(name) table.name = &Nothing<decltype(table.name)>::call;
    GULL_WEBGPU_PROCS(GULL_NOTHING)
#undef GULL_NOTHING
    table.DevicePopErrorScope = pop_error_scope;
    table.QueueOnSubmittedWorkDone = work_done;
    table.BufferMapAsync = map_async;
    table.BufferGetConstMappedRange = [](WGPUBuffer, size_t, size_t) -> const void* { return nullptr; };
    return table;
  }();
  return procs;
}

std::shared_ptr<Device> Device::imaginary(const Caps& caps) {
  auto device = std::shared_ptr<Device>(new Device());
  device->state_ = std::make_shared<DeviceState>();
  device->state_->procs = &imaginary_procs();
  device->caps_ = caps;
  device->caps_.trusted = false;
  device->caps_.immediate_bytes = 0;
  device->info_.name = "no GPU";
  return device;
}

}  // namespace gull::gpu
