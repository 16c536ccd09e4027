// Opening by path (left out of the WebAssembly build, which has no files).
#include "gull/gguf.h"

namespace gull::gguf {

Result<std::shared_ptr<File>> File::open_path(const std::string& path) {
  auto source = mapped_file_source(path);
  if (!source) return fail(std::move(source.error()));
  return open(std::move(*source), mapped_file_source);
}

Result<std::shared_ptr<File>> File::open_paths(std::span<const std::string> paths) {
  if (paths.size() == 1) return open_path(paths[0]);
  std::vector<std::shared_ptr<ByteSource>> sources;
  for (const std::string& path : paths) {
    auto source = mapped_file_source(path);
    if (!source) return fail(std::move(source.error()));
    sources.push_back(std::move(*source));
  }
  return open(std::move(sources));
}

}  // namespace gull::gguf
