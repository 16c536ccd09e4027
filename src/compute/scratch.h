// Memory between the two dispatches of one operation. It stays allocated and keeps its handle, so that repeated calls
// find their bind groups in the cache.
#pragma once

#include "base/mutex.h"
#include "gull/compute.h"

namespace gull::compute {

class Scratch {
 public:
  /// Held for all dispatches of the operation: another thread's would come between them and overwrite the contents.
  class Use {
   public:
    explicit Use(Scratch& scratch) : scratch_(scratch), lock_(scratch.mutex_) {}
    Result<Handle> get(ComputeBackend::Impl& impl, uint64_t bytes);

   private:
    Scratch& scratch_;
    Lock lock_;
  };

 private:
  Mutex mutex_;
  Handle handle_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gull::compute
