#include "text/jinja/operators.h"

#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {

bool equal(Run& run, const Value& a, const Value& b) {
  Deeper deeper(run);
  if (!deeper.ok || !run.step()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::Undefined:
    case Kind::None: return true;
    case Kind::String: return a.as_text().size() == b.as_text().size() && run.scan(a.as_text().size()) && a.as_view() == b.as_view();
    case Kind::Sequence: {
      const Sequence &x = a.as_sequence(), &y = b.as_sequence();
      if (&x == &y) return true;
      if (x.type != y.type || x.type == Sequence::Type::Generator || x.items.size() != y.items.size()) return false;
      for (size_t i = 0; i < x.items.size(); i++)
        if (!equal(run, x.items[i], y.items[i])) return false;
      return true;
    }
    case Kind::Dict: {
      const Dict &x = a.as_dict(), &y = b.as_dict();
      if (x.items.size() != y.items.size()) return false;
      for (const auto& [key, value] : x.items) {
        const Value* other = y.find(key);
        if (!other || !equal(run, value, *other)) return false;
      }
      return true;
    }
    default: return a.same_as(b);
  }
}

std::partial_ordering order(Run& run, const Value& a, const Value& b, std::string_view op) {
  Deeper deeper(run);
  if (!deeper.ok || !run.step()) return std::partial_ordering::unordered;
  if (a.is_integral() && b.is_integral())
    return a.as_int() < b.as_int() ? std::partial_ordering::less : a.as_int() > b.as_int() ? std::partial_ordering::greater : std::partial_ordering::equivalent;
  if (a.is_number() && b.is_number()) return a.as_float() <=> b.as_float();
  if (a.is_string() && b.is_string()) {
    if (!run.scan(std::min(a.as_text().size(), b.as_text().size()))) return std::partial_ordering::unordered;
    const int c = a.as_view().compare(b.as_view());   // UTF-8 sorts as its code points do
    return c < 0 ? std::partial_ordering::less : c > 0 ? std::partial_ordering::greater : std::partial_ordering::equivalent;
  }
  if (a.is(Kind::Sequence) && b.is(Kind::Sequence)) {
    const Sequence &x = a.as_sequence(), &y = b.as_sequence();
    if (x.type == y.type && (x.type == Sequence::Type::List || x.type == Sequence::Type::Tuple)) {
      for (size_t i = 0; i < std::min(x.items.size(), y.items.size()); i++)
        if (!equal(run, x.items[i], y.items[i])) return order(run, x.items[i], y.items[i], op);
      return x.items.size() <=> y.items.size();
    }
  }
  if (a.is_undefined() || b.is_undefined()) run.fail(a.is_undefined() ? a.why_undefined() : b.why_undefined());
  else run.fail_f("'{}' not supported between instances of '{}' and '{}'", op, a.type_name(), b.type_name());
  return std::partial_ordering::unordered;
}

bool less(Run& run, const Value& a, const Value& b) { return order(run, a, b, "<") == std::partial_ordering::less; }

bool compare(Run& run, std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(run, a, b);
  if (op == "!=") return !equal(run, a, b);
  if (op == "in") return contains(run, b, a);
  if (op == "not in") return !contains(run, b, a);
  const auto o = order(run, a, b, op);
  if (op == "<") return o == std::partial_ordering::less;
  if (op == "<=") return o == std::partial_ordering::less || o == std::partial_ordering::equivalent;
  if (op == ">") return o == std::partial_ordering::greater;
  return o == std::partial_ordering::greater || o == std::partial_ordering::equivalent;
}

bool contains(Run& run, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    if (needle.is_undefined()) return run.fail(needle.why_undefined()), false;
    if (!needle.is_string()) return run.fail_f("'in <string>' requires a string as left operand, not {}", needle.type_name()), false;
    return run.scan(haystack.as_text().size()) && find_first(haystack.as_view(), needle.as_view()) != std::string_view::npos;
  }
  if (haystack.is(Kind::Dict)) {
    std::string key;
    if (needle.is_string() && !run.scan(needle.as_text().size())) return false;
    if (!dict_key(needle, key)) return run.fail_f("unhashable type: '{}'", needle.type_name()), false;
    return haystack.as_dict().find(needle) != nullptr;
  }
  const auto items = iterate(run, haystack);
  if (!items) return false;
  for (const Value& item : items->items)
    if (equal(run, item, needle)) return true;
  return false;
}

