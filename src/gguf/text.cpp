#include "gguf/text.h"

#include <fmt/format.h>

namespace gull::gguf {
namespace {

/// Length of the well-formed UTF-8 character at the front of `text` (Unicode table 3-7), or 0.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : (lead & 0xF0) == 0xE0       ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) > 0x9F) || (lead == 0xF0 && at(1) < 0x90) ||
      (lead == 0xF4 && at(1) > 0x8F))
    return 0;
  return length;
}

/// C0 and C1 controls, and the line separators and direction marks (U+2028–202E, U+2066–2069) that would break a line.
bool is_control(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F;
  if (character.size() == 2) return character >= "\u0080" && character <= "\u009F";
  return (character >= "\u2028" && character <= "\u202E") || (character >= "\u2066" && character <= "\u2069");
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t i = 0;
  while (i < text.size() && out.size() < limit) {
    const size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control(text.substr(i, length))) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  if (i < text.size()) out += "…";
  return out;
}

}  // namespace gull::gguf
