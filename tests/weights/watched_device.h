// A real device whose WebGPU calls are watched: which bind groups name which buffers, and what the GPU still works on.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/state.h"

namespace gull::test {

/// One at a time: WebGPU's functions carry no user data.
class WatchedDevice {
 public:
  WatchedDevice() {
    auto opened = gpu::Device::open({});
    if (!opened) {
      ADD_FAILURE() << opened.error().message;
      return;
    }
    device = *opened;
    watcher = this;
    real_ = device->state()->procs;
    procs_ = *real_;
    procs_.DeviceCreateBindGroup = [](WGPUDevice d, const WGPUBindGroupDescriptor* desc) {
      const WGPUBindGroup group = watcher->real_->DeviceCreateBindGroup(d, desc);
      std::lock_guard lock(watcher->mutex_);
      for (size_t i = 0; i < desc->entryCount; ++i) watcher->named_[group].insert(desc->entries[i].buffer);
      return group;
    };
    procs_.BindGroupRelease = [](WGPUBindGroup group) {
      {
        std::lock_guard lock(watcher->mutex_);
        watcher->named_.erase(group);
        ++watcher->groups_released;
      }
      watcher->real_->BindGroupRelease(group);
    };
    procs_.BufferDestroy = [](WGPUBuffer buffer) {
      {
        std::lock_guard lock(watcher->mutex_);
        ++watcher->destroyed;
        for (const auto& [group, buffers] : watcher->named_)
          if (buffers.contains(buffer)) watcher->complaint = "a buffer was destroyed that a bind group names";
        if (watcher->busy_) watcher->complaint = "a buffer was destroyed while the GPU may be working";
      }
      watcher->real_->BufferDestroy(buffer);
    };
    // Recycled memory: contents may change only under groups that are made anew.
    procs_.QueueWriteBuffer = [](WGPUQueue queue, WGPUBuffer buffer, uint64_t offset, const void* data, size_t size) {
      if (std::lock_guard lock(watcher->mutex_); watcher->weights_.contains(buffer)) {
        for (const auto& [group, buffers] : watcher->named_)
          if (buffers.contains(buffer)) watcher->complaint = "a weight was written while a bind group named its buffer";
      }
      watcher->real_->QueueWriteBuffer(queue, buffer, offset, data, size);
    };
    procs_.DeviceCreateBuffer = [](WGPUDevice d, const WGPUBufferDescriptor* desc) {
      const WGPUBuffer buffer = watcher->real_->DeviceCreateBuffer(d, desc);
      const std::string label(desc->label.data ? desc->label.data : "", desc->label.data ? desc->label.length : 0);
      std::lock_guard lock(watcher->mutex_);
      if (label.ends_with(".weight")) watcher->weights_.insert(buffer);
      else watcher->weights_.erase(buffer);
      return buffer;
    };
    procs_.ext.submit = [](WGPUQueue queue, size_t n, const WGPUCommandBuffer* buffers) {
      watcher->busy_ = true;
      return watcher->real_->ext.submit(queue, n, buffers);
    };
    procs_.QueueOnSubmittedWorkDone = [](WGPUQueue queue, WGPUQueueWorkDoneCallbackInfo info) {
      ++watcher->idle_waits;
      watcher->busy_ = false;   // who asks waits: nothing is submitted in between in these tests
      return watcher->real_->QueueOnSubmittedWorkDone(queue, info);
    };
    device->state()->procs = &procs_;
  }
  ~WatchedDevice() {
    if (device) device->state()->procs = real_;   // objects may outlive this one
  }

  std::shared_ptr<gpu::Device> device;
  std::string complaint;
  int destroyed = 0, groups_released = 0;
  std::atomic<int> idle_waits = 0;

 private:
  static inline WatchedDevice* watcher = nullptr;
  const gpu::Procs* real_ = nullptr;
  gpu::Procs procs_;
  std::mutex mutex_;
  std::map<WGPUBindGroup, std::set<WGPUBuffer>> named_;
  std::set<WGPUBuffer> weights_;
  std::atomic<bool> busy_ = false;
};

}  // namespace gull::test
