// A mutex that costs nothing where there are no threads (WebAssembly without them).
#pragma once

#if defined(__wasm__)
namespace gull {
struct Mutex {
  void lock() {}
  void unlock() {}
  bool try_lock() { return true; }
};
struct Lock {
  explicit Lock(Mutex&) {}
  void lock() {}
  void unlock() {}
};
}  // namespace gull
#else
#include <mutex>
namespace gull {
using Mutex = std::mutex;
using Lock = std::unique_lock<std::mutex>;
}  // namespace gull
#endif
