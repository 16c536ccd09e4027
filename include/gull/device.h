// GPUs: which there are, how to open one, and what gull holds on it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gull/error.h"

namespace gull {

/// How to open the GPU. Used by every program, by `Model::load` and by `ComputeBackend`.
struct DeviceOptions {
  std::string device;               ///< empty: the best adapter; else a number from `list_devices`, or a part of its name
  bool baseline_limits = false;     ///< behave as if the device had only WebGPU's default limits and no optional feature
  bool no_f16 = false;              ///< do not use shader-f16
  bool no_subgroups = false;        ///< do not use subgroup operations
  bool no_immediates = false;       ///< do not use immediates
  bool checked_shaders = false;     ///< keep the bounds checks in shaders even where they could be left out
  std::string webgpu_library;       ///< path of another WebGPU implementation (native only)
};

/// An adapter, as `gull devices` shows it.
struct DeviceInfo {
  uint32_t index = 0;
  std::string name, vendor, driver, backend;   ///< "NVIDIA H200", "NVIDIA", "580.159", "Vulkan"
  std::string type;                            ///< "discrete", "integrated", "software", "unknown"
  bool chosen = false;                         ///< what an empty DeviceOptions::device would open
  std::string why;                             ///< why it would be chosen, or not
  std::vector<std::string> features;
  std::vector<std::pair<std::string, uint64_t>> limits;
};

/// All usable adapters, the chosen one marked. An empty list is a success; opening one then is an error that says what to install.
Result<std::vector<DeviceInfo>> list_devices(const DeviceOptions& options = {});

/// GPU memory by category, in bytes; `peak` is of the total.
struct MemoryUse { uint64_t weights = 0, kv = 0, activations = 0, parameters = 0, staging = 0, total = 0, peak = 0; };

}  // namespace gull
