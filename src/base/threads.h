// What threads wait with, beside the mutex; nothing where there are no threads (WebAssembly without them).
#pragma once

#include "base/mutex.h"

#if defined(__wasm__)
namespace gull {
constexpr bool kThreads = false;
/// Never waited for: without threads nobody else could end the wait.
struct Condition {
  void wait(Lock&) {}
  void notify_all() {}
};
struct SharedMutex {};
struct SharedLock {
  explicit SharedLock(SharedMutex&) {}
};
struct ExclusiveLock {
  explicit ExclusiveLock(SharedMutex&) {}
};
}  // namespace gull
#else
#include <condition_variable>
#include <shared_mutex>
namespace gull {
constexpr bool kThreads = true;
using Condition = std::condition_variable;
using SharedMutex = std::shared_mutex;
using SharedLock = std::shared_lock<std::shared_mutex>;
using ExclusiveLock = std::unique_lock<std::shared_mutex>;
}  // namespace gull
#endif
