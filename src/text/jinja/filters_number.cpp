// Filters on numbers, and those that make numbers.
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/sequences.h"

namespace gull::text::jinja {
namespace {

std::string_view stripped(std::string_view s) {
  while (!s.empty() && static_cast<unsigned char>(s.front()) <= ' ') s.remove_prefix(1);
  while (!s.empty() && static_cast<unsigned char>(s.back()) <= ' ') s.remove_suffix(1);
  return s;
}

/// Removes Python's underscores between digits; false where one stands elsewhere.
bool without_underscores(std::string_view s, std::string& out) {
  for (size_t i = 0; i < s.size(); i++) {
    if (s[i] != '_') { out += s[i]; continue; }
    if (i == 0 || i + 1 == s.size() || s[i - 1] == '_' || s[i + 1] == '_') return false;
  }
  return true;
}

/// Python's int(text, base).
std::optional<Int> parse_int(std::string_view source, int64_t base) {
  std::string s;
  if (!without_underscores(stripped(source), s) || base == 1 || base < 0 || base > 36) return std::nullopt;
  size_t i = 0;
  const bool minus = i < s.size() && s[i] == '-';
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) i++;
  const char letter = i + 1 < s.size() && s[i] == '0' ? static_cast<char>(s[i + 1] | 0x20) : '\0';
  const int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix && (base == prefix || base == 0)) base = prefix, i += 2;
  if (base == 0) base = 10;
  if (i >= s.size()) return std::nullopt;
  Int value = 0;
  for (; i < s.size(); i++) {
    const char c = static_cast<char>(s[i] | 0x20);
    const int digit = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
    if (digit >= base || __builtin_mul_overflow(value, Int(base), &value) || __builtin_add_overflow(value, Int(digit), &value)) return std::nullopt;
  }
  return minus ? -value : value;
}

/// Python's float(text).
std::optional<double> parse_float(std::string_view source) {
  std::string s;
  if (!without_underscores(stripped(source), s) || s.empty()) return std::nullopt;
  std::string plain;
  for (char c : s) plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  const size_t sign = plain[0] == '-' || plain[0] == '+';
  const double factor = plain[0] == '-' ? -1 : 1;
  const std::string word = plain.substr(sign);
  if (word == "inf" || word == "infinity") return factor * INFINITY;
  if (word == "nan") return NAN;
  if (word.find_first_not_of("0123456789.e+-") != word.npos || word.find_first_of("0123456789") == word.npos) return std::nullopt;
  char* end = nullptr;
  const double d = std::strtod(plain.c_str(), &end);
  return end == plain.c_str() + plain.size() ? std::optional(d) : std::nullopt;
}

std::optional<Int> truncated(double d) {
  if (!std::isfinite(d) || std::fabs(d) > 1e37) return std::nullopt;
  return static_cast<Int>(d);
}

Value to_int(Run& run, const Value& v, Args& args) {
  Params p(run, "int", args, {"default", "base"});
  const auto base = p.integer(1, 10);
  if (!p.ok() || !base) return {};
  if (v.is_undefined()) return run.fail(v.why_undefined());
  std::optional<Int> result;
  if (v.is_integral()) result = v.as_int();
  else if (v.is(Kind::Float)) result = truncated(v.as_float());
  else if (v.is_string() && run.scan(v.as_text().size())) {
    result = parse_int(v.as_view(), *base);
    const auto d = result ? std::nullopt : parse_float(v.as_view());
    if (d) result = truncated(*d);
  }
  return result ? Value(*result) : p.value(0, 0);
}

Value to_float(Run& run, const Value& v, Args& args) {
  Params p(run, "float", args, {"default"});
  if (!p.ok()) return {};
  if (v.is_undefined()) return run.fail(v.why_undefined());
  if (v.is_number()) return v.as_float();
  const auto d = v.is_string() && run.scan(v.as_text().size()) ? parse_float(v.as_view()) : std::nullopt;
  return d ? Value(*d) : p.value(0, 0.0);
}

Value absolute(Run& run, const Value& v, Args& args) {
  Params p(run, "abs", args, {});
  if (v.is_integral()) return v.as_int() < 0 ? negative(run, v) : Value(v.as_int());
  if (v.is(Kind::Float)) return std::fabs(v.as_float());
  return run.fail(v.is_undefined() ? v.why_undefined() : fmt::format("abs needs a number, not {}", v.type_name()));
}

/// The closest value with so many decimals, halves to even digits, as Python rounds.
double rounded(double d, int64_t decimals) {
  if (!std::isfinite(d) || decimals > 330) return d;
  if (decimals >= 0) return std::strtod(fmt::format("{:.{}f}", d, decimals).c_str(), nullptr);
  if (decimals < -310) return std::copysign(0.0, d);
  const double unit = std::pow(10.0, static_cast<double>(-decimals));
  return std::nearbyint(d / unit) * unit;
}

Value round(Run& run, const Value& v, Args& args) {
  Params p(run, "round", args, {"precision", "method"});
  const auto precision = p.integer(0, 0);
  if (!p.ok() || !precision) return {};
  if (!v.is_number()) return run.fail(v.is_undefined() ? v.why_undefined() : fmt::format("round needs a number, not {}", v.type_name()));
  const std::string_view method = p.get(1) && p.get(1)->is_string() ? p.get(1)->as_view() : p.get(1) ? "?" : "common";
  if (method == "common") {
    if (v.is(Kind::Float)) return rounded(v.as_float(), *precision);
    return *precision >= 0 ? Value(v.as_int()) : Value(static_cast<Int>(rounded(v.as_float(), *precision)));
  }
  if (method != "ceil" && method != "floor") return run.fail("round: the method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(*precision));
  const double scaled = v.as_float() * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

Value sum(Run& run, const Value& v, Args& args) {
  Params p(run, "sum", args, {"attribute", "start"});
  const auto items = p.ok() ? iterate(run, v) : nullptr;
  if (!items) return {};
  const AttributePath path(run, p.get(0));
  Value total = p.value(1, 0);
  for (const Value& item : items->items) {
    total = binary(run, "+", total, path.get(item));
    if (run.failed()) return {};
  }
  return total;
}

}  // namespace

const Table<Filter>& number_filters() {
  static const Table<Filter> table{{"int", to_int}, {"float", to_float}, {"abs", absolute}, {"round", round}, {"sum", sum}};
  return table;
}

}  // namespace gull::text::jinja
