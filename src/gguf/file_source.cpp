// Regular files: mapped, or read by position (POSIX; left out of the WebAssembly build).
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "gguf/sources.h"

namespace gull {
namespace {

/// An open regular file; closes itself.
struct Descriptor {
  int fd = -1;
  uint64_t size = 0;
  int64_t modified = 0;   ///< in nanoseconds
  Descriptor() = default;
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)), size(other.size), modified(other.modified) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int64_t modified(const struct stat& info) {
#if defined(__APPLE__)
  const timespec& time = info.st_mtimespec;
#else
  const timespec& time = info.st_mtim;
#endif
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Opens without ever blocking: a pipe or device of that name is refused before it is opened for reading.
Result<Descriptor> open_regular(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return fail_f(ErrorKind::NotFound, "{}: no such file", path);
    return fail_f(ErrorKind::Io, "{}: cannot open: {}", path, std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return fail_f(ErrorKind::InvalidArgument, "{}: is a directory; name a .gguf file in it", path);
  if (!S_ISREG(info.st_mode)) return fail_f(ErrorKind::InvalidArgument, "{}: is not a regular file", path);
  Descriptor file;
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) return fail_f(ErrorKind::Io, "{}: cannot open: {}", path, std::strerror(errno));
  if (::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode))
    return fail_f(ErrorKind::Io, "{}: changed while it was opened", path);
  file.size = static_cast<uint64_t>(info.st_size);
  file.modified = modified(info);
  return file;
}

/// Reads by position. A file that another program changes meanwhile is noticed at the next read: never a wrong weight.
class FileSource : public ByteSource {
 public:
  FileSource(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  const std::string& name() const override { return path_; }
  uint64_t size() const override { return file_.size; }
  bool local() const override { return true; }

  Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    if (auto inside = gguf::check_range(*this, offset, out.size()); !inside) return inside;
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = ::pread(file_.fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_f(ErrorKind::Io, "{}: cannot read at byte {}: {}", path_, offset + done, std::strerror(errno));
      if (got == 0) return fail_f(ErrorKind::Io, "{}: was cut short to {} bytes while it was in use: load it again", path_, offset + done);
      done += static_cast<size_t>(got);
    }
    // Whoever changes a file changes its time first.
    struct stat now{};
    if (::fstat(file_.fd, &now) != 0) return fail_f(ErrorKind::Io, "{}: cannot read: {}", path_, std::strerror(errno));
    if (static_cast<uint64_t>(now.st_size) != file_.size || modified(now) != file_.modified)
      return fail_f(ErrorKind::Io, "{}: was changed while it was in use: load it again", path_);
    return {};
  }

 private:
  std::string path_;
  Descriptor file_;
};

/// The same, and its bytes where they lie.
class MappedSource final : public FileSource {
 public:
  MappedSource(std::string path, Descriptor file, void* base)
      : FileSource(std::move(path), std::move(file)), base_(static_cast<const std::byte*>(base)) {}
  ~MappedSource() override {
    if (size() != 0) ::munmap(const_cast<std::byte*>(base_), size());
  }

  std::span<const std::byte> view(uint64_t offset, uint64_t length) override {
    if (!gguf::check_range(*this, offset, length)) return {};
    return {base_ + offset, static_cast<size_t>(length)};
  }

  /// Whole pages only: what shares a page with other bytes stays.
  void release(uint64_t offset, uint64_t length) override {
    if (!gguf::check_range(*this, offset, length)) return;
    const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t first = (offset + page - 1) / page * page, end = (offset + length) / page * page;
    if (first < end) ::madvise(const_cast<std::byte*>(base_) + first, static_cast<size_t>(end - first), MADV_DONTNEED);
  }

 private:
  const std::byte* base_;
};

}  // namespace

Result<std::shared_ptr<ByteSource>> file_source(const std::string& path) {
  auto file = open_regular(path);
  if (!file) return fail(file.error());
  return std::make_shared<FileSource>(path, std::move(*file));
}

Result<std::shared_ptr<ByteSource>> mapped_file_source(const std::string& path) {
  auto file = open_regular(path);
  if (!file) return fail(file.error());
  if (file->size == 0) return std::make_shared<MappedSource>(path, std::move(*file), nullptr);
  if (file->size > SIZE_MAX)
    return fail_f(ErrorKind::Unsupported, "{}: {} are too much to map on this machine", path, human_bytes(file->size));
  void* base = ::mmap(nullptr, static_cast<size_t>(file->size), PROT_READ, MAP_SHARED, file->fd, 0);
  if (base == MAP_FAILED)
    return fail_f(ErrorKind::Io, "{}: cannot map {}: {}", path, human_bytes(file->size), std::strerror(errno));
  return std::make_shared<MappedSource>(path, std::move(*file), base);
}

}  // namespace gull
