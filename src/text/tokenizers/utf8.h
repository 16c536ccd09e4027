// UTF-8 as tokenizers see it: lenient about bytes that are not valid, because any bytes may be encoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gull::text {

/// The length that a first byte announces: 1 for ASCII and for continuation bytes, else 2…4.
constexpr size_t announced_length(char first) {
  uint8_t byte = static_cast<uint8_t>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Length of the "character" at `at`: as announced, cut at the end of the text. SPM and Unigram models split so.
inline size_t character_length(std::string_view text, size_t at) {
  size_t length = announced_length(text[at]);
  return length < text.size() - at ? length : text.size() - at;
}

struct CodePoint {
  uint32_t value = 0xFFFD;  ///< U+FFFD for a byte that begins no sequence
  uint32_t length = 1;      ///< bytes taken
  bool valid = false;
};

/// The code point at `at`, or one byte as U+FFFD. Only the form counts, as in llama.cpp: surrogates and sequences that
/// are longer than need be are read as what they say. Never above U+10FFFF.
CodePoint code_point(std::string_view text, size_t at);

void append_utf8(std::string& out, uint32_t code_point);

/// The text with every code point in its shortest form, and U+FFFD for every byte that belongs to none. `storage` holds
/// the result where it differs; other text is returned as it is.
std::string_view sanitize_utf8(std::string_view text, std::string& storage);

/// GPT-2's printable stand-in for a byte, as UTF-8: printable Latin-1 stands for itself, the rest is U+0100 and up.
std::string_view byte_to_printable(uint8_t byte);
/// The byte that a code point stands for there, or −1.
int printable_to_byte(uint32_t code_point);

/// Replaces every U+2581 ("▁") by a space, and back.
std::string unescape_spaces(std::string_view text);
std::string escape_spaces(std::string_view text);
inline constexpr std::string_view escaped_space = "\xE2\x96\x81";

}  // namespace gull::text
