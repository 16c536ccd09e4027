#include "dispatch/buffer_pool.h"

#include <algorithm>
#include <bit>

#include "base/log.h"

namespace gull::dispatch {
namespace {

constexpr uint64_t kExactFrom = uint64_t{64} << 20;

}  // namespace

BufferPool::BufferPool(std::shared_ptr<gpu::Device> device, gpu::Memory kind, uint64_t max_idle)
    : device_(std::move(device)), kind_(kind), max_idle_(max_idle) {}

uint64_t BufferPool::size_class(uint64_t bytes) {
  const uint64_t step = bytes <= 1024 || bytes >= kExactFrom ? 256 : std::bit_floor(bytes - 1) / 4;
  return std::max<uint64_t>((bytes + step - 1) / step * step, 256);
}

Result<gpu::BufferRef> BufferPool::take(uint64_t bytes) {
  const gpu::Caps& caps = device_->caps();
  if (bytes > caps.max_buffer)
    return fail_f(ErrorKind::OutOfMemory, "{} is more than one buffer of this device can hold ({}): split the tensor", human_bytes(bytes),
                  human_bytes(caps.max_buffer));
  // The class may be more than the device allows where the size itself is not.
  const uint64_t size = size_class(bytes) <= caps.max_buffer ? size_class(bytes) : (bytes + 15) & ~uint64_t{15};
  {
    Lock lock(mutex_);
    // The most recently freed one: it is the most likely to be in the GPU's cache still.
    const auto last = std::find_if(idle_.rbegin(), idle_.rend(), [size](const gpu::BufferRef& b) { return b->size() == size; });
    if (last != idle_.rend()) {
      gpu::BufferRef buffer = std::move(*last);
      idle_.erase(std::next(last).base());
      stats_.idle_bytes -= size;
      ++stats_.reused;
      return buffer;
    }
    ++stats_.created;
  }
  return device_->create_buffer(size, gpu::kStorage | gpu::kCopySrc | gpu::kCopyDst, kind_, "tensor");
}

void BufferPool::give(gpu::BufferRef buffer) {
  if (!buffer) return;
  {
    Lock lock(mutex_);
    stats_.idle_bytes += buffer->size();
    idle_.push_back(std::move(buffer));
  }
  trim(max_idle_);
}

uint64_t BufferPool::trim(uint64_t keep) {
  std::list<gpu::BufferRef> gone;   // released after the lock
  uint64_t bytes = 0;
  {
    Lock lock(mutex_);
    while (stats_.idle_bytes > keep && !idle_.empty()) {
      bytes += idle_.front()->size();
      stats_.idle_bytes -= idle_.front()->size();
      gone.splice(gone.end(), idle_, idle_.begin());
    }
    stats_.trimmed_bytes += bytes;
  }
  return bytes;
}

PoolStats BufferPool::stats() const {
  Lock lock(mutex_);
  PoolStats stats = stats_;
  stats.idle_buffers = idle_.size();
  return stats;
}

}  // namespace gull::dispatch
