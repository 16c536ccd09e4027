// Bytes that JavaScript holds or fetches: a file that the user chose, browser storage, HTTP.
#pragma once

#include "gull/gguf.h"

namespace gull::web {

/// Source `id` of web/lib/sources.js. Reading suspends the program until the bytes are there.
std::shared_ptr<ByteSource> browser_source(int32_t id, std::string name, uint64_t size);

}  // namespace gull::web