namespace {

Value type_error(Run& run, std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) return run.fail(a.why_undefined());
  if (b.is_undefined()) return run.fail(b.why_undefined());
  if (op == "+" && (a.is_string() || a.is(Kind::Sequence)))
    return run.fail_f("can only concatenate {} (not \"{}\") to {}", a.type_name(), b.type_name(), a.type_name());
  return run.fail_f("unsupported operand type(s) for {}: '{}' and '{}'", op, a.type_name(), b.type_name());
}

Value overflow(Run& run) { return run.fail("integer overflow: numbers of more than 127 bits are not supported"); }

Value integers(Run& run, std::string_view op, Int a, Int b) {
  Int r = 0;
  if (op == "+") return __builtin_add_overflow(a, b, &r) ? overflow(run) : Value(r);
  if (op == "-") return __builtin_sub_overflow(a, b, &r) ? overflow(run) : Value(r);
  if (op == "*") return __builtin_mul_overflow(a, b, &r) ? overflow(run) : Value(r);
  if (op == "**") {
    if (b < 0) {
      if (a == 0) return run.fail("0 cannot be raised to a negative power");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    }
    r = 1;
    for (Int base = a; b > 0; b >>= 1) {
      if ((b & 1) && __builtin_mul_overflow(r, base, &r)) return overflow(run);
      if (b > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(run);
    }
    return r;
  }
  if (b == 0) return run.fail(op == "/" ? "division by zero" : "integer division or modulo by zero");
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) return op == "%" ? Value(0) : integers(run, "-", 0, a);
  const Int quotient = a / b, rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);   // Python rounds down, and the rest has the divisor's sign
  return op == "//" ? quotient - adjust : adjust ? rest + b : rest;
}

Value floats(Run& run, std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") {
    if (a == 0 && b < 0) return run.fail("0.0 cannot be raised to a negative power");
    if (a < 0 && std::floor(b) != b) return run.fail("a negative number cannot be raised to a fractional power");
    const double power = std::pow(a, b);
    return std::isinf(power) && std::isfinite(a) && std::isfinite(b) ? run.fail("the result of ** is too large") : Value(power);
  }
  if (b == 0) return run.fail(op == "/" ? "float division by zero" : "float floor division or modulo by zero");
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == "%") return rest == 0 ? std::copysign(0.0, b) : rest;
  const double quotient = (a - rest) / b;
  const double down = std::floor(quotient);
  return quotient - down > 0.5 ? down + 1 : down;
}

Value repeated(Run& run, const Value& what, Int times) {
  const size_t n = times < 0 ? 0 : times > INT32_MAX ? size_t{INT32_MAX} : static_cast<size_t>(times);
  if (what.is_string()) {
    const Text& t = what.as_text();
    if (!run.step(n) || !run.charge(t.size() * n)) return {};
    Text out;
    out.markup = t.markup;
    for (size_t i = 0; i < n; i++) out.append(t);
    return text(std::move(out));
  }
  const Sequence& s = what.as_sequence();
  if (!run.step(s.items.size() * n)) return {};
  std::vector<Value> items;
  for (size_t i = 0; i < n; i++) items.insert(items.end(), s.items.begin(), s.items.end());
  return run.make(std::move(items), s.type);
}

bool is_list_or_tuple(const Value& v) {
  return v.is(Kind::Sequence) && (v.as_sequence().type == Sequence::Type::List || v.as_sequence().type == Sequence::Type::Tuple);
}

}  // namespace

