#include "gguf/download.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sha256.h"
#include "gguf/parser.h"

namespace gull::gguf {
namespace {

namespace fs = std::filesystem;

/// The unfinished file: locked, hashed as it grows.
class PartFile {
 public:
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  Result<void> open(std::string path) {
    path_ = std::move(path);
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) return fail_f(ErrorKind::Io, "{}: cannot create: {}", path_, std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) return fail_f(ErrorKind::Io, "{}: another program is downloading this file", path_);
    // Another program may have finished it, and renamed it, between opening and locking it.
    struct stat mine{}, named{};
    if (::fstat(fd_, &mine) != 0 || ::stat(path_.c_str(), &named) != 0 || mine.st_ino != named.st_ino)
      return fail_f(ErrorKind::Io, "{}: another program has just finished this download", path_);
    return {};
  }

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  /// Hashes what an earlier call left, so that it can be gone on with.
  Result<void> take_over(const std::function<bool()>& cancelled) {
    std::vector<std::byte> buffer(1 << 20);
    while (true) {
      const ssize_t got = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(size_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_f(ErrorKind::Io, "{}: cannot read: {}", path_, std::strerror(errno));
      if (got == 0) return {};
      if (cancelled()) return fail_f(ErrorKind::Cancelled, "{}: cancelled", path_);
      hash_.update(std::span(buffer).first(static_cast<size_t>(got)));
      size_ += static_cast<uint64_t>(got);
    }
  }

  Result<void> restart() {
    hash_ = {};
    size_ = 0;
    if (::ftruncate(fd_, 0) != 0) return fail_f(ErrorKind::Io, "{}: cannot empty: {}", path_, std::strerror(errno));
    return {};
  }

  Result<void> append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return fail_f(ErrorKind::Io, "{}: cannot write: {}", path_, std::strerror(errno));
      bytes = bytes.subspan(static_cast<size_t>(put));
      size_ += static_cast<uint64_t>(put);
    }
    return {};
  }

  std::string hash() { return hash_.hex(); }
  Result<void> flush() {
    if (::fsync(fd_) != 0) return fail_f(ErrorKind::Io, "{}: cannot write: {}", path_, std::strerror(errno));
    return {};
  }

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  Sha256 hash_;
};

class Download {
 public:
  Download(const std::string& url, const std::string& path, const DownloadOptions& options)
      : path_(path), options_(options), client_(url, with_cancel(options)) {}

  Result<void> run() {
    if (auto opened = part_.open(path_ + ".part"); !opened) return opened;
    if (auto resumed = resume(); !resumed) return resumed;
    if (auto fetched = fetch(); !fetched) {
      if (part_.size() == 0)
        remove_part();
      else if (!validator_.empty())
        fetched.error().message += fmt::format(" ({} are kept: the next try goes on from there)", human_bytes(part_.size()));
      return fetched;
    }
    return finish();
  }

 private:
  static HttpOptions with_cancel(const DownloadOptions& options) {
    HttpOptions http = options.http;
    http.cancel = options.cancel;
    return http;
  }

