// What the objects of one device share. Private to src/gpu.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "gpu/device.h"
#include "gpu/procs.h"

namespace gull::gpu {

struct DeviceState {
  const Procs* procs = nullptr;
  WGPUInstance instance = nullptr;
  WGPUDevice device = nullptr;
  WGPUQueue queue = nullptr;
  Ledger ledger;
  std::atomic<uint64_t> next_id{1};
  std::atomic<bool> lost{false};
  mutable Mutex mutex;        ///< guards `problem`
  std::string problem;        ///< why the device was lost, or the first error that nothing caught
  Mutex scope_mutex;          ///< error scopes are a stack of the device: one creation at a time

  ~DeviceState();
  /// Lets callbacks run; with `wait`, blocks until GPU work that is under way has ended.
  void pump(bool wait, const uint64_t* submission = nullptr) const;
  void report(std::string message);
  Result<void> healthy() const;
};

inline WGPUStringView view(std::string_view text) { return {text.data(), text.size()}; }
inline std::string text(WGPUStringView view) {
  if (!view.data) return {};
  return view.length == WGPU_STRLEN ? std::string(view.data) : std::string(view.data, view.length);
}
/// The first lines of a long message of the implementation, in one line.
std::string one_line(std::string message);

/// Runs `make` inside error scopes and returns what went wrong, if anything did.
template <class F>
Result<void> checked(DeviceState& state, std::string_view what, F&& make);

/// Pushes and pops the scopes; used by `checked`.
class ErrorScopes {
 public:
  explicit ErrorScopes(DeviceState& state);
  ~ErrorScopes();
  Result<void> finish(std::string_view what);

 private:
  DeviceState& state_;
  Lock lock_;
  bool open_ = true;
};

template <class F>
Result<void> checked(DeviceState& state, std::string_view what, F&& make) {
  if (auto ok = state.healthy(); !ok) return ok;
  ErrorScopes scopes(state);
  make();
  return scopes.finish(what);
}

/// Functions that do nothing, and answer at once.
const Procs& imaginary_procs();
/// When the program exits, what is left of the device by then releases nothing: drivers end before variables of the program that
/// were there before them, and must not be called any more.
void let_go_at_exit(const std::shared_ptr<DeviceState>& state);

/// An adapter with what is known of it.
struct Adapter {
  WGPUAdapter handle = nullptr;
  DeviceInfo info;
  int rank = 0;      ///< higher is better; below 0 never chosen
};

struct AdapterList {
  const Procs* procs = nullptr;
  WGPUInstance instance = nullptr;
  std::vector<Adapter> adapters;
  int chosen = -1;
  ~AdapterList();
  AdapterList() = default;
  AdapterList(AdapterList&&) noexcept;
};

Result<AdapterList> find_adapters(const DeviceOptions& options);

}  // namespace gull::gpu
