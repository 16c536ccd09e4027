#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "command.h"
#include "signals.h"

namespace gull::app {
namespace {

int output_errno = 0;      // the first failure of standard output
bool bar_is_drawn = false;

void clear_bar() {
  if (bar_is_drawn) std::fputs("\r\033[K", stderr);
  bar_is_drawn = false;
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

Result<std::string> read_all(std::FILE* file, const std::string& name, uint64_t limit) {
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) {
    if (text.size() + n > limit) return fail_f(ErrorKind::InvalidArgument, "{}: more than {}", name, human_bytes(limit));
    text.append(buffer, n);
  }
  if (std::ferror(file)) {
    if (errno == EINTR && interrupted()) return fail_f(ErrorKind::Cancelled, "interrupted while reading {}", name);
    return fail_f(ErrorKind::Io, "{}: {}", name, std::strerror(errno));
  }
  return text;
}

}  // namespace

bool stderr_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) && term && std::strcmp(term, "dumb") != 0;
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO); }
bool stdin_is_terminal() { return isatty(STDIN_FILENO); }

bool write_output(std::string_view text) {
  if (output_errno) return false;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) output_errno = errno;
  return output_errno == 0;
}

int finish_output() {
  if (!output_errno && std::fflush(stdout) != 0) output_errno = errno;
  if (!output_errno || output_errno == EPIPE) return kSuccess;
  return report(Error{ErrorKind::Io, fmt::format("cannot write to standard output: {}", std::strerror(output_errno))});
}

void print_notice(std::string_view text) {
  clear_bar();
  fmt::print(stderr, "gull: {}\n", text);
}

Result<std::string> read_standard_input() { return read_all(stdin, "standard input", 1u << 30); }

Result<std::string> read_text_file(const std::string& path, uint64_t limit) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return fail_f(ErrorKind::InvalidArgument, "{}: is a directory", path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return fail_f(ErrorKind::NotFound, "{}: {}", path, std::strerror(errno));
  return read_all(file.get(), path, limit);
}

std::string human_seconds(double seconds) {
  const auto s = static_cast<uint64_t>(std::clamp(seconds, 0.0, 3.6e8));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), active_(stderr_is_terminal()) {}

ProgressBar::~ProgressBar() {
  if (active_) clear_bar();
}

void ProgressBar::update(std::string_view label, uint64_t done, uint64_t total, bool bytes) {
  if (!active_) return;
  const auto now = Clock::now();
  if (!begun_ || label != label_) {
    begun_ = true;
    label_ = label;
    first_ = done;
    started_ = now;
    drawn_ = {};
  }
  if (now - drawn_ < std::chrono::milliseconds(100) && done != total) return;
  drawn_ = now;
  draw(bytes ? byte_figures(done, total, std::chrono::duration<double>(now - started_).count()) : std::string(), done, total);
}

std::string ProgressBar::byte_figures(uint64_t done, uint64_t total, double elapsed) const {
  std::string text = total ? fmt::format("  {} of {}", human_bytes(done), human_bytes(total)) : "  " + human_bytes(done);
  if (elapsed < 0.5 || done <= first_) return text;
  const double speed = static_cast<double>(done - first_) / elapsed;
  text += fmt::format("  {}/s", human_bytes(static_cast<uint64_t>(speed)));
  if (total > done) text += fmt::format("  {} left", human_seconds(static_cast<double>(total - done) / speed));
  return text;
}

void ProgressBar::draw(const std::string& figures, uint64_t done, uint64_t total) const {
  const size_t width = terminal_width();
  const double share = total ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  std::string line = label_;
  if (total && width > label_.size() + figures.size() + 16) {
    const size_t room = std::min<size_t>(30, width - label_.size() - figures.size() - 9);
    const auto filled = static_cast<size_t>(share * static_cast<double>(room));
    line += " [" + std::string(filled, '#') + std::string(room - filled, '.') + "]";
  }
  if (total) line += fmt::format(" {:3}%", static_cast<int>(share * 100));
  line += figures;
  if (line.size() >= width) line.resize(width - 1);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  bar_is_drawn = true;
}

}  // namespace gull::app
