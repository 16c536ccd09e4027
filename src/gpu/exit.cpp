#include <algorithm>
#include <cstdlib>
#include <set>
#include <vector>

#include "gpu/state.h"

namespace gull::gpu {
namespace {

struct OpenDevices {
  Mutex mutex;
  std::vector<std::weak_ptr<DeviceState>> states;
  std::set<const Procs*> implementations;   ///< with an exit handler registered after the driver's own, so that it runs before

  void let_go() {
    Lock lock(mutex);
    for (const auto& weak : states)
      if (const auto state = weak.lock()) {
        state->report("the program is ending");
        state->procs = &imaginary_procs();
      }
  }
};

/// Never destroyed: the exit handler needs it.
OpenDevices& open_devices() {
  static OpenDevices* const devices = new OpenDevices;
  return *devices;
}

}  // namespace

void let_go_at_exit(const std::shared_ptr<DeviceState>& state) {
  OpenDevices& open = open_devices();
  Lock lock(open.mutex);
  std::erase_if(open.states, [](const auto& weak) { return weak.expired(); });
  open.states.push_back(state);
  if (open.implementations.insert(state->procs).second) std::atexit([] { open_devices().let_go(); });
}

}  // namespace gull::gpu
