#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/schema_parts.h"

namespace gull::text::grammar {

std::string gbnf_literal(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    else out += c;
  }
  return out + '"';
}

namespace {

/// A class as GBNF, of characters as a JSON string writes them.
std::string json_class(const std::vector<Range>& ranges) {
  std::vector<Range> plain;
  std::vector<std::string> others;
  const auto add_plain = [&](uint32_t first, uint32_t last) {
    if (first <= last) plain.emplace_back(first, last);
  };
  for (const auto& [first, last] : ranges) {
    // Without control characters, the quote and the backslash: those have escapes.
    uint32_t next = std::max(first, 0x20u);
    for (uint32_t special : {uint32_t{'"'}, uint32_t{'\\'}, 0x7Fu}) {
      if (special < next || special > last) continue;
      add_plain(next, special - 1);
      next = special + 1;
    }
    add_plain(next, last);
    static constexpr std::pair<uint32_t, const char*> escapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
                                                                   {'\t', "\\t"}, {'\b', "\\b"}, {'\f', "\\f"}};
    for (const auto& [code, escape] : escapes)
      if (code >= first && code <= last) others.push_back(gbnf_literal(escape));
  }
  std::string out;
  if (!plain.empty()) {
    out = "[";
    for (const auto& [first, last] : plain) {
      out += fmt::format("\\U{:08X}", first);
      if (last > first) out += fmt::format("-\\U{:08X}", last);
    }
    out += "]";
  }
  for (const auto& other : others) out += (out.empty() ? "" : " | ") + other;
  return others.size() + !plain.empty() > 1 ? "(" + out + ")" : out;
}

const std::vector<Range> kDigits = {{'0', '9'}};
const std::vector<Range> kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<Range> kSpace = {{'\t', '\r'}, {' ', ' '}};

/// The ASCII characters that a class leaves out. Beyond ASCII the dialects of regular expressions differ.
std::vector<Range> ascii_without(const std::vector<Range>& ranges) {
  std::vector<Range> out;
  for (const auto& [first, last] : normalized(ranges, true))
    if (first < 0x80) out.emplace_back(first, std::min(last, 0x7Eu));
  return out;
}

/// Recursive descent over a regular expression; writes GBNF as it goes.
class Pattern {
 public:
  Pattern(std::string_view pattern, std::string_view other) : s_(pattern), other_(other) {}

  Result<std::string> run() {
    std::string out;
    do {
      const bool begins = take('^');
      std::string branch = sequence(0);
      const bool ends = take('$');
      if (!begins) branch = std::string(other_) + "* " + branch;
      if (!ends) branch += " " + std::string(other_) + "*";
      out += (out.empty() ? "" : " | ") + branch;
    } while (error_.empty() && take('|'));
    if (error_.empty() && at_ < s_.size()) stop(s_[at_] == ')' ? "unexpected ')'" : "an anchor inside the pattern");
    if (!error_.empty()) return fail_f(ErrorKind::Unsupported, "pattern '{}': {}", s_, error_);
    return "(" + out + ")";
  }

 private:
  std::string stop(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    at_ = s_.size();
    return {};
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  bool take(char c) { return at_ < s_.size() && s_[at_] == c && (at_++, true); }

  std::string sequence(int depth) {
    std::string out;
    if (depth > 50) return stop("groups are nested too deeply");
    while (error_.empty() && at_ < s_.size() && peek() != '|' && peek() != ')' && peek() != '$') {
      std::string item = atom(depth);
      item = quantified(std::move(item));
      out += (out.empty() ? "" : " ") + item;
    }
    return out.empty() ? "\"\"" : out;
  }

  std::string atom(int depth) {
    if (take('(')) return group(depth);
    if (take('[')) return bracket();
    if (take('.')) return json_class(normalized({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}, {0, 0x1F}}, true));
    if (peek() == '^') return stop("an anchor inside the pattern");
    if (peek() == '*' || peek() == '+' || peek() == '?') return stop("nothing to repeat");
    std::vector<Range> ranges;
    uint32_t code = 0;
    if (!character(code, ranges)) return {};
    if (ranges.empty()) ranges.emplace_back(code, code);
    return class_or_stop(ranges);
  }

  std::string group(int depth) {
    if (take('?')) {
      if (take('<')) {
        if (peek() == '=' || peek() == '!') return stop("look-behind is not supported");
        while (at_ < s_.size() && peek() != '>') at_++;
        take('>');
      } else if (!take(':')) {
        return stop("look-ahead is not supported");
      }
    }
    std::string out;
    do out += (out.empty() ? "" : " | ") + sequence(depth + 1);
    while (error_.empty() && take('|'));
    if (error_.empty() && !take(')')) return stop(peek() == '$' ? "an anchor inside a group" : "a group is not closed");
    return "(" + out + ")";
  }

  std::string quantified(std::string item) {
    char c = peek();
    if (c == '{' && !(peek(1) >= '0' && peek(1) <= '9')) return item;   // a brace that counts nothing
    if (c == '*' || c == '+' || c == '?') {
      at_++;
      item = "(" + item + ")" + c;
    } else if (c == '{') {
      const size_t end = s_.find('}', at_);
      const std::string_view counts = s_.substr(at_ + 1, end == s_.npos ? 0 : end - at_ - 1);
      if (end == s_.npos || counts.find_first_not_of("0123456789,") != counts.npos) return stop("a broken count");
      item = "(" + item + "){" + std::string(counts) + "}";
      at_ = end + 1;
    } else {
      return item;
    }
    take('?');   // which match is preferred does not change what matches
    if (peek() == '*' || peek() == '+' || peek() == '?') return stop("two quantifiers in a row");
    return item;
  }

