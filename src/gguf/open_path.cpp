// Opening by path (left out of the WebAssembly build, which has no files). Files are read, not mapped: one that another
// program cuts short meanwhile gives an error, where a mapping would end the process.
#include "gull/gguf.h"

namespace gull::gguf {

Result<std::shared_ptr<File>> File::open_path(const std::string& path) {
  auto source = file_source(path);
  if (!source) return fail(std::move(source.error()));
  return open(std::move(*source), file_source);
}

Result<std::shared_ptr<File>> File::open_paths(std::span<const std::string> paths) {
  if (paths.size() == 1) return open_path(paths[0]);
  std::vector<std::shared_ptr<ByteSource>> sources;
  for (const std::string& path : paths) {
    auto source = file_source(path);
    if (!source) return fail(std::move(source.error()));
    sources.push_back(std::move(*source));
  }
  return open(std::move(sources));
}

}  // namespace gull::gguf
