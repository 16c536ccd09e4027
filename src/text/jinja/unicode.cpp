#include "text/jinja/unicode.h"

#include <utf8proc.h>

namespace gull::text::jinja {
namespace {

// Characters whose upper case is several characters, each followed by it (Unicode SpecialCasing, unconditional ones).
constexpr std::string_view kLongUpper =
    " ßSS ŉʼN ǰJ̌ ΐΪ́ ΰΫ́ ևԵՒ ẖH̱ ẗT̈ ẘW̊ ẙY̊ ẚAʾ ὐΥ̓ ὒΥ̓̀ ὔΥ̓́ ὖΥ̓͂ ᾀἈΙ ᾁἉΙ ᾂἊΙ ᾃἋΙ ᾄἌΙ ᾅἍΙ ᾆἎΙ ᾇἏΙ ᾈἈΙ ᾉἉΙ ᾊἊΙ ᾋἋΙ ᾌἌΙ ᾍἍΙ "
    "ᾎἎΙ ᾏἏΙ ᾐἨΙ ᾑἩΙ ᾒἪΙ ᾓἫΙ ᾔἬΙ ᾕἭΙ ᾖἮΙ ᾗἯΙ ᾘἨΙ ᾙἩΙ ᾚἪΙ ᾛἫΙ ᾜἬΙ ᾝἭΙ ᾞἮΙ ᾟἯΙ ᾠὨΙ ᾡὩΙ ᾢὪΙ ᾣὫΙ ᾤὬΙ ᾥὭΙ ᾦὮΙ ᾧὯΙ ᾨὨΙ ᾩὩΙ ᾪὪΙ "
    "ᾫὫΙ ᾬὬΙ ᾭὭΙ ᾮὮΙ ᾯὯΙ ᾲᾺΙ ᾳΑΙ ᾴΆΙ ᾶΑ͂ ᾷΑ͂Ι ᾼΑΙ ῂῊΙ ῃΗΙ ῄΉΙ ῆΗ͂ ῇΗ͂Ι ῌΗΙ ῒΪ̀ ΐΪ́ ῖΙ͂ ῗΪ͂ ῢΫ̀ ΰΫ́ ῤΡ̓ ῦΥ͂ ῧΫ͂ ῲῺΙ ῳΩΙ ῴΏΙ ῶΩ͂ "
    "ῷΩ͂Ι ῼΩΙ ﬀFF ﬁFI ﬂFL ﬃFFI ﬄFFL ﬅST ﬆST ﬓՄՆ ﬔՄԵ ﬕՄԻ ﬖՎՆ ﬗՄԽ ";

std::string_view long_upper(uint32_t code) {
  if (code < 0xDF || (code > 0x587 && code < 0x1E96) || (code > 0x1FFC && code < 0xFB00) || code > 0xFB17) return {};
  std::string key = " ";
  encode(code, key);
  const size_t at = kLongUpper.find(key);
  if (at == std::string_view::npos) return {};
  const size_t from = at + key.size();
  return kLongUpper.substr(from, kLongUpper.find(' ', from) - from);
}

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

}  // namespace

Char decode(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t { return static_cast<unsigned char>(s[i]); };
  const uint32_t b = byte(at);
  if (b < 0x80) return {b, 1};
  const uint32_t size = b >= 0xF0 && b < 0xF5 ? 4 : b >= 0xE0 && b < 0xF0 ? 3 : b >= 0xC2 && b < 0xE0 ? 2 : 0;
  const Char invalid{0xDC00 + b, 1};
  if (size == 0 || s.size() - at < size) return invalid;
  uint32_t code = b & (0x7Fu >> size);
  for (uint32_t i = 1; i < size; i++) {
    if ((byte(at + i) & 0xC0) != 0x80) return invalid;
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  const bool shortest = code >= (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u);
  if (!shortest || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {code, size};
}

void encode(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t b) { out += static_cast<char>(b); };
  if (code < 0x80) return put(code);
  if (code >= 0xDC80 && code <= 0xDCFF) return put(code - 0xDC00);  // a byte that was no UTF-8
  if (code < 0x800) return put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  if (code < 0x10000) return put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
}

size_t length(std::string_view s) {
  size_t n = 0;
  for (size_t i = 0; i < s.size(); i += decode(s, i).size) n++;
  return n;
}

size_t offset_of(std::string_view s, size_t chars) {
  size_t i = 0;
  for (; chars > 0 && i < s.size(); chars--) i += decode(s, i).size;
  return i;
}

bool is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_numeric(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}
bool is_word(uint32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }
bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool is_cased(uint32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

bool is_printable(uint32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP: case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

void append_upper(uint32_t c, std::string& out) {
  if (const auto many = long_upper(c); !many.empty()) out += many;
  else encode(static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void append_lower(uint32_t c, std::string& out) {
  if (c == 0x130) out += "i̇";
  else encode(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
}

void append_title(uint32_t c, std::string& out) {
  const auto title = static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
  const auto many = long_upper(c);
  if (many.empty() || (title != c && c != 0xDF)) return encode(title, out);
  const Char first = decode(many, 0);
  encode(first.code, out);
  out += lower(many.substr(first.size));
}

std::string lower(std::string_view s) {
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < s.size();) {
    const Char c = decode(s, i);
    i += c.size;
    if (c.code == 0x3A3) {  // a capital sigma at the end of a word becomes the final form
      const bool goes_on = i < s.size() && is_alpha(decode(s, i).code);
      encode(in_word && !goes_on ? 0x3C2 : 0x3C3, out);
    } else {
      append_lower(c.code, out);
    }
    in_word = is_alpha(c.code);
  }
  return out;
}

}  // namespace gull::text::jinja
