// A string of the template language that knows where its bytes came from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gull::text::jinja {

/// Bytes written by the template are trusted; bytes of messages, tools and further variables are "input". Every operation
/// that builds a string keeps the two apart, so that only the template can write control tokens.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, bool input = false) : bytes_(std::move(bytes)) {
    if (input && !bytes_.empty()) marks_.push_back(0);
  }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Whether any byte is input.
  bool has_input() const { return !marks_.empty(); }
  /// Whether any byte of [begin, end) is input.
  bool has_input(size_t begin, size_t end) const;

  void append(std::string_view bytes, bool input);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// Appends bytes [begin, end) of another text.
  void append(const Text& other, size_t begin, size_t end);
  Text slice(size_t begin, size_t end) const;

  /// Calls f(bytes, input) for each stretch of one origin in [begin, end).
  template <class F>
  void each_run(size_t begin, size_t end, F&& f) const {
    bool input = false;
    size_t from = begin;
    for (size_t mark : marks_) {
      if (mark >= end) break;
      if (mark > from) f(view().substr(from, mark - from), input), from = mark;
      input = !input;
    }
    if (end > from) f(view().substr(from, end - from), input);
  }
  template <class F>
  void each_run(F&& f) const { each_run(0, size(), std::forward<F>(f)); }

  /// Set by the filters `safe` and `escape`: joining it with other strings escapes those for HTML.
  bool markup = false;

 private:
  std::string bytes_;
  std::vector<size_t> marks_;  ///< ascending offsets where the origin flips; it starts as "template"
};

}  // namespace gull::text::jinja
