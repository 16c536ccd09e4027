// Compiled pipelines by key: the first request builds, later ones get the same object.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gpu/device.h"

#if !defined(__wasm__)
#include <condition_variable>
#endif

namespace gull::dispatch {

struct PipelineStats { uint64_t hits = 0, builds = 0, failures = 0, live = 0; };

/// Thread-safe. Two threads that ask for one cold key compile it once; a failed build is reported and not kept.
class PipelineCache {
 public:
  explicit PipelineCache(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  /// The pipeline of `key`; `describe` is called only when it must be built.
  Result<gpu::PipelineRef> get(const std::string& key, const std::function<gpu::PipelineDesc()>& describe);
  PipelineStats stats() const;
  gpu::Device& device() const { return *device_; }
  const std::shared_ptr<gpu::Device>& device_ref() const { return device_; }

 private:
  struct Entry {
    gpu::PipelineRef pipeline;   ///< null while one thread builds it
  };
  std::shared_ptr<gpu::Device> device_;
  mutable Mutex mutex_;
#if !defined(__wasm__)
  std::condition_variable built_;
#endif
  std::map<std::string, Entry> entries_;
  PipelineStats stats_;
};

}  // namespace gull::dispatch
