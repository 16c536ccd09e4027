// Opening a model's file for the commands that need no GPU.
#pragma once

#include <memory>
#include <string>

#include "gull/gguf.h"

namespace gull::app {

/// Prints log lines from Debug up when asked to.
void set_verbose(bool verbose);

/// The parsed header of MODEL (a path, an address, a catalogue name), fetched when it is not there. An address that is not
/// in the cache is read in place, by ranges, when `remote` allows it.
Result<std::shared_ptr<gguf::File>> open_model_file(const std::string& model, bool remote = false);

}  // namespace gull::app
