#include "text/tokenizers/utf8.h"

#include <array>

namespace gull::text {
namespace {

bool continuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

constexpr bool printable_latin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct ByteAlphabet {
  std::array<std::string, 256> text;
  std::array<int16_t, 512> byte{};
  ByteAlphabet() {
    byte.fill(-1);
    uint32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      uint32_t shown = printable_latin1(b) ? static_cast<uint32_t>(b) : next++;
      append_utf8(text[static_cast<size_t>(b)], shown);
      byte[shown] = static_cast<int16_t>(b);
    }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0;;) {
    size_t hit = text.find(from, at);
    out.append(text.substr(at, hit - at));
    if (hit == std::string_view::npos) return out;
    out.append(to);
    at = hit + from.size();
  }
}

}  // namespace

CodePoint code_point(std::string_view text, size_t at) {
  auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {first, 1, true};
  if (first < 0xC0 || first >= 0xF8) return {};
  auto length = static_cast<uint32_t>(announced_length(text[at]));
  uint32_t value = first & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (!continuation(text, at + i)) return {};
    value = value << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
  }
  return value > 0x10FFFF ? CodePoint{} : CodePoint{value, length, true};
}

void append_utf8(std::string& out, uint32_t c) {
  auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

std::string_view sanitize_utf8(std::string_view text, std::string& storage) {
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // of a form of this length
  size_t at = 0;
  while (at < text.size()) {
    CodePoint c = code_point(text, at);
    if (!c.valid || c.value < least[c.length]) break;
    at += c.length;
  }
  if (at == text.size()) return text;
  storage.assign(text.substr(0, at));
  while (at < text.size()) {
    CodePoint c = code_point(text, at);
    append_utf8(storage, c.value);
    at += c.length;
  }
  return storage;
}

std::string_view byte_to_printable(uint8_t byte) { return alphabet().text[byte]; }

int printable_to_byte(uint32_t c) { return c < 512 ? alphabet().byte[c] : -1; }

std::string unescape_spaces(std::string_view text) { return replaced(text, escaped_space, " "); }
std::string escape_spaces(std::string_view text) { return replaced(text, " ", escaped_space); }

}  // namespace gull::text
