#include "text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

/// What both notations say about one value.
struct Spec {
  Text fill;                       ///< empty: a space, or 0
  char align = 0;                  ///< < > ^ =, 0: by type
  char sign = '-';                 ///< '+', ' ' or '-'
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  int64_t precision = -1;
  char group = 0;                  ///< , or _
  char type = 0;
};

constexpr int64_t kMaxPrecision = 400;

/// The digits of |i| in a base.
std::string digits_of(Int i, unsigned base, bool capitals) {
  auto rest = i < 0 ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
  std::string out;
  do {
    const auto digit = static_cast<unsigned>(rest % base);
    out += static_cast<char>(digit < 10 ? '0' + digit : (capitals ? 'A' : 'a') + digit - 10);
    rest /= base;
  } while (rest != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string grouped(std::string digits, char separator, size_t size) {
  size_t end = digits.find_first_of(".e%");
  if (end == digits.npos) end = digits.size();
  for (size_t i = end; i > size; i -= size) digits.insert(i - size, 1, separator);
  return digits;
}

/// Sign, prefix and digits padded to the width.
Text padded_number(Run& run, bool negative, std::string_view prefix, std::string digits, const Spec& s) {
  std::string head = negative ? "-" : s.sign == '-' ? "" : std::string(1, s.sign);
  head += prefix;
  const auto size = static_cast<int64_t>(head.size() + digits.size());
  const size_t missing = s.width > size ? static_cast<size_t>(s.width - size) : 0;
  if (!run.charge(missing * 4 + digits.size())) return {};
  const char align = s.align ? s.align : s.zero ? '=' : '>';
  Text pad;
  for (size_t i = 0; i < missing; i++) s.fill.empty() ? pad.append(s.zero ? "0" : " ", false) : pad.append(s.fill);
  Text out;
  const auto put_left = [&](size_t chars) { out.append(pad, 0, offset_of(pad.view(), chars)); };
  const size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  put_left(left);
  out.append(head, false);
  if (align == '=') out.append(pad);
  out.append(digits, false);
  if (align == '<' || align == '^') out.append(pad, offset_of(pad.view(), left), pad.size());
  return out;
}

Text padded_text(Run& run, Text t, const Spec& s) {
  if (s.precision >= 0) t = t.slice(0, offset_of(t.view(), static_cast<size_t>(s.precision)));
  const auto size = static_cast<int64_t>(length(t.view()));
  const size_t missing = s.width > size ? static_cast<size_t>(s.width - size) : 0;
  if (!run.charge(missing * 4 + t.size())) return {};
  const size_t left = s.align == '>' ? missing : s.align == '^' ? missing / 2 : 0;
  Text out;
  const auto pad = [&](size_t n) {
    while (n-- > 0) s.fill.empty() ? out.append(" ", false) : out.append(s.fill);
  };
  pad(left);
  out.append(t);
  pad(missing - left);
  return out;
}

Text integer_text(Run& run, Int i, const Spec& s) {
  const unsigned base = s.type == 'b' ? 2 : s.type == 'o' ? 8 : s.type == 'x' || s.type == 'X' ? 16 : 10;
  std::string digits = digits_of(i, base, s.type == 'X');
  if (s.group) digits = grouped(std::move(digits), s.group, base == 10 ? 3 : 4);
  if (s.precision > kMaxPrecision) return run.fail("format: the precision is too large"), Text();
  while (static_cast<int64_t>(digits.size()) < s.precision) digits.insert(digits.begin(), '0');
  const std::string prefix = s.alternate && base != 10 ? fmt::format("0{}", s.type) : "";
  return padded_number(run, i < 0, prefix, std::move(digits), s);
}

Text float_text(Run& run, double d, const Spec& s) {
  if (s.precision > kMaxPrecision) return run.fail("format: the precision is too large"), Text();
  const int precision = s.precision < 0 ? 6 : static_cast<int>(s.precision);
  const bool negative = std::signbit(d) && !std::isnan(d);
  const double a = std::fabs(d);
  std::string digits;
  if (!std::isfinite(a)) {
    digits = std::isnan(a) ? "nan" : "inf";
    if (s.type == 'F' || s.type == 'E' || s.type == 'G') digits = std::isnan(a) ? "NAN" : "INF";
  } else {
    switch (s.type) {
      case 'f': case 'F': digits = s.alternate ? fmt::format("{:#.{}f}", a, precision) : fmt::format("{:.{}f}", a, precision); break;
      case 'e': digits = fmt::format("{:.{}e}", a, precision); break;
      case 'E': digits = fmt::format("{:.{}E}", a, precision); break;
      case 'G': digits = fmt::format("{:.{}G}", a, std::max(precision, 1)); break;
      case '%': digits = fmt::format("{:.{}f}%", a * 100, precision); break;
      case 0: digits = s.precision < 0 ? float_to_string(a) : fmt::format("{:.{}g}", a, std::max(precision, 1)); break;
      default: digits = fmt::format("{:.{}g}", a, std::max(precision, 1)); break;
    }
  }
  if (s.group) digits = grouped(std::move(digits), s.group, 3);
  return padded_number(run, negative, "", std::move(digits), s);
}

// ---- "%s" % values

class Percent {
 public:
  Percent(Run& run, const Text& format, const Value& values) : run_(run), format_(format), values_(values) {
    tuple_ = values.is(Kind::Sequence) && values.as_sequence().type == Sequence::Type::Tuple;
  }

  Value render() {
    const std::string_view s = format_.view();
    size_t from = 0;
    while (!run_.failed() && run_.step()) {
      const size_t at = s.find('%', from);
      out_.append(format_, from, std::min(at, s.size()));
      if (at == s.npos) break;
      from = at + 1;
      one(s, from);
    }
    const bool all_used = tuple_ ? next_ >= values_.as_sequence().items.size() : next_ > 0 || values_.is(Kind::Dict) || values_.is(Kind::Sequence) || values_.is_undefined();
    if (!all_used) return run_.fail("not all arguments were converted during string formatting");
    return run_.make(std::move(out_));
  }

 private:
  Value take() {
    const size_t i = next_++;
    if (tuple_ && i < values_.as_sequence().items.size()) return values_.as_sequence().items[i];
    if (!tuple_ && i == 0) return values_;
    return run_.fail("not enough arguments for the format string");
  }

  int64_t number(std::string_view s, size_t& i) {
    if (i < s.size() && s[i] == '*') {
      i++;
      const Value v = take();
      if (!v.is_integral() || v.as_int() < INT32_MIN || v.as_int() > INT32_MAX) return run_.fail("* wants an int"), 0;
      return static_cast<int64_t>(v.as_int());
    }
    int64_t n = 0;
    while (i < s.size() && s[i] >= '0' && s[i] <= '9' && n < INT32_MAX) n = n * 10 + (s[i++] - '0');
    return n;
  }

  void one(std::string_view s, size_t& i) {
    Value value;
    bool named = false;
    if (i < s.size() && s[i] == '(') {
      const size_t end = s.find(')', i);
      if (end == s.npos) return void(run_.fail("incomplete format key"));
      if (!values_.is(Kind::Dict)) return void(run_.fail("format requires a mapping"));
      const Value* found = values_.as_dict().find(s.substr(i + 1, end - i - 1));
      if (!found) return void(run_.fail_f("the format string names '{}', which is not there", s.substr(i + 1, end - i - 1)));
      value = *found, named = true;
      i = end + 1;
    }
    Spec spec;
    bool left = false;
    for (; i < s.size() && std::string_view("-+ #0").find(s[i]) != std::string_view::npos; i++) {
      if (s[i] == '-') left = true;
      else if (s[i] == '0') spec.zero = true;
      else if (s[i] == '#') spec.alternate = true;
      else if (spec.sign != '+') spec.sign = s[i];
    }
    spec.width = number(s, i);
    if (spec.width < 0) left = true, spec.width = -spec.width;
    if (i < s.size() && s[i] == '.') spec.precision = std::max<int64_t>(0, number(s, ++i));
    while (i < s.size() && (s[i] == 'h' || s[i] == 'l' || s[i] == 'L')) i++;
    if (i >= s.size()) return void(run_.fail("incomplete format"));
    spec.align = left ? '<' : 0;
    if (left) spec.zero = false;
    const char type = s[i++];
    if (type == '%') return out_.append("%", false);
    if (!named) value = take();
    if (!run_.failed()) convert(type, value, spec);
  }

  void convert(char type, const Value& v, Spec spec) {
    if (type == 's' || type == 'r' || type == 'a') {
      if (!spec.align) spec.align = '>';
      return out_.append(padded_text(run_, type == 's' ? to_text(run_, v) : to_repr(run_, v), spec));
    }
    if (type == 'c') {
      Text c = v.is_string() ? v.as_text() : Text();
      if (v.is_integral() && v.as_int() >= 0 && v.as_int() < 0x110000) {
        std::string one_char;
        encode(static_cast<uint32_t>(v.as_int()), one_char);
        c = Text(one_char, true);   // a number may come from anywhere
      }
      if (length(c.view()) != 1) return void(run_.fail("%c requires a number or one character"));
      return out_.append(padded_text(run_, c, spec));
    }
    const bool integer = std::string_view("diuoxX").find(type) != std::string_view::npos;
    if (!integer && std::string_view("eEfFgG").find(type) == std::string_view::npos)
      return void(run_.fail_f("unsupported format character '{}'", type));
    if (v.is_undefined()) return void(run_.fail(v.why_undefined()));
    if (!v.is_number()) return void(run_.fail_f("%{} format: a number is required, not {}", type, v.type_name()));
    spec.type = type == 'i' || type == 'u' ? 'd' : type;
    if (!integer) return out_.append(float_text(run_, v.as_float(), spec));
    if (v.is(Kind::Float) && (type == 'o' || type == 'x' || type == 'X' || !(std::fabs(v.as_float()) < 1e37)))
      return void(run_.fail_f("%{} format: an integer is required, not float", type));
    out_.append(integer_text(run_, v.is(Kind::Float) ? static_cast<Int>(v.as_float()) : v.as_int(), spec));
  }

  Run& run_;
  const Text& format_;
  const Value& values_;
  bool tuple_ = false;
  size_t next_ = 0;
  Text out_;
};

// ---- "{}".format(values)

class Braces {
 public:
  Braces(Run& run, const Args& args) : run_(run), args_(args) {}

  Text render(const Text& format, int level) {
    Text out;
    const std::string_view s = format.view();
    for (size_t i = 0; i < s.size() && run_.step();) {
      const size_t at = std::min(s.find_first_of("{}", i), s.size());
      out.append(format, i, at);
      if (at == s.size()) break;
      if (at + 1 < s.size() && s[at + 1] == s[at]) {
        out.append(format, at, at + 1);
        i = at + 2;
      } else if (s[at] == '}') {
        return run_.fail("single '}' in a format string"), out;
      } else {
        i = field(format, at + 1, level, out);
      }
    }
    return out;
  }

 private:
  /// The field after '{'; returns the offset after its '}'.
  size_t field(const Text& format, size_t begin, int level, Text& out) {
    const std::string_view s = format.view();
    size_t end = begin;
    for (int open = 1; end < s.size(); end++) {
      if (s[end] == '{') open++;
      if (s[end] == '}' && --open == 0) break;
    }
    if (end >= s.size()) return run_.fail("expected '}' before the end of a format string"), s.size();
    if (level > 1) return run_.fail("a format string is nested too deeply"), s.size();
    size_t name_end = begin;
    while (name_end < end && s[name_end] != '!' && s[name_end] != ':') name_end += s[name_end] == '[' ? std::min(s.find(']', name_end), end) - name_end : 1;
    Value value = lookup(s.substr(begin, name_end - begin));
    size_t i = name_end;
    char conversion = 0;
    if (i < end && s[i] == '!') {
      conversion = i + 1 < end ? s[i + 1] : 0;
      i += 2;
      if (conversion != 'r' && conversion != 's' && conversion != 'a') return run_.fail("a format string has an unknown conversion"), s.size();
    }
    Text spec;
    if (i < end && s[i] == ':') spec = render(format.slice(i + 1, end), level + 1);
    if (!run_.failed()) out.append(conversion ? formatted(text(conversion == 's' ? to_text(run_, value) : to_repr(run_, value)), spec) : formatted(value, spec));
    return end + 1;
  }

  Value lookup(std::string_view name) {
    const size_t first = std::min(name.find_first_of(".["), name.size());
    const std::string_view head = name.substr(0, first);
    Value v;
    bool found = false;
    if (head.empty() || head.find_first_not_of("0123456789") == head.npos) {
      size_t i = 0;
      for (char c : head) i = std::min<size_t>(i * 10 + static_cast<size_t>(c - '0'), 1000000);
      if (head.empty()) i = next_++;
      found = i < args_.positional.size();
      if (found) v = args_.positional[i];
    } else {
      for (const auto& [key, value] : args_.named)
        if (key == head) v = value, found = true;
    }
    if (!found) return run_.fail_f("the format string names argument '{}', which is not there", head);
    for (size_t i = first; i < name.size() && !run_.failed();) {
      const bool item = name[i] == '[';
      const size_t end = item ? name.find(']', i) : std::min(name.find_first_of(".[", i + 1), name.size());
      if (end == name.npos) return run_.fail("missing ']' in a format string");
      const std::string_view part = name.substr(i + 1, end - i - 1);
      const bool index = item && !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
      v = !item ? get_attribute(run_, v, part) : get_item(run_, v, index ? Value(std::atoi(std::string(part).c_str())) : text(std::string(part)));
      i = end + (item ? 1 : 0);
    }
    return v;
  }

  Text formatted(const Value& v, const Text& spec_text) {
    if (spec_text.empty()) return to_text(run_, v);
    Spec s;
    if (!parse(spec_text, s)) return run_.fail_f("invalid format specifier '{}'", spec_text.view()), Text();
    const bool number_type = s.type && s.type != 's';
    if (v.is_string()) {
      if (number_type) return run_.fail_f("unknown format code '{}' for an object of type 'str'", s.type), Text();
      return padded_text(run_, v.as_text(), s);
    }
    if (v.is_integral() && (!s.type || std::string_view("bdoxXn").find(s.type) != std::string_view::npos))
      return v.is(Kind::Bool) && !s.type ? padded_text(run_, to_text(run_, v), s) : integer_text(run_, v.as_int(), s);
    if (v.is_number() && s.type != 's') return float_text(run_, v.as_float(), s);
    if (v.is_undefined()) return padded_text(run_, Text(), s);
    return run_.fail_f("unsupported format string passed to {}", v.type_name()), Text();
  }

  static bool parse(const Text& t, Spec& s) {
    const std::string_view f = t.view();
    size_t i = 0;
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    const size_t first = f.empty() ? 0 : decode(f, 0).size;
    if (first < f.size() && is_align(f[first])) s.fill = t.slice(0, first), s.align = f[first], i = first + 1;
    else if (!f.empty() && is_align(f[0])) s.align = f[i++];
    if (i < f.size() && (f[i] == '+' || f[i] == '-' || f[i] == ' ')) s.sign = f[i++];
    if (i < f.size() && f[i] == '#') s.alternate = true, i++;
    if (i < f.size() && f[i] == '0') s.zero = true, i++;
    while (i < f.size() && f[i] >= '0' && f[i] <= '9' && s.width < INT32_MAX) s.width = s.width * 10 + (f[i++] - '0');
    if (i < f.size() && (f[i] == ',' || f[i] == '_')) s.group = f[i++];
    if (i < f.size() && f[i] == '.') {
      s.precision = 0;
      for (i++; i < f.size() && f[i] >= '0' && f[i] <= '9' && s.precision < INT32_MAX; i++) s.precision = s.precision * 10 + (f[i] - '0');
    }
    if (i < f.size()) s.type = f[i++];
    return i == f.size() && (!s.type || std::string_view("sbdoxXneEfFgG%").find(s.type) != std::string_view::npos);
  }

  Run& run_;
  const Args& args_;
  size_t next_ = 0;
};

}  // namespace

Value format_percent(Run& run, const Text& format, const Value& values) { return Percent(run, format, values).render(); }

Value format_braces(Run& run, const Text& format, const Args& args) {
  if (!run.scan(format.size() * 4)) return {};
  return run.make(Braces(run, args).render(format, 0));
}

}  // namespace gull::text::jinja
