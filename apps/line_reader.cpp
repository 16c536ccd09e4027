#include "line_reader.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "signals.h"
#include "terminal.h"

#if GULL_HAS_LIBEDIT
#include <histedit.h>
#endif

namespace gull::app {
namespace {

void drop_line_end(std::string& line) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
}

LineReader::Outcome read_plain(std::string& line) {
  line.clear();
  for (int c; (c = std::getc(stdin)) != EOF;) {
    line += static_cast<char>(c);
    if (c == '\n') break;
  }
  if (interrupted()) {
    std::clearerr(stdin);
    return LineReader::Outcome::Interrupted;
  }
  if (line.empty()) return LineReader::Outcome::End;
  drop_line_end(line);
  return LineReader::Outcome::Line;
}

}  // namespace

#if GULL_HAS_LIBEDIT

struct LineReader::Editor {
  explicit Editor(std::string file) : history_file(std::move(file)) {
    edit = el_init("gull", stdin, stdout, stderr);
    past = history_init();
    HistEvent event;
    if (edit) {
      el_set(edit, EL_CLIENTDATA, this);
      el_set(edit, EL_PROMPT, &Editor::show_prompt);
      el_set(edit, EL_EDITOR, "emacs");
      el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    }
    if (!past) return;
    history(past, &event, H_SETSIZE, 1000);
    history(past, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) history(past, &event, H_LOAD, history_file.c_str());
    if (edit) el_set(edit, EL_HIST, history, past);
  }
  ~Editor() {
    HistEvent event;
    if (past && !history_file.empty()) history(past, &event, H_SAVE, history_file.c_str());
    if (edit) el_end(edit);
    if (past) history_end(past);
  }
  static char* show_prompt(EditLine* line) {
    void* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt.data();
  }

  EditLine* edit = nullptr;
  ::History* past = nullptr;
  std::string history_file, prompt;
};

LineReader::LineReader(std::string history_file) {
  if (stdin_is_terminal() && stdout_is_terminal()) editor_ = std::make_unique<Editor>(std::move(history_file));
  if (editor_ && !editor_->edit) editor_.reset();
}

LineReader::Outcome LineReader::read(const std::string& prompt, std::string& line) {
  if (!editor_) return read_plain(line);
  editor_->prompt = prompt;
  int count = 0;
  const char* text = el_gets(editor_->edit, &count);
  if (interrupted()) {
    el_reset(editor_->edit);
    std::fputs("\n", stdout);
    return Outcome::Interrupted;
  }
  if (!text || count <= 0) return Outcome::End;
  line.assign(text, static_cast<size_t>(count));
  drop_line_end(line);
  HistEvent event;
  if (!line.empty() && editor_->past) history(editor_->past, &event, H_ENTER, line.c_str());
  return Outcome::Line;
}

#else

struct LineReader::Editor {};

LineReader::LineReader(std::string) {
  if (stdin_is_terminal() && stdout_is_terminal()) editor_ = std::make_unique<Editor>();
}

LineReader::Outcome LineReader::read(const std::string& prompt, std::string& line) {
  if (editor_) write_output(prompt);
  return read_plain(line);
}

#endif

LineReader::~LineReader() = default;

}  // namespace gull::app
