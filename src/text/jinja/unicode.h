// Characters of UTF-8 strings, with Python's rules for white space, case and classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gull::text::jinja {

struct Char {
  uint32_t code;   ///< a byte that is no valid UTF-8 counts as one character 0xDC80 + …, as Python's surrogateescape does
  uint32_t size;   ///< in bytes, at least 1
};

/// The character at a byte offset (which must be inside).
Char decode(std::string_view s, size_t at);
void encode(uint32_t code, std::string& out);
/// Number of characters.
size_t length(std::string_view s);
/// Byte offset of a character; the size of the string when there are fewer.
size_t offset_of(std::string_view s, size_t chars);

bool is_space(uint32_t code);        ///< str.isspace
bool is_word(uint32_t code);         ///< \w of Python's re
bool is_alpha(uint32_t code);
bool is_decimal(uint32_t code);
bool is_numeric(uint32_t code);
bool is_upper(uint32_t code);
bool is_lower(uint32_t code);
bool is_cased(uint32_t code);
bool is_printable(uint32_t code);    ///< else repr() escapes it
/// str.splitlines: \n, \r, \v, \f, \x1c–\x1e, \x85, U+2028, U+2029.
bool is_line_break(uint32_t code);

/// Appends the full upper, lower or title case of one character ("ß" → "SS").
void append_upper(uint32_t code, std::string& out);
void append_lower(uint32_t code, std::string& out);
void append_title(uint32_t code, std::string& out);
std::string lower(std::string_view s);

}  // namespace gull::text::jinja
