#include "text/grammar/gbnf.h"

#include <algorithm>
#include <unordered_map>

#include "base/log.h"

namespace gull::text::grammar {
namespace {

using NodePtr = std::unique_ptr<Node>;

constexpr int kMaxNesting = 200;
constexpr uint32_t kMaxRepeat = 100000;

class Parser {
 public:
  explicit Parser(std::string_view text) : s_(text) {}

  Result<std::vector<Rule>> run() {
    skip(true);
    while (at_ < s_.size() && error_.empty()) rule();
    if (!error_.empty()) return fail_f(ErrorKind::InvalidArgument, "grammar, line {}: {}", error_line_, error_);
    for (const Rule& r : rules_)
      if (!r.body) return fail_f(ErrorKind::InvalidArgument, "grammar, line {}: rule '{}' is not defined", r.line, r.name);
    return std::move(rules_);
  }

 private:
  NodePtr stop(std::string message) {
    if (error_.empty()) error_ = std::move(message), error_line_ = line_;
    at_ = s_.size();
    return std::make_unique<Node>();
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < s_.size() ? s_[at_ + ahead] : '\0'; }
  static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

  /// Spaces and comments, and line ends where they mean nothing.
  void skip(bool lines) {
    while (at_ < s_.size()) {
      const char c = s_[at_];
      if (c == '#') {
        while (at_ < s_.size() && s_[at_] != '\n' && s_[at_] != '\r') at_++;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        line_ += c == '\n';
        at_++;
      } else {
        return;
      }
    }
  }

  uint32_t rule_index(const std::string& name) {
    const auto [it, fresh] = by_name_.emplace(name, static_cast<uint32_t>(rules_.size()));
    if (fresh) rules_.push_back({name, line_, nullptr});
    return it->second;
  }

  std::string word() {
    const size_t begin = at_;
    while (is_word(peek())) at_++;
    return std::string(s_.substr(begin, at_ - begin));
  }

  void rule() {
    const std::string name = word();
    if (name.empty()) return void(stop(fmt::format("expected the name of a rule, got '{}'", peek())));
    skip(false);
    if (s_.substr(at_, 3) != "::=") return void(stop(fmt::format("expected '::=' after '{}'", name)));
    const uint32_t index = rule_index(name);
    if (rules_[index].body) return void(stop(fmt::format("rule '{}' is defined twice", name)));
    rules_[index].line = line_;
    at_ += 3;
    skip(true);
    NodePtr body = alternatives(false, 0);
    rules_[index].body = std::move(body);
    if (at_ < s_.size() && peek() != '\n' && peek() != '\r') return void(stop(fmt::format("unexpected '{}'", peek())));
    skip(true);
  }

  NodePtr alternatives(bool nested, int depth) {
    if (depth > kMaxNesting) return stop("groups are nested too deeply");
    NodePtr node = std::make_unique<Node>();
    node->kind = Node::Alternatives;
    node->kids.push_back(sequence(nested, depth));
    while (error_.empty()) {
      const size_t here = at_;
      const int line = line_;
      skip(true);   // "|" may begin the next line
      if (peek() != '|') {
        if (!nested) at_ = here, line_ = line;
        break;
      }
      at_++;
      skip(true);
      node->kids.push_back(sequence(nested, depth));
    }
    return node->kids.size() == 1 ? std::move(node->kids[0]) : std::move(node);
  }

  NodePtr sequence(bool nested, int depth) {
    NodePtr node = std::make_unique<Node>();
    while (error_.empty()) {
      const char c = peek();
      NodePtr item;
      if (c == '"') item = literal();
      else if (c == '[') item = char_class();
      else if (c == '.') at_++, item = class_of(normalized({}, true));
      else if (c == '(') item = group(depth);
      else if (is_word(c)) item = reference();
      else break;
      skip(nested);
      item = repeated(std::move(item), nested);
      node->kids.push_back(std::move(item));
    }
    return node;
  }

  static NodePtr class_of(std::vector<Range> ranges) {
    NodePtr node = std::make_unique<Node>();
    node->kind = Node::Class;
    node->ranges = std::move(ranges);
    return node;
  }

  NodePtr reference() {
    NodePtr node = std::make_unique<Node>();
    node->kind = Node::Rule;
    node->rule = rule_index(word());
    return node;
  }

  NodePtr group(int depth) {
    at_++;
    skip(true);
    NodePtr node = alternatives(true, depth + 1);
    skip(true);
    if (peek() != ')') return stop("expected ')'");
    at_++;
    return node;
  }

  NodePtr repeated(NodePtr item, bool nested) {
    for (int stacked = 0; error_.empty(); stacked++) {
      if (stacked > 8) return stop("too many repetition marks in a row");
      uint32_t min = 0, max = kUnlimited;
      const char c = peek();
      if (c == '*' || c == '+' || c == '?') {
        at_++;
        min = c == '+' ? 1 : 0;
        if (c == '?') max = 1;
      } else if (c == '{') {
        at_++;
        if (!counts(min, max)) return item;
      } else {
        return item;
      }
      skip(nested);
      NodePtr node = std::make_unique<Node>();
      node->kind = Node::Repeat;
      node->min = min;
      node->max = max;
      node->kids.push_back(std::move(item));
      item = std::move(node);
    }
    return item;
  }

