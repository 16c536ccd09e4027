// Logging: lines on standard error, or to a function that the host program sets. Never standard output.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "gull/error.h"

namespace gull {

enum class LogLevel { Debug, Info, Warning, Error };

/// Replaces the sink (nullptr: silence). The default prints "gull: …" to standard error from Warning up.
void set_log(std::function<void(LogLevel, std::string_view)> sink);
/// Prints from this level up to standard error with the default sink.
void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... A>
void log(LogLevel level, fmt::format_string<A...> format, A&&... args) {
  log_line(level, fmt::format(format, std::forward<A>(args)...));
}

/// `return fail_f(ErrorKind::BadFile, "{}: bad magic", name);`
template <class... A>
std::unexpected<Error> fail_f(ErrorKind kind, fmt::format_string<A...> format, A&&... args) {
  return fail(kind, fmt::format(format, std::forward<A>(args)...));
}

/// "1.5 GiB", "12 KiB", "7 B": for messages.
std::string human_bytes(uint64_t bytes);
/// Parses "2GiB", "512M", "1.5g", "1000" (bytes); powers of 1024.
Result<uint64_t> parse_bytes(std::string_view text);

}  // namespace gull
