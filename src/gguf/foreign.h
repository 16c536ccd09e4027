// Files that are something other than GGUF, told apart for the error message.
#pragma once

#include <span>
#include <string>

#include "gull/gguf.h"

namespace gull::gguf {

/// What a file whose first bytes are not "GGUF" seems to be, and what to do: "is an HTML page, …".
/// `head` holds its first bytes, at most 64.
std::string describe_foreign(std::span<const std::byte> head);

}  // namespace gull::gguf
