// Reads lines that a person types, with editing and history where standard input is a terminal.
#pragma once

#include <memory>
#include <string>

namespace gull::app {

class LineReader {
 public:
  /// `history_file`: where lines are kept between runs; empty: nowhere.
  explicit LineReader(std::string history_file);
  ~LineReader();

  enum class Outcome { Line, End, Interrupted };
  /// The next line without its line end. The prompt shows on a terminal only. Interrupted: Ctrl-C was pressed.
  Outcome read(const std::string& prompt, std::string& line);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;   ///< none where lines come from a file or a pipe
};

}  // namespace gull::app