  std::string id_path() const { return path_ + ".part.id"; }
  bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }

  HttpStep failure(ErrorKind kind, bool transient, const std::string& what) const {
    return HttpFailure{{kind, fmt::format("{}: {}", client_.name(), what)}, transient};
  }

  /// Goes on with an earlier part if it is known of which version of the file it is.
  Result<void> resume() {
    std::ifstream id(id_path());
    std::string length;
    if (!(std::getline(id, validator_) && std::getline(id, length)) || validator_.empty()) return restart();
    total_ = std::strtoull(length.c_str(), nullptr, 10);
    if (auto taken = part_.take_over([this] { return cancelled(); }); !taken) return taken;
    return total_ != 0 && part_.size() > total_ ? restart() : Result<void>{};
  }

  Result<void> restart() {
    validator_.clear();
    total_ = 0;
    std::error_code error;
    fs::remove(id_path(), error);
    return part_.restart();
  }

  Result<void> fetch() {
    HttpRetry retry(client_.options());
    while (total_ == 0 || part_.size() < total_) {
      const uint64_t before = part_.size();
      // Without a validator a part could be joined to another version of the file: then all of it is asked for again.
      const HttpRequest request{
          .first = before, .ranged = before > 0 && !validator_.empty(), .if_range = before > 0 ? validator_ : std::string()};
      complete_ = false;
      HttpStep step = client_.get(
          request, [&](const HttpHead& head) { return begin(head, before); },
          [&](std::span<const std::byte> bytes) { return add(bytes); });
      if (!step && (complete_ || (total_ == 0 && part_.size() > 0))) return {};
      if (!step && total_ != 0 && part_.size() == total_) return {};
      if (!step) step = failure(ErrorKind::Io, true, fmt::format("the server sent {} of {} bytes", part_.size(), total_));
      const uint64_t progress = part_.size() > before ? part_.size() - before : 0;
      if (auto again = retry.after(std::move(*step), progress); !again) return again;
    }
    return {};
  }

  /// Looks at a response to a request for the bytes from `before` on.
  HttpStep begin(const HttpHead& head, uint64_t before) {
    if (head.content_type.starts_with("text/html"))
      return failure(ErrorKind::BadFile, false, "is a web page, not a GGUF file: use the address of the file itself");
    if (!head.content_encoding.empty() && head.content_encoding != "identity")
      return failure(ErrorKind::Unsupported, false, fmt::format("the server sends it encoded ('{}')", head.content_encoding));
    if (head.status == 416) return after_416(head, before);
    if (head.status == 206 && before > 0) return go_on(head, before);
    if (head.status != 200)
      return failure(ErrorKind::Io, true, fmt::format("the server answers {} to a request for the whole file", head.status));
    // The whole file: the first try, or the server ignores ranges, or the file is another one now.
    if (auto done = restart(); !done) return HttpFailure{done.error()};
    if (!head.length && !head.self_delimiting && options_.sha256.empty() && options_.bytes == 0)
      return failure(ErrorKind::Unsupported, false,
                     "the server does not tell the length of the file, so a broken download would go unnoticed: download it with "
                     "another program");
    total_ = head.length.value_or(0);
    if (head.length == 0u) return failure(ErrorKind::BadFile, false, "is empty on the server");
    return start_file(head);
  }

  HttpStep start_file(const HttpHead& head) {
    if (options_.bytes != 0 && total_ != 0 && total_ != options_.bytes)
      return failure(ErrorKind::BadFile, false,
                     fmt::format("has {} bytes on the server; {} were expected: it is another file", total_, options_.bytes));
    validator_ = head.validator();
    if (!validator_.empty()) std::ofstream(id_path()) << validator_ << '\n' << total_ << '\n';
    std::error_code error;
    const auto space = fs::space(fs::path(path_).parent_path().empty() ? fs::path(".") : fs::path(path_).parent_path(), error);
    if (!error && total_ != 0 && space.available < total_)
      return failure(
          ErrorKind::Io, false,
          fmt::format("needs {} of disk space, but {} has {} left", human_bytes(total_), path_, human_bytes(space.available)));
    return {};
  }

  HttpStep go_on(const HttpHead& head, uint64_t before) {
    const bool same = !head.range_total || total_ == 0 || *head.range_total == total_;
    if (!head.has_range || head.range_first != before || !same ||
        (head.length && *head.length != head.range_last - head.range_first + 1))
      return failure(ErrorKind::Io, true, fmt::format("the server sends other bytes than those asked for at byte {}", before));
    if (!head.validator().empty() && head.validator() != validator_) {  // the file changed, and the server did not mind If-Range
      if (auto done = restart(); !done) return HttpFailure{done.error()};
      return failure(ErrorKind::Io, true, "the file changed on the server");
    }
    if (head.range_total) total_ = *head.range_total;
    return {};
  }

  /// "That range is not there": all of the file is, or the file is another one now.
  HttpStep after_416(const HttpHead& head, uint64_t before) {
    if (before > 0 && head.range_total == before && (head.validator().empty() || head.validator() == validator_))
      return complete_ = true, HttpStep{};
    if (auto done = restart(); !done) return HttpFailure{done.error()};
    return failure(ErrorKind::Io, true, "the file changed on the server");
  }

  HttpStep add(std::span<const std::byte> bytes) {
    if (complete_) return {};  // the text that comes with a 416
    if (total_ != 0 && bytes.size() > total_ - part_.size())
      return failure(ErrorKind::Io, true, "the server sends more than it promised");
    if (auto written = part_.append(bytes); !written) return HttpFailure{written.error()};
    if (options_.progress) options_.progress(part_.size(), total_);
    return {};
  }

  void remove_part() {
    std::error_code error;
    fs::remove(id_path(), error);
    fs::remove(part_.path(), error);
  }

  Result<void> discard(const std::string& what) {
    remove_part();
    return fail_f(ErrorKind::BadFile, "{}: {}: it was removed", client_.name(), what);
  }

  Result<void> finish() {
    if (options_.bytes != 0 && part_.size() != options_.bytes)
      return discard(fmt::format("has {} bytes; {} were expected", part_.size(), options_.bytes));
    if (const std::string hash = part_.hash(); !options_.sha256.empty() && !same_hash(hash))
      return discard(fmt::format("has the SHA-256 {}; {} was expected", hash, options_.sha256));
    if (auto whole = check_model(); !whole) return whole;
    if (auto flushed = part_.flush(); !flushed) return flushed;
    std::error_code error;
    fs::rename(part_.path(), path_, error);
    if (error) return fail_f(ErrorKind::Io, "{}: cannot rename it to {}: {}", part_.path(), path_, error.message());
    fs::remove(id_path(), error);
    return {};
  }

  /// Without a hash the file's own header is the only witness that nothing is missing.
  Result<void> check_model() {
    if (!options_.sha256.empty() || !path_.ends_with(".gguf")) return {};
    auto source = file_source(part_.path());
    if (!source) return fail(std::move(source.error()));
    if (const auto part = parse_part(**source); !part) return discard(part.error().message.substr(part_.path().size() + 2));
    return {};
  }

  bool same_hash(const std::string& hash) const {
    return hash.size() == options_.sha256.size() &&
           std::equal(hash.begin(), hash.end(), options_.sha256.begin(),
                      [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  }

  const std::string path_;
  const DownloadOptions& options_;
  HttpClient client_;
  PartFile part_;
  std::string validator_;
  uint64_t total_ = 0;  // 0: unknown
  bool complete_ = false;
};

}  // namespace

Result<void> download(const std::string& url, const std::string& path, const DownloadOptions& options) {
  return Download(url, path, options).run();
}

}  // namespace gull::gguf
