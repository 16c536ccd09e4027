// What the byte sources share.
#pragma once

#include "gull/gguf.h"

namespace gull::gguf {

/// An error that names the source unless [offset, offset + length) lies inside it.
Result<void> check_range(const ByteSource& source, uint64_t offset, uint64_t length);
/// Bytes that the caller keeps alive.
std::shared_ptr<ByteSource> borrowed_source(std::string name, std::span<const std::byte> bytes);

}  // namespace gull::gguf
