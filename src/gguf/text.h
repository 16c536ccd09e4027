// Text from a hostile file, made fit for a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace gull::gguf {

/// Printable ASCII and well-formed UTF-8 stay; other bytes become \xNN; longer than `limit` bytes is cut with "…".
std::string printable(std::string_view text, size_t limit = 80);

}  // namespace gull::gguf
