#include "text/jinja/print.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {

std::string int_to_string(Int i) {
  const bool negative = i < 0;
  auto u = negative ? -static_cast<unsigned __int128>(i) : static_cast<unsigned __int128>(i);
  std::string out;
  do out += static_cast<char>('0' + static_cast<int>(u % 10)), u /= 10;
  while (u != 0);
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

std::string float_to_string(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", d);   // fmt switches to exponents where Python does
  if (out.find_first_of(".e") == out.npos) out += ".0";
  return out;
}

Value Object::call(Run& run, Args&) { return run.fail_f("'{}' object is not callable", type_name()); }
bool Object::attribute(Run&, std::string_view, Value&) { return false; }
Text Object::print(Run&) const { return Text(fmt::format("<{}>", type_name())); }

namespace {

/// Appends to one string; notes whether anything came from the input.
class Printer {
 public:
  explicit Printer(Run& run) : run_(run) {}
  Text finish() { return Text(std::move(out_), input_); }

  void repr(const Value& v) {
    Deeper deeper(run_);
    if (!deeper.ok || !run_.step()) return;
    switch (v.kind()) {
      case Kind::Undefined: return put("Undefined");
      case Kind::None: return put("None");
      case Kind::Bool: return put(v.as_bool() ? "True" : "False");
      case Kind::Int: return put(int_to_string(v.as_int()));
      case Kind::Float: return put(float_to_string(v.as_float()));
      case Kind::String: return quoted(v.as_text());
      case Kind::Sequence: return sequence(v.as_sequence());
      case Kind::Dict: return dict(v.as_dict());
      case Kind::Object: {
        const Text t = v.as_object().print(run_);
        input_ = input_ || t.has_input();
        return put(t.bytes());
      }
    }
  }

  void json(const Value& v, const JsonStyle& style, const std::string& line) {
    Deeper deeper(run_);
    if (!deeper.ok || !run_.step()) return;
    switch (v.kind()) {
      case Kind::None: return put("null");
      case Kind::Bool: return put(v.as_bool() ? "true" : "false");
      case Kind::Int: return put(int_to_string(v.as_int()));
      case Kind::Float: return put(json_float(v.as_float()));
      case Kind::String: return json_string(v.as_text(), style.ensure_ascii);
      case Kind::Sequence: {
        const Sequence& s = v.as_sequence();
        if (s.type != Sequence::Type::List && s.type != Sequence::Type::Tuple) break;
        return json_items('[', ']', s.items.size(), style, line, [&](size_t i, const std::string& inner) { json(s.items[i], style, inner); });
      }
      case Kind::Dict: return json_dict(v.as_dict(), style, line);
      default: break;
    }
    run_.fail_f("tojson: an object of type {} cannot be written as JSON", v.type_name());
  }

 private:
  void put(std::string_view s) {
    if (run_.charge(s.size())) out_ += s;
  }

  void sequence(const Sequence& s) {
    if (s.type == Sequence::Type::Range) return put(s.label);
    if (s.type == Sequence::Type::Generator) return put("<generator object>");
    const bool tuple = s.type == Sequence::Type::Tuple;
    if (!s.label.empty()) put(s.label), put("(");
    put(tuple ? "(" : "[");
    for (size_t i = 0; i < s.items.size() && !run_.failed(); i++) {
      if (i) put(", ");
      repr(s.items[i]);
    }
    if (tuple && s.items.size() == 1) put(",");
    put(tuple ? ")" : "]");
    if (!s.label.empty()) put(")");
  }

  void dict(const Dict& d) {
    put("{");
    bool first = true;
    for (const auto& [key, value] : d.items) {
      if (run_.failed()) return;
      if (!std::exchange(first, false)) put(", ");
      repr(key);
      put(": ");
      repr(value);
    }
    put("}");
  }

  void quoted(const Text& t) {
    input_ = input_ || t.has_input();
    const std::string_view s = t.view();
    const char quote = s.find('\'') != s.npos && s.find('"') == s.npos ? '"' : '\'';
    std::string q = t.markup ? "Markup(" : "";
    q += quote;
    for (size_t i = 0; i < s.size();) {
      const Char c = decode(s, i);
      if (c.code == static_cast<uint32_t>(quote) || c.code == '\\') q += '\\', q += static_cast<char>(c.code);
      else if (c.code == '\n') q += "\\n";
      else if (c.code == '\r') q += "\\r";
      else if (c.code == '\t') q += "\\t";
      else if (is_printable(c.code)) q += s.substr(i, c.size);
      else if (c.code < 0x100) q += fmt::format("\\x{:02x}", c.code);
      else if (c.code < 0x10000) q += fmt::format("\\u{:04x}", c.code);
      else q += fmt::format("\\U{:08x}", c.code);
      i += c.size;
    }
    q += quote;
    if (t.markup) q += ')';
    put(q);
  }

  static std::string json_float(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return float_to_string(d);
  }

  void json_string(const Text& t, bool ascii) {
    input_ = input_ || t.has_input();
    static constexpr std::string_view letters = "btnfr", values = "\b\t\n\f\r";
    const std::string_view s = t.view();
    std::string q = "\"";
    for (size_t i = 0; i < s.size();) {
      const Char c = decode(s, i);
      if (c.code == '"' || c.code == '\\') q += '\\', q += static_cast<char>(c.code);
      else if (c.code < 0x20 && values.find(static_cast<char>(c.code)) != values.npos) q += '\\', q += letters[values.find(static_cast<char>(c.code))];
      else if (c.code < 0x20 || (ascii && c.code > 0x7E && c.code < 0x10000)) q += fmt::format("\\u{:04x}", c.code);
      else if (ascii && c.code >= 0x10000) q += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c.code >> 10), 0xDC00 + (c.code & 0x3FF));
      else q += s.substr(i, c.size);
      i += c.size;
    }
    put(q + '"');
  }

  template <class F>
  void json_items(char open, char close, size_t n, const JsonStyle& style, const std::string& line, F&& item) {
    out_ += open;
    const std::string inner = line + style.indent;
    for (size_t i = 0; i < n && !run_.failed(); i++) {
      if (i) put(style.comma);
      if (style.lines) put(inner);
      item(i, inner);
    }
    if (n && style.lines) put(line);
    out_ += close;
  }

  void json_dict(const Dict& d, const JsonStyle& style, const std::string& line) {
    std::vector<size_t> order(d.items.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    if (style.sort_keys)
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return less(run_, d.items[a].first, d.items[b].first); });
    json_items('{', '}', order.size(), style, line, [&](size_t i, const std::string& inner) {
      json_key(d.items[order[i]].first, style.ensure_ascii);
      put(style.colon);
      json(d.items[order[i]].second, style, inner);
    });
  }

  void json_key(const Value& key, bool ascii) {
    switch (key.kind()) {
      case Kind::String: return json_string(key.as_text(), ascii);
      case Kind::None: return put("\"null\"");
      case Kind::Bool: return put(key.as_bool() ? "\"true\"" : "\"false\"");
      case Kind::Int: return put('"' + int_to_string(key.as_int()) + '"');
      case Kind::Float: return put('"' + json_float(key.as_float()) + '"');
      default: run_.fail_f("tojson: a key must be a string, number, boolean or None, not {}", key.type_name());
    }
  }

  Run& run_;
  std::string out_;
  bool input_ = false;
};

}  // namespace

Text to_repr(Run& run, const Value& value) {
  Printer p(run);
  p.repr(value);
  return p.finish();
}

Text to_text(Run& run, const Value& value) {
  if (value.is_string()) return value.as_text();
  if (value.is_undefined()) return {};
  return to_repr(run, value);
}

Text to_json(Run& run, const Value& value, const JsonStyle& style) {
  Printer p(run);
  p.json(value, style, "\n");
  return p.finish();
}

}  // namespace gull::text::jinja
