// How a kernel reads weights: for each tensor type, WGSL that turns 32 consecutive weights of a row into floats.
#pragma once

#include <string>

#include "gguf/row_layout.h"
#include "gull/error.h"

namespace gull::kernels {

/// WGSL for one bound tensor: a function
///   fn dq<suffix>(rb: u32, kb: u32) -> array<vec4<f32>, 8>
/// that reads weights [32·kb, 32·kb + 32) of the row that starts at vec4<u32> number `rb` of the array `W<suffix>`
/// (declared by the kernel as array<vec4<u32>>), in the row layout of gguf/row_layout.h. Rows are whole multiples of 16
/// bytes; plain types are padded with zeros to 32 weights. Helpers are named with the suffix, so that several tensors of
/// one kernel do not clash. Types with a code book look it up at the end of `W<suffix>`: bind it to the end of the tile's
/// buffer (gguf/row_layout.h). Errors: a type that has no decoder yet.
Result<std::string> decoder(const gguf::RowLayout& layout, std::string_view suffix);

/// Whether `decoder` knows the type.
bool has_decoder(gguf::Type type);

}  // namespace gull::kernels
