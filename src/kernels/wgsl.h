// Text of shaders (see dispatch/wgsl.h), and what every kernel of a model reads.
#pragma once

#include "dispatch/wgsl.h"

namespace gull::kernels {

using dispatch::Sub;
using dispatch::expand;
using dispatch::preamble;

/// The uniform that every kernel of a model reads: what changes from step to step. 16 bytes.
///   pos: position of the batch's first token; n: tokens in the batch; kv: pos + n; step: counts decode steps
inline constexpr std::string_view kStateStruct = "struct State { pos: u32, n: u32, kv: u32, step: u32 };\n";

}  // namespace gull::kernels
