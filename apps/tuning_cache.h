// What `gull tune` found, kept from one run to the next: tune.json in the cache folder.
#pragma once

#include <string>

#include "gull/device.h"
#include "gull/tuning.h"

namespace gull::app {

/// Where it is kept. Errors: no cache folder.
Result<std::string> tuning_path();
/// The shapes for a device with this driver and this gull, or zeros. A file that cannot be understood counts as absent; a
/// notice says so, once a run.
Tuning read_tuning(const DeviceInfo& device);
/// Puts them in the file, whole or not at all; what it holds for other devices stays. Gives its path.
Result<std::string> write_tuning(const DeviceInfo& device, const Tuning& tuning);

}  // namespace gull::app