  /// After "{": "m}", "m,}", "m,n}" or ",n}".
  bool counts(uint32_t& min, uint32_t& max) {
    const auto number = [&](uint32_t fallback) {
      skip(false);
      if (peek() < '0' || peek() > '9') return fallback;
      uint32_t n = 0;
      while (peek() >= '0' && peek() <= '9') n = std::min(n * 10 + static_cast<uint32_t>(peek() - '0'), kMaxRepeat + 1), at_++;
      skip(false);
      return n;
    };
    const bool has_min = peek() != ',';
    min = number(has_min ? kUnlimited : 0);
    if (min == kUnlimited) return stop("expected a number after '{'"), false;
    max = min;
    if (peek() == ',') at_++, max = number(kUnlimited);
    if (peek() != '}') return stop("expected '}'"), false;
    at_++;
    if (max < min) return stop(fmt::format("{{{},{}}} has a maximum below its minimum", min, max)), false;
    if (min > kMaxRepeat || (max != kUnlimited && max > kMaxRepeat)) return stop(fmt::format("more than {} repetitions", kMaxRepeat)), false;
    return true;
  }

  /// One character of a literal or class, escapes resolved.
  bool character(uint32_t& code) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(peek(i)); };
    if (peek() == '\\') {
      const char c = peek(1);
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
      at_ += 2;
      if (digits) return hex(digits, code);
      static constexpr std::string_view names = "nrt\"\\[]-^/.", values = "\n\r\t\"\\[]-^/.";
      const size_t i = c ? names.find(c) : names.npos;
      if (i == names.npos) return stop(fmt::format("unknown escape '\\{}'", c ? std::string(1, c) : "")), false;
      code = static_cast<unsigned char>(values[i]);
      return true;
    }
    const size_t size = byte(0) < 0x80 ? 1 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
    code = size == 1 ? byte(0) : byte(0) & (0x7Fu >> size);
    if (at_ + size > s_.size() || (size > 1 && byte(0) < 0xC2)) return stop("the grammar is not valid UTF-8"), false;
    for (size_t i = 1; i < size; i++) {
      if ((byte(i) & 0xC0) != 0x80) return stop("the grammar is not valid UTF-8"), false;
      code = code << 6 | (byte(i) & 0x3F);
    }
    line_ += code == '\n';
    at_ += size;
    return valid(code);
  }
  bool hex(size_t digits, uint32_t& code) {
    code = 0;
    for (size_t i = 0; i < digits; i++) {
      const char c = peek(), l = static_cast<char>(c | 0x20);
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (l < 'a' || l > 'f')) return stop(fmt::format("expected {} hexadecimal digits", digits)), false;
      code = code * 16 + static_cast<uint32_t>(digit ? c - '0' : l - 'a' + 10);
      at_++;
    }
    return valid(code);
  }
  bool valid(uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return stop(fmt::format("U+{:04X} is no character", code)), false;
    return true;
  }

  static void encode(uint32_t c, std::string& out) {
    const auto put = [&](uint32_t b) { out += static_cast<char>(b); };
    if (c < 0x80) return put(c);
    if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
    if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }

  NodePtr literal() {
    NodePtr node = std::make_unique<Node>();
    node->kind = Node::Literal;
    at_++;
    while (error_.empty() && peek() != '"') {
      if (at_ >= s_.size()) return stop("a literal is not closed");
      uint32_t code = 0;
      if (character(code)) encode(code, node->bytes);
    }
    at_++;
    return node;
  }

  NodePtr char_class() {
    at_++;
    const bool negate = peek() == '^';
    at_ += negate;
    std::vector<Range> ranges;
    while (error_.empty() && peek() != ']') {
      if (at_ >= s_.size()) return stop("a character class is not closed");
      uint32_t first = 0, last = 0;
      if (!character(first)) break;
      last = first;
      if (peek() == '-' && peek(1) != ']') {
        at_++;
        if (!character(last)) break;
        if (last < first) return stop("a range in a character class is the wrong way round");
      }
      ranges.emplace_back(first, last);
    }
    if (!error_.empty()) return std::make_unique<Node>();
    at_++;
    ranges = normalized(std::move(ranges), negate);
    if (ranges.empty()) return stop("a character class is empty");
    return class_of(std::move(ranges));
  }

  std::string_view s_;
  size_t at_ = 0;
  int line_ = 1, error_line_ = 0;
  std::string error_;
  std::vector<Rule> rules_;
  std::unordered_map<std::string, uint32_t> by_name_;
};

}  // namespace

std::vector<Range> normalized(std::vector<Range> ranges, bool negate) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> joined;
  for (const Range& r : ranges) {
    if (!joined.empty() && r.first <= joined.back().second + 1) joined.back().second = std::max(joined.back().second, r.second);
    else joined.push_back(r);
  }
  if (negate) {
    std::vector<Range> others;
    uint32_t next = 0;
    for (const Range& r : joined) {
      if (r.first > next) others.emplace_back(next, r.first - 1);
      next = r.second + 1;
    }
    if (next <= 0x10FFFF) others.emplace_back(next, 0x10FFFF);
    joined = std::move(others);
  }
  std::vector<Range> out;   // without surrogates
  for (const auto& [first, last] : joined) {
    if (first < 0xD800) out.emplace_back(first, std::min(last, 0xD7FFu));
    if (last > 0xDFFF) out.emplace_back(std::max(first, 0xE000u), last);
  }
  return out;
}

Result<std::vector<Rule>> parse_gbnf(std::string_view text) { return Parser(text).run(); }

}  // namespace gull::text::grammar
