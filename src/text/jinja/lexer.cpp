#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  const char l = static_cast<char>(c | 0x20);
  return l >= 'a' && l <= 'z' ? l - 'a' + 10 : 99;
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

/// \r\n and \r become \n; one newline at the very end is dropped.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); i++) {
    if (source[i] != '\r') out += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n') out += '\n';
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : s_(source) {}

  Syntax<std::vector<Token>> run() {
    while (at_ < s_.size() && !error_) text_and_tag();
    if (error_) return std::unexpected(*error_);
    add(Token::End, {});
    return std::move(tokens_);
  }

 private:
  void fail(std::string message) {
    if (!error_) error_ = SyntaxError{std::move(message), line_};
    at_ = s_.size();
  }
  bool looking_at(std::string_view what) const { return s_.substr(at_, what.size()) == what; }
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }

  /// Moves on, counting lines.
  void skip(size_t n) {
    line_ += static_cast<int>(std::count(s_.begin() + static_cast<ptrdiff_t>(at_), s_.begin() + static_cast<ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
    line_start_ = at_ > 0 && s_[at_ - 1] == '\n';
  }
  void skip_space() {
    size_t end = at_;
    while (end < s_.size()) {
      const Char c = decode(s_, end);
      if (!is_space(c.code)) break;
      end += c.size;
    }
    if (end > at_) skip(end - at_);
  }
  Token& add(Token::Type type, std::string text) {
    tokens_.push_back({type, line_, std::move(text)});
    return tokens_.back();
  }

  /// Text up to the next tag, then the tag.
  void text_and_tag() {
    size_t tag = at_;
    while ((tag = s_.find('{', tag)) != s_.npos && (tag + 1 >= s_.size() || (s_[tag + 1] != '{' && s_[tag + 1] != '%' && s_[tag + 1] != '#')))
      tag++;
    if (tag == s_.npos) return add_text(s_.size(), '+', false);
    const char kind = s_[tag + 1];
    const char sign = tag + 2 < s_.size() && (s_[tag + 2] == '-' || s_[tag + 2] == '+') ? s_[tag + 2] : '\0';
    add_text(tag, sign, kind != '{');
    if (kind == '#') return comment(sign ? 3 : 2);
    if (kind == '%' && raw()) return;
    add(kind == '{' ? Token::PrintBegin : Token::BlockBegin, {});
    skip(sign ? 3 : 2);
    tag_tokens(kind == '{');
  }

  /// Adds the text before `end`, stripped as the sign of the tag that follows asks (`-`, `+` or none).
  void add_text(size_t end, char sign, bool strips_line) {
    std::string_view text = s_.substr(at_, end - at_);
    if (sign == '-') {
      text = text.substr(0, trimmed_size(text));
    } else if (sign != '+' && strips_line) {
      const size_t newline = text.rfind('\n');
      const size_t from = newline == text.npos ? 0 : newline + 1;
      if ((from > 0 || line_start_) && trimmed_size(text.substr(from)) == 0) text = text.substr(0, from);
    }
    if (!text.empty()) add(Token::Data, std::string(text));
    if (end > at_) skip(end - at_);
  }
  static size_t trimmed_size(std::string_view text) {
    size_t keep = 0;
    for (size_t i = 0; i < text.size();) {
      const Char c = decode(text, i);
      i += c.size;
      if (!is_space(c.code)) keep = i;
    }
    return keep;
  }

  /// After the end of a block or comment: `-` strips all white space, else one newline goes unless `+` kept it.
  void after_block_end(char sign) {
    if (sign == '-') skip_space();
    else if (sign != '+' && peek() == '\n') skip(1);
  }

  void comment(size_t opening) {
    const size_t end = s_.find("#}", at_ + opening);
    if (end == s_.npos) return fail("a comment is not closed: '#}' is missing");
    const char sign = end > at_ + opening ? s_[end - 1] : '\0';
    skip(end + 2 - at_);
    after_block_end(sign);
  }

  /// {% raw %} … {% endraw %}; false if this block is another one.
  bool raw() {
    const size_t begin = at_;
    const auto matches = [&](size_t& at, std::string_view word) {
      at += 2;
      if (at < s_.size() && (s_[at] == '-' || s_[at] == '+')) at++;
      const auto spaces = [&] { while (at < s_.size() && is_space(decode(s_, at).code)) at += decode(s_, at).size; };
      spaces();
      if (s_.substr(at, word.size()) != word) return false;
      at += word.size();
      spaces();
      return true;
    };
    size_t at = begin;
    if (!matches(at, "raw")) return false;
    const bool strips = s_.substr(at, 3) == "-%}";
    if (!strips && s_.substr(at, 2) != "%}") return false;
    skip(at + (strips ? 3 : 2) - at_);
    if (strips) skip_space();
    for (size_t end = at_; (end = s_.find("{%", end)) != s_.npos; end++) {
      size_t after = end;
      if (!matches(after, "endraw")) continue;
      const char sign = after < s_.size() && (s_[after] == '-' || s_[after] == '+') ? s_[after] : '\0';
      if (s_.substr(after + (sign ? 1 : 0), 2) != "%}") continue;
      const char open_sign = s_[end + 2] == '-' || s_[end + 2] == '+' ? s_[end + 2] : '\0';
      add_text(end, open_sign, true);
      skip(after + (sign ? 3 : 2) - at_);
      after_block_end(sign);
      return true;
    }
    fail("a raw block is not closed: '{% endraw %}' is missing");
    return true;
  }

  /// The tokens inside {{ }} or {% %}, and its end.
  void tag_tokens(bool print) {
    const std::string_view close = print ? "}}" : "%}";
    std::string brackets;
    while (!error_) {
      skip_space();
      if (at_ >= s_.size()) return fail(print ? "'{{' is not closed" : "'{%' is not closed");
      if (brackets.empty()) {
        const char sign = peek() == '-' || (peek() == '+' && !print) ? peek() : '\0';
        if (s_.substr(at_ + (sign ? 1 : 0), 2) == close) {
          add(print ? Token::PrintEnd : Token::BlockEnd, {});
          skip(sign ? 3 : 2);
          if (!print) after_block_end(sign);
          else if (sign == '-') skip_space();
          return;
        }
      }
      const char c = peek();
      if (is_digit(c)) number();
      else if (is_name_start(c)) name();
      else if (c == '\'' || c == '"') string(c);
      else operator_(brackets);
    }
  }

  void name() {
    size_t n = 0;
    while (is_name_part(peek(n))) n++;
    add(Token::Name, std::string(s_.substr(at_, n)));
    skip(n);
  }

  size_t digits(size_t from) const {   // 1_000: underscores between digits
    size_t i = from;
    while (is_digit(peek(i)) || (peek(i) == '_' && i > from && is_digit(peek(i + 1)))) i++;
    return i;
  }

  void number() {
    const char second = static_cast<char>(peek(1) | 0x20);
    const int base = peek() != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    size_t n = base == 10 ? digits(0) : 2;
    if (base != 10) while (digit_value(peek(n)) < base || (peek(n) == '_' && digit_value(peek(n + 1)) < base)) n++;
    bool is_float = false;
    if (base == 10 && !(at_ > 0 && s_[at_ - 1] == '.')) {   // x.0.1 is an index of an index
      if (peek(n) == '.' && is_digit(peek(n + 1))) n = digits(n + 1), is_float = true;
      const size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 1 : 0;
      if ((peek(n) | 0x20) == 'e' && is_digit(peek(n + 1 + sign))) n = digits(n + 1 + sign), is_float = true;
    }
    std::string plain(s_.substr(at_, n));
    std::erase(plain, '_');
    Token& token = add(is_float ? Token::Float : Token::Integer, plain);
    if (is_float) {
      token.number = std::strtod(plain.c_str(), nullptr);
    } else {
      if (base == 10 && plain.size() > 1 && plain[0] == '0' && plain.find_first_not_of('0') != plain.npos)
        return fail(fmt::format("the number {} starts with a zero", plain));
      if (plain.size() > 36) return fail("an integer is too large");
      for (size_t i = base == 10 ? 0 : 2; i < plain.size(); i++) {
        if (__builtin_mul_overflow(token.integer, Int(base), &token.integer) ||
            __builtin_add_overflow(token.integer, Int(digit_value(plain[i])), &token.integer))
          return fail("an integer is too large");
      }
    }
    skip(n);
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) return fail("a string is not closed");
    std::string value;
    if (!unescape(s_.substr(at_ + 1, end - at_ - 1), value)) return fail("a string has a broken escape sequence");
    add(Token::String, std::move(value));
    skip(end + 1 - at_);
  }

  /// Reads `n` hexadecimal digits at s[i].
  static bool hex(std::string_view s, size_t i, size_t n, uint32_t& out) {
    if (i + n > s.size()) return false;
    out = 0;
    for (size_t k = i; k < i + n; k++) {
      if (digit_value(s[k]) > 15) return false;
      out = out * 16 + static_cast<uint32_t>(digit_value(s[k]));
    }
    return true;
  }

  /// Python's escapes. Surrogate halves are joined; one alone is no character.
  static bool unescape(std::string_view s, std::string& out) {
    static constexpr std::string_view letters = "abfnrtv", values = "\a\b\f\n\r\t\v";
    for (size_t i = 0; i < s.size(); i++) {
      if (s[i] != '\\') { out += s[i]; continue; }
      const char c = s[++i];
      const size_t simple = letters.find(c);
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      uint32_t code = 0;
      if (simple != letters.npos) {
        out += values[simple];
      } else if (c == '\n') {
      } else if (c == '\\' || c == '\'' || c == '"') {
        out += c;
      } else if (c >= '0' && c <= '7') {
        size_t k = i;
        while (k < s.size() && k < i + 3 && s[k] >= '0' && s[k] <= '7') code = code * 8 + static_cast<uint32_t>(s[k++] - '0');
        encode(code, out);
        i = k - 1;
      } else if (n > 0) {
        if (!hex(s, i + 1, n, code)) return false;
        i += n;
        uint32_t low = 0;
        if (code >= 0xD800 && code < 0xDC00 && s.substr(i + 1, 2) == "\\u" && hex(s, i + 3, 4, low) && low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
        encode(code, out);
      } else if (c == 'N') {
        return false;
      } else {
        out += '\\';
        out += c;
      }
    }
    return true;
  }

  void operator_(std::string& brackets) {
    static constexpr std::string_view two[] = {"//", "**", "==", "!=", ">=", "<="};
    const char c = peek();
    size_t n = 1;
    for (auto op : two)
      if (looking_at(op)) n = 2;
    if (n == 1 && std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos)
      return fail(fmt::format("unexpected character '{}'", s_.substr(at_, decode(s_, at_).size)));
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) return fail(fmt::format("unexpected '{}'", c));
      if (brackets.back() != c) return fail(fmt::format("unexpected '{}', expected '{}'", c, brackets.back()));
      brackets.pop_back();
    }
    add(Token::Operator, std::string(s_.substr(at_, n)));
    skip(n);
  }

  std::string_view s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;     ///< the last thing read ended a line
  std::vector<Token> tokens_;
  std::optional<SyntaxError> error_;
};

}  // namespace

Syntax<std::vector<Token>> tokenize(std::string_view source) {
  const std::string clean = normalized(source);
  return Lexer(clean).run();
}

}  // namespace gull::text::jinja
