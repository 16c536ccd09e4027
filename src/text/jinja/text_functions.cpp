// Operations on strings that methods and filters share. They keep track of what is input.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

bool strips(uint32_t code, const Value* characters) {
  if (!characters || !characters->is_string()) return is_space(code);
  const std::string_view set = characters->as_view();
  for (size_t i = 0; i < set.size();) {
    const Char c = decode(set, i);
    if (c.code == code) return true;
    i += c.size;
  }
  return false;
}

}  // namespace

Text strip(const Text& t, const Value* characters, bool left, bool right) {
  const std::string_view s = t.view();
  size_t begin = 0, end = s.size();
  while (left && begin < end && strips(decode(s, begin).code, characters)) begin += decode(s, begin).size;
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && end - at < 4 && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80) at--;
    if (at + decode(s, at).size != end) at = end - 1;   // a stray byte
    if (!strips(decode(s, at).code, characters)) break;
    end = at;
  }
  return t.slice(begin, end);
}

Text replaced(Run& run, const Text& t, const Text& old, const Text& fresh, int64_t count) {
  Text out;
  size_t from = 0, last = 0;
  // What is put in place of input is input itself: else a message could choose where the template's text appears.
  const auto put = [&](size_t begin, size_t end) {
    if (!run.charge(fresh.size() + 16)) return;
    out.append(t, from, begin);
    if (begin < end && t.has_input(begin, end)) out.append(fresh.view(), true);
    else out.append(fresh);
    from = end;
  };
  if (count == 0 || !run.scan(t.size())) return t;
  if (old.empty()) {   // between all characters
    for (size_t i = 0;; i += decode(t.view(), i).size) {
      if (count-- == 0 || run.failed()) break;
      put(i, i);
      if (i >= t.size()) break;
    }
  } else {
    each_match(t.view(), old.view(), [&](size_t at) {
      if (at < last) return true;
      last = at + old.size();
      put(at, last);
      return --count != 0 && !run.failed();
    });
  }
  out.append(t, from, t.size());
  return out;
}

namespace {
Text mapped(const Text& t, void (*f)(uint32_t, std::string&)) {
  Text out;
  out.markup = t.markup;
  t.each_run([&](std::string_view run, bool input) {
    std::string piece;
    for (size_t i = 0; i < run.size(); i += decode(run, i).size) f(decode(run, i).code, piece);
    out.append(piece, input);
  });
  return out;
}
}  // namespace

Text upper(const Text& t) { return mapped(t, append_upper); }

Text lowered(const Text& t) {
  Text out;
  out.markup = t.markup;
  t.each_run([&](std::string_view run, bool input) { out.append(lower(run), input); });
  return out;
}

Text capitalized(const Text& t) {
  if (t.empty()) return t;
  const size_t first = decode(t.view(), 0).size;
  Text out = mapped(t.slice(0, first), append_title);
  out.append(lowered(t.slice(first, t.size())));
  return out;
}

std::vector<Text> lines_of(Run& run, const Text& t, bool keep_ends) {
  std::vector<Text> out;
  const std::string_view s = t.view();
  size_t begin = 0;
  for (size_t i = 0; i < s.size();) {
    const Char c = decode(s, i);
    i += c.size;
    if (!is_line_break(c.code)) continue;
    if (!run.charge(2 * sizeof(Text))) return {};
    const size_t end = i - c.size;
    if (c.code == '\r' && i < s.size() && s[i] == '\n') i++;
    out.push_back(t.slice(begin, keep_ends ? i : end));
    begin = i;
  }
  if (begin < s.size()) out.push_back(t.slice(begin, s.size()));
  return out;
}

}  // namespace gull::text::jinja
