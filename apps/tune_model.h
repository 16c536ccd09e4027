// A model that nobody trained, for measuring: speed does not depend on what the weights are.
#pragma once

#include <memory>

#include "gull/gguf.h"

namespace gull::app {

/// Two layers of a llama in memory, with 4-bit weights that are all zero: of an 8b model's shapes, or small ones for devices
/// that compute on the processor.
Result<std::shared_ptr<gguf::File>> made_up_model(bool small);

}  // namespace gull::app
