#include "text/jinja/text.h"

namespace gull::text::jinja {

bool Text::has_input(size_t begin, size_t end) const {
  bool found = false;
  each_run(begin, end, [&](std::string_view, bool input) { found = found || input; });
  return found;
}

void Text::append(std::string_view bytes, bool input) {
  if (bytes.empty()) return;
  const bool at_end = marks_.size() % 2 == 1;
  if (at_end != input) marks_.push_back(bytes_.size());
  bytes_.append(bytes);
}

void Text::append(const Text& other, size_t begin, size_t end) {
  other.each_run(begin, end, [&](std::string_view bytes, bool input) { append(bytes, input); });
}

Text Text::slice(size_t begin, size_t end) const {
  Text out;
  out.markup = markup;
  if (begin < end) out.append(*this, begin, end);
  return out;
}

}  // namespace gull::text::jinja
