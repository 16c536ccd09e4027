// A file on a web server, read by ranges.
#pragma once

#include <memory>
#include <string>

#include "gguf/http.h"
#include "gull/gguf.h"

namespace gull::gguf {

/// Asks for the first bytes of `url` (http or https; redirections are followed) and so learns the length. Reads are one
/// range request each; failures that may pass are tried again, going on where the last try stopped. Every answer must be
/// of the same file as the first, as far as the server tells: ETag, date, length.
/// Errors: no such file; a server that ignores ranges (noticed before anything is downloaded); a web page instead of a file.
Result<std::shared_ptr<ByteSource>> http_source(const std::string& url, const HttpOptions& options = {});

/// Opens a model at an address: any part of a split one finds the others beside it.
Result<std::shared_ptr<File>> open_url(const std::string& url, const HttpOptions& options = {});

}  // namespace gull::gguf
