// Buffers that were freed, kept by size class for the next allocation.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "base/mutex.h"
#include "gpu/device.h"

namespace gull::dispatch {

struct PoolStats {
  uint64_t created = 0, reused = 0;     ///< allocations served by the device, and by the pool
  uint64_t idle_buffers = 0, idle_bytes = 0;
  uint64_t trimmed_bytes = 0;           ///< given back to the device so far
};

/// Thread-safe. A buffer that comes back may still be in use by work that was submitted: whoever takes it next writes
/// to it through the same queue, and so behind that work. Contents are unspecified.
class BufferPool {
 public:
  /// `max_idle` bytes at most are kept; the longest idle goes first.
  BufferPool(std::shared_ptr<gpu::Device> device, gpu::Memory kind, uint64_t max_idle);

  /// At least `bytes` bytes of storage, of the size class. Errors: larger than the device allows, out of memory.
  Result<gpu::BufferRef> take(uint64_t bytes);
  void give(gpu::BufferRef buffer);
  /// Gives idle buffers back to the device until at most `keep` bytes are left; returns how many bytes went.
  uint64_t trim(uint64_t keep = 0);
  PoolStats stats() const;

  /// Four classes an octave from 256 bytes up, so at most a quarter is wasted; exact multiples of 256 from 64 MiB up.
  static uint64_t size_class(uint64_t bytes);

 private:
  std::shared_ptr<gpu::Device> device_;
  const gpu::Memory kind_;
  const uint64_t max_idle_;
  mutable Mutex mutex_;
  std::list<gpu::BufferRef> idle_;   ///< longest idle first
  PoolStats stats_;
};

}  // namespace gull::dispatch