  std::string class_or_stop(const std::vector<Range>& ranges) {
    std::string out = json_class(normalized(ranges, false));
    return out.empty() ? stop("a character that a JSON string cannot hold") : out;
  }

  std::string bracket() {
    const bool negate = take('^');
    std::vector<Range> ranges;
    while (error_.empty() && peek() != ']') {
      if (at_ >= s_.size()) return stop("a character class is not closed");
      uint32_t first = 0;
      std::vector<Range> several;
      if (!character(first, several)) return {};
      uint32_t last = first;
      if (several.empty() && peek() == '-' && peek(1) != ']' && at_ + 1 < s_.size()) {
        at_++;
        std::vector<Range> wrong;
        if (!character(last, wrong) || !wrong.empty() || last < first) return stop("a broken range in a character class");
      }
      if (several.empty()) ranges.emplace_back(first, last);
      else ranges.insert(ranges.end(), several.begin(), several.end());
    }
    at_++;
    if (!error_.empty()) return {};
    if (negate) ranges.emplace_back(0, 0x1F);
    std::vector<Range> all = normalized(ranges, negate);
    return all.empty() ? stop("an empty character class") : class_or_stop(all);
  }

  /// One character, or a class like \d in `ranges`.
  bool character(uint32_t& code, std::vector<Range>& ranges) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(peek(i)); };
    if (peek() != '\\') {
      const size_t size = byte(0) < 0x80 ? 1 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;   // valid UTF-8: it came from JSON
      code = size == 1 ? byte(0) : byte(0) & (0x7Fu >> size);
      for (size_t i = 1; i < size; i++) code = code << 6 | (byte(i) & 0x3F);
      at_ = std::min(at_ + size, s_.size());
      return true;
    }
    const char c = peek(1);
    at_ = std::min(at_ + 2, s_.size());
    switch (c) {
      case 'd': ranges = kDigits; return true;
      case 'w': ranges = kWord; return true;
      case 's': ranges = kSpace; return true;
      case 'D': ranges = ascii_without(kDigits); return true;
      case 'W': ranges = ascii_without(kWord); return true;
      case 'S': ranges = ascii_without(kSpace); return true;
      case 'n': code = '\n'; return true;
      case 'r': code = '\r'; return true;
      case 't': code = '\t'; return true;
      case 'f': code = '\f'; return true;
      case 'x': return hex(2, code);
      case 'u': return hex(4, code);
      default: break;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\0')
      return stop(fmt::format("'\\{}' is not supported", c ? std::string(1, c) : "")), false;
    at_--;   // an escaped sign stands for itself
    code = byte(0);
    if (code >= 0x80) return stop("a letter must not be escaped"), false;
    at_++;
    return true;
  }
  bool hex(size_t digits, uint32_t& code) {
    for (size_t i = 0; i < digits; i++, at_++) {
      const char c = peek(), l = static_cast<char>(c | 0x20);
      if (!(c >= '0' && c <= '9') && !(l >= 'a' && l <= 'f')) return stop("a broken hexadecimal escape"), false;
      code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : l - 'a' + 10);
    }
    if (code >= 0xD800 && code < 0xE000) return stop("half a surrogate pair"), false;
    return true;
  }

  std::string_view s_, other_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

Result<std::string> pattern_gbnf(std::string_view pattern, std::string_view other) { return Pattern(pattern, other).run(); }

Result<std::string> format_gbnf(std::string_view format) {
  // Days up to 28 only, so that each date exists.
  static constexpr std::string_view date = "[0-9]{3} [1-9] \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" [0-8])";
  static constexpr std::string_view clock = "([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,6})?";
  static constexpr std::string_view zone = "(\"Z\" | [+-] ([01] [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9])";
  static constexpr std::string_view label = "[a-z0-9] ([a-z0-9-]{0,20} [a-z0-9])?";
  static constexpr std::string_view octet = "(\"25\" [0-5] | \"2\" [0-4] [0-9] | \"1\" [0-9]{2} | [1-9]? [0-9])";
  if (format == "date") return std::string(date);
  if (format == "time") return fmt::format("{} {}", clock, zone);
  if (format == "date-time") return fmt::format("{} \"T\" {} {}", date, clock, zone);
  if (format == "uuid") return std::string("[0-9a-f]{8} \"-\" [0-9a-f]{4} \"-\" [0-9a-f]{4} \"-\" [0-9a-f]{4} \"-\" [0-9a-f]{12}");
  if (format == "ipv4") return fmt::format("{0} (\".\" {0}){{3}}", octet);
  if (format == "ipv6") return std::string("[0-9a-f]{1,4} (\":\" [0-9a-f]{1,4}){7}");
  if (format == "hostname") return fmt::format("{0} (\".\" {0}){{0,4}}", label);
  if (format == "email") return fmt::format("[a-z0-9] [a-z0-9_-]{{0,30}} (\".\" [a-z0-9_-]{{1,30}}){{0,3}} \"@\" {0} (\".\" {0}){{1,3}}", label);
  if (format == "uri") return fmt::format("\"http\" \"s\"? \"://\" {0} (\".\" {0}){{0,4}} (\"/\" [A-Za-z0-9._~-]{{0,40}}){{0,8}}", label);
  return fail_f(ErrorKind::Unsupported, "format '{}' is not supported (known: date, time, date-time, uuid, ipv4, ipv6, hostname, email, uri)", format);
}

}  // namespace gull::text::grammar
