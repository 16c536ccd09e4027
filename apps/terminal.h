// What the user sees: text on standard output, one-line notices and progress on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "gull/error.h"

namespace gull::app {

/// Whether a person is looking at standard error (and it can redraw a line) or standard output, or sits at standard input.
bool stderr_is_terminal();
bool stdout_is_terminal();
bool stdin_is_terminal();

/// Writes to standard output and flushes it, so that text appears as it is made. False once the output has failed.
bool write_output(std::string_view text);
/// Flushes standard output. A reader that closed the pipe is no failure; a full disk is, and says so.
int finish_output();

/// "gull: TEXT" and a line end on standard error, above a progress bar if one is drawn.
void print_notice(std::string_view text);

/// Reads all of standard input.
Result<std::string> read_standard_input();
/// Reads a whole file, of at most `limit` bytes.
Result<std::string> read_text_file(const std::string& path, uint64_t limit = 64u << 20);

/// "1:05" or "2:03:04".
std::string human_seconds(double seconds);

/// One line on a terminal that redraws itself; draws nothing elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();   ///< clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// What is done at `label`; `bytes` shows amounts, speed and time left, otherwise a share.
  void update(std::string_view label, uint64_t done, uint64_t total, bool bytes);
  void update(uint64_t done, uint64_t total) { update(label_, done, total, true); }

 private:
  using Clock = std::chrono::steady_clock;
  std::string byte_figures(uint64_t done, uint64_t total, double elapsed) const;
  void draw(const std::string& figures, uint64_t done, uint64_t total) const;

  std::string label_;
  bool active_;
  bool begun_ = false;
  Clock::time_point started_, drawn_;
  uint64_t first_ = 0;   ///< what was already there when it began: not part of the speed
};

}  // namespace gull::app
