// The order of work: operations are recorded into one command encoder and submitted together.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "base/mutex.h"
#include "dispatch/bind_group_cache.h"
#include "dispatch/params.h"
#include "gpu/commands.h"

namespace gull::compute {

/// Records and submits. Everything but `synchronize` wants `mutex()` held, so that a caller can check a handle and use
/// it in one go; the buffer table's lock may be taken under it, the caches' never.
class Stream {
 public:
  /// `max_pending` operations at most stand in one submission.
  static Result<std::unique_ptr<Stream>> create(std::shared_ptr<gpu::Device> device, uint32_t max_pending);

  Mutex& mutex() { return mutex_; }
  const dispatch::ParamRing& ring() const { return *ring_; }

  /// Records one dispatch. `work` estimates its cost in multiply-adds: long ones are submitted at once, so that the GPU
  /// starts, and no submission grows so long that a driver's watchdog ends it.
  Result<void> dispatch(const dispatch::GroupEntry& entry, dispatch::ParamMode mode, std::span<const std::byte> params,
                        gpu::Workgroups n, double work);
  Result<void> copy(const gpu::Buffer& from, uint64_t from_offset, const gpu::Buffer& to, uint64_t to_offset, uint64_t size);
  /// Submits what is recorded. Returns the last submission made.
  Result<gpu::Submission> flush();

  /// Submits and waits. The mutex must not be held.
  Result<void> synchronize();
  uint64_t dispatches() const { return dispatches_; }
  uint64_t param_bytes() const { return param_bytes_; }

 private:
  Result<void> begin();

  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<dispatch::ParamRing> ring_;
  uint32_t max_pending_ = 1;
  Mutex mutex_;
  std::optional<gpu::Commands> commands_;
  uint32_t pending_ = 0;
  double work_ = 0;
  /// The last submissions, the oldest at `submitted_ % size`. It is waited for before the next one: memory of freed
  /// buffers comes back only as submissions end, and the queue must not grow without bound.
  std::array<gpu::Submission, 8> in_flight_;
  uint64_t submitted_ = 0;
  gpu::Submission last_;
  std::atomic<uint64_t> dispatches_{0}, param_bytes_{0};
};

}  // namespace gull::compute
