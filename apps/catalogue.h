// The models that the program knows by name, and how a MODEL argument becomes a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"

namespace gull::app {

/// A file inside a Python package: `requirement` as pip takes it, `member` the path inside its wheel.
struct PackageFile {
  std::string requirement, member;
};

/// One place to get a model from: a web address, or packages whose files are joined in order.
struct Source {
  std::string url;
  std::vector<PackageFile> packages;
};

struct CatalogueEntry {
  std::string name, file;         ///< as users type it; as it is cached
  uint64_t bytes;
  std::string sha256, licence;
  std::string notice;             ///< printed before it is fetched; may be empty
  std::vector<Source> sources;    ///< tried in order
};

std::span<const CatalogueEntry> catalogue();
const CatalogueEntry* find_entry(std::string_view name);

/// Where fetched models are kept: $XDG_CACHE_HOME/gull, else ~/.cache/gull.
Result<std::string> cache_folder();

bool is_url(std::string_view text);

/// The path of MODEL: itself if it is there, the cached file of an address or a catalogue name, fetched when missing.
Result<std::string> find_model(const std::string& model);
/// The cached file of an address or a catalogue name if it is complete, else "".
std::string cached_model(const std::string& model);
/// Fetches an address or a catalogue name into the cache, unless it is there, and gives the path.
Result<std::string> pull_model(const std::string& model);

}  // namespace gull::app
