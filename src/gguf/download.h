// Downloads of whole files.
#pragma once

#include <functional>
#include <string>

#include "gguf/http.h"

namespace gull::gguf {

struct DownloadOptions {
  std::function<void(uint64_t done, uint64_t total)> progress;   ///< total 0: unknown
  const std::atomic<bool>* cancel = nullptr;
  std::string sha256;        ///< 64 hexadecimal digits that the file must have; "": not checked
  uint64_t bytes = 0;        ///< the length that it must have; 0: not checked
  HttpOptions http;          ///< its `cancel` is replaced by the one above
};

/// Downloads `url` to `path`. Meanwhile the bytes lie in `path`.part, and what identifies the file on the server in
/// `path`.part.id: a later call goes on from there, if the file is still the same. `path` appears only when the length and
/// the hash are right; where no hash is given, the header of a .gguf file is checked instead, which a cut-off file does not
/// survive. One process at a time: a second one for the same path gets an error.
/// Errors: as `http_source`; a wrong length or hash (what was downloaded is removed); no room; cancelled (it is kept).
Result<void> download(const std::string& url, const std::string& path, const DownloadOptions& options = {});

}  // namespace gull::gguf
