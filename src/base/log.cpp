#include "base/log.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/mutex.h"

namespace gull {
namespace {

struct Sink {
  Mutex mutex;
  LogLevel level = LogLevel::Warning;
  std::function<void(LogLevel, std::string_view)> function = [](LogLevel, std::string_view line) {
    std::fprintf(stderr, "gull: %.*s\n", static_cast<int>(line.size()), line.data());
  };
};

Sink& sink() {
  static Sink instance;
  return instance;
}

}  // namespace

void set_log(std::function<void(LogLevel, std::string_view)> function) {
  Lock lock(sink().mutex);
  sink().function = std::move(function);
}

void set_log_level(LogLevel level) {
  Lock lock(sink().mutex);
  sink().level = level;
}

void log_line(LogLevel level, std::string_view line) {
  Lock lock(sink().mutex);
  if (level >= sink().level && sink().function) sink().function(level, line);
}

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::InvalidArgument: return "invalid argument";
    case ErrorKind::NotFound: return "not found";
    case ErrorKind::BadFile: return "bad file";
    case ErrorKind::Unsupported: return "unsupported";
    case ErrorKind::OutOfMemory: return "out of memory";
    case ErrorKind::Device: return "device error";
    case ErrorKind::Io: return "input/output error";
    case ErrorKind::Cancelled: return "cancelled";
    case ErrorKind::NotInitialised: return "not initialised";
    case ErrorKind::Internal: return "internal error";
  }
  return "error";
}

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, units[unit]);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.')) ++end;
  const std::string number(text.substr(0, end));
  char* stop = nullptr;
  const double value = std::strtod(number.c_str(), &stop);   // libc++ 19 has no from_chars for floating point
  std::string unit;
  for (char c : text.substr(end)) if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.size() > 1 && unit.ends_with("ib")) unit.resize(1);
  else if (unit.size() == 2 && unit[1] == 'b') unit.resize(1);
  static constexpr std::string_view order = "bkmgt";
  const size_t power = unit.empty() ? 0 : order.find(unit[0]);
  if (end == 0 || stop != number.c_str() + number.size() || unit.size() > 1 || power == std::string_view::npos)
    return fail_f(ErrorKind::InvalidArgument, "'{}' is not a size: write bytes, or a number with KiB, MiB, GiB or TiB", text);
  const double bytes = value * std::pow(1024.0, static_cast<double>(power));
  if (bytes > 0 && bytes < 1) return fail_f(ErrorKind::InvalidArgument, "'{}' is less than a byte", text);
  if (!(bytes < 9e18)) return fail_f(ErrorKind::InvalidArgument, "'{}' is too large", text);
  return static_cast<uint64_t>(bytes);
}

}  // namespace gull