Value binary(Run& run, std::string_view op, const Value& a, const Value& b) {
  if (!run.step()) return {};
  if (a.is_number() && b.is_number())
    return a.is_integral() && b.is_integral() ? integers(run, op, a.as_int(), b.as_int()) : floats(run, op, a.as_float(), b.as_float());
  if (op == "+" && a.is_string() && b.is_string()) return run.make(join_texts(a.as_text(), b.as_text()));
  if (op == "+" && is_list_or_tuple(a) && is_list_or_tuple(b) && a.as_sequence().type == b.as_sequence().type) {
    std::vector<Value> items = a.as_sequence().items;
    items.insert(items.end(), b.as_sequence().items.begin(), b.as_sequence().items.end());
    return run.make(std::move(items), a.as_sequence().type);
  }
  if (op == "*" && (a.is_string() || is_list_or_tuple(a)) && b.is_integral()) return repeated(run, a, b.as_int());
  if (op == "*" && (b.is_string() || is_list_or_tuple(b)) && a.is_integral()) return repeated(run, b, a.as_int());
  if (op == "%" && a.is_string()) return format_percent(run, a.as_text(), b);
  return type_error(run, op, a, b);
}

Value negative(Run& run, const Value& v) {
  if (v.is_integral()) return integers(run, "-", 0, v.as_int());
  if (v.is(Kind::Float)) return -v.as_float();
  return run.fail(v.is_undefined() ? v.why_undefined() : fmt::format("bad operand type for unary -: '{}'", v.type_name()));
}

std::shared_ptr<Sequence> iterate(Run& run, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::Undefined: break;
    case Kind::Sequence: {
      const auto& s = value.sequence_pointer();
      if (!run.step(s->items.size())) return nullptr;
      if (s->type != Sequence::Type::Generator || s->next == 0) {
        if (s->type == Sequence::Type::Generator) s->next = s->items.size() + 1;   // also when it is empty
        return s;
      }
      for (size_t i = s->next; i < s->items.size(); i++) items.push_back(s->items[i]);
      s->next = s->items.size() + 1;
      break;
    }
    case Kind::Dict:
      for (const auto& [key, unused] : value.as_dict().items) items.push_back(key);
      break;
    case Kind::String: {
      const Text& t = value.as_text();
      if (!run.step(t.size()) || !run.charge(t.size() * 128)) return nullptr;
      for (size_t i = 0; i < t.size();) {
        const size_t n = decode(t.view(), i).size;
        Text one = t.slice(i, i + n);
        one.markup = false;
        items.push_back(text(std::move(one)));
        i += n;
      }
      break;
    }
    default: return run.fail_f("'{}' object is not iterable", value.type_name()), nullptr;
  }
  if (!run.step(items.size())) return nullptr;
  const Value made = run.make(std::move(items));
  return run.failed() ? nullptr : made.sequence_pointer();
}

void each_match(std::string_view haystack, std::string_view needle, const std::function<bool(size_t)>& f) {
  std::vector<size_t> border(needle.size(), 0);   // Knuth, Morris, Pratt: hostile patterns must not take quadratic time
  for (size_t i = 1, k = 0; i < needle.size(); i++) {
    while (k > 0 && needle[i] != needle[k]) k = border[k - 1];
    border[i] = k += needle[i] == needle[k];
  }
  for (size_t i = 0, k = 0; i < haystack.size(); i++) {
    while (k > 0 && haystack[i] != needle[k]) k = border[k - 1];
    k += haystack[i] == needle[k];
    if (k < needle.size()) continue;
    if (!f(i + 1 - k)) return;
    k = border[k - 1];
  }
}

size_t find_first(std::string_view haystack, std::string_view needle, size_t from) {
  if (from > haystack.size()) return std::string_view::npos;
  if (needle.size() < 8) return haystack.find(needle, from);
  size_t found = std::string_view::npos;
  each_match(haystack.substr(from), needle, [&](size_t at) { return found = from + at, false; });
  return found;
}

Text escape_html(const Text& t) {
  Text out;
  out.markup = true;
  t.each_run([&](std::string_view run, bool input) {
    if (t.markup) return out.append(run, input);
    for (char c : run) {
      const char* e = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&#34;" : c == '\'' ? "&#39;" : nullptr;
      out.append(e ? std::string_view(e) : std::string_view(&c, 1), input);
    }
  });
  return out;
}

Text join_texts(const Text& a, const Text& b) {
  if (a.markup != b.markup) return join_texts(escape_html(a), escape_html(b));
  Text out = a;
  out.append(b);
  return out;
}

}  // namespace gull::text::jinja
