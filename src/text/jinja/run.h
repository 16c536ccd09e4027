// The state of one render that every operation shares: the first error, and what is left of the budgets.
#pragma once

#include <fmt/format.h>

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace gull::text::jinja {

/// Bounds of one render. A template is hostile input: it must neither hang nor exhaust the memory or the stack.
struct Limits {
  size_t steps = 10'000'000;               ///< operations
  size_t bytes = size_t{512} << 20;        ///< bytes of all strings and lists that are ever built, temporary ones too
  size_t output = size_t{64} << 20;        ///< bytes of the result
  int call_depth = 400;                    ///< nested statements, expressions and macro calls
  int nesting = 100;                       ///< lists in lists
  size_t range = 100'000;                  ///< items of range(), as jinja2's sandbox has it
};

/// Errors are sticky: the first one is kept, whatever runs after it returns undefined, and every loop ends.
class Run {
 public:
  explicit Run(const Limits& l) : limits(l), steps_left_(l.steps), bytes_left_(l.bytes) {}
  virtual ~Run();

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  int error_line() const { return error_line_; }
  /// Records an error at the current line, unless there is one already. Returns undefined.
  Value fail(std::string message);
  template <class... A>
  Value fail_f(fmt::format_string<A...> format, A&&... args) {
    return fail(fmt::format(format, std::forward<A>(args)...));
  }
  /// Counts operations; false (and an error) when there were too many, or after any error.
  bool step(size_t n = 1);
  /// Counts an operation that reads a string from end to end.
  bool scan(size_t bytes) { return step(1 + bytes / 64); }
  /// Counts bytes before they are allocated; false (and an error) when there were too many.
  bool charge(size_t bytes);

  /// A new string, charged.
  Value make(Text t);
  Value make(std::string s) { return make(Text(std::move(s))); }
  /// A new sequence, charged and checked for nesting.
  Value make(std::vector<Value> items, Sequence::Type type = Sequence::Type::List, std::string label = {});
  /// A new dict, checked for nesting.
  Value make(std::shared_ptr<Dict> dict);

  /// Namespaces can hold each other in circles: they are emptied when the run ends.
  void keep(std::shared_ptr<Dict> attributes) { kept_.push_back(std::move(attributes)); }

  const Limits limits;
  int line = 0;                            ///< of the template, for messages
  int depth = 0;
  std::tm now{};                           ///< for strftime_now

 private:
  std::string error_;
  int error_line_ = 0;
  size_t steps_left_, bytes_left_;
  std::vector<std::shared_ptr<Dict>> kept_;
};

/// Counts one level of nesting for as long as it lives; test `ok` before going deeper.
class Deeper {
 public:
  explicit Deeper(Run& run) : run_(run) {
    ok = ++run_.depth <= run_.limits.call_depth;
    if (!ok) run_.fail("nested too deeply (a macro that calls itself without end?)");
  }
  ~Deeper() { --run_.depth; }
  Deeper(const Deeper&) = delete;
  bool ok;

 private:
  Run& run_;
};

/// Binds the arguments of a call to parameter names, as Python does; reports wrong ones under the name of what is called.
class Params {
 public:
  /// `names`: all parameters in order; the first `required` ones must be given.
  Params(Run& run, std::string_view what, Args& args, std::initializer_list<std::string_view> names, size_t required = 0);
  bool ok() const { return ok_; }
  /// The argument, or nullptr where it was not given.
  const Value* get(size_t i) const { return i < values_.size() ? values_[i] : nullptr; }
  Value value(size_t i, Value fallback) const { return get(i) ? *get(i) : fallback; }
  bool flag(size_t i, bool fallback) const { return get(i) ? get(i)->truthy() : fallback; }
  /// An integer that fits 64 bits; anything else is an error of the call.
  std::optional<int64_t> integer(size_t i, int64_t fallback);

 private:
  Run& run_;
  std::string_view what_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
  bool ok_ = true;
};

}  // namespace gull::text::jinja
