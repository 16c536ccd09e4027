// Filters on strings.
#include <algorithm>
#include <utility>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/sequences.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

/// Filters turn anything into a string first. Counts the work of reading it.
Text subject_text(Run& run, const Value& v) {
  Text t = to_text(run, v);
  run.scan(t.size() * 4);
  return t;
}

template <Text (*f)(const Text&)>
Value mapped(Run& run, const Value& v, Args& args) {
  Params p(run, "this filter", args, {});
  if (!p.ok()) return {};
  return run.make(f(subject_text(run, v)));
}

/// Words begin after white space, hyphens and opening brackets.
Text titled(const Text& t) {
  Text out;
  out.markup = t.markup;
  bool start = true;
  t.each_run([&](std::string_view run, bool input) {
    std::string piece, rest;
    for (size_t i = 0; i < run.size(); i += decode(run, i).size) {
      const Char c = decode(run, i);
      if (start) piece += lower(std::exchange(rest, {})), append_upper(c.code, piece);
      else rest += run.substr(i, c.size);
      start = is_space(c.code) || c.code == '-' || c.code == '(' || c.code == '{' || c.code == '[' || c.code == '<';
    }
    out.append(piece + lower(rest), input);
  });
  return out;
}

Value trim(Run& run, const Value& v, Args& args) {
  Params p(run, "trim", args, {"chars"});
  if (!p.ok()) return {};
  const Text t = subject_text(run, v);
  const size_t set = p.get(0) && p.get(0)->is_string() ? p.get(0)->as_text().size() : 0;
  return run.scan(t.size() * (set / 16)) ? run.make(strip(t, p.get(0), true, true)) : Value();
}

Value replace(Run& run, const Value& v, Args& args) {
  Params p(run, "replace", args, {"old", "new", "count"}, 2);
  if (!p.ok()) return {};
  const auto count = p.get(2) && p.get(2)->is_none() ? std::optional<int64_t>(-1) : p.integer(2, -1);
  if (!count) return {};
  Text t = subject_text(run, v);
  t.markup = false;
  return run.make(replaced(run, t, to_text(run, *p.get(0)), to_text(run, *p.get(1)), *count));
}

Value string(Run& run, const Value& v, Args& args) {
  Params p(run, "string", args, {});
  return !p.ok() || v.is_string() ? v : run.make(to_text(run, v));
}

Value safe(Run& run, const Value& v, Args&) {
  Text t = to_text(run, v);
  t.markup = true;
  return run.make(std::move(t));
}

Value escape(Run& run, const Value& v, Args&) {
  const Text t = subject_text(run, v);
  return run.charge(t.size() * 2) ? run.make(escape_html(t)) : Value();
}

Value force_escape(Run& run, const Value& v, Args& args) {
  Text t = to_text(run, v);
  t.markup = false;
  return escape(run, text(std::move(t)), args);
}

Value center(Run& run, const Value& v, Args& args) {
  Params p(run, "center", args, {"width"});
  const auto width = p.integer(0, 80);
  Value method;
  if (!p.ok() || !width || !find_method(run.make(subject_text(run, v)), "center", method)) return {};
  Args inner;
  inner.positional.emplace_back(Int(*width));
  return method.as_object().call(run, inner);
}

Value format(Run& run, const Value& v, Args& args) {
  if (!args.named.empty() && !args.positional.empty()) return run.fail("format: positional and named arguments cannot be mixed");
  const Text t = subject_text(run, v);
  if (args.named.empty()) return format_percent(run, t, run.make(std::move(args.positional), Sequence::Type::Tuple));
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : args.named) dict->set(text(name), std::move(value));
  return format_percent(run, t, run.make(std::move(dict)));
}

Value indent(Run& run, const Value& v, Args& args) {
  Params p(run, "indent", args, {"width", "first", "blank"});
  if (!p.ok()) return {};
  if (!v.is_string()) return run.fail(v.is_undefined() ? v.why_undefined() : fmt::format("indent needs a string, not {}", v.type_name()));
  Text pad;
  if (p.get(0) && p.get(0)->is_string()) {
    pad = p.get(0)->as_text();
  } else {
    const auto width = p.integer(0, 4);
    if (!width || !run.charge(static_cast<size_t>(std::max<int64_t>(*width, 0)))) return {};
    pad = Text(std::string(static_cast<size_t>(std::max<int64_t>(*width, 0)), ' '));
  }
  const bool blank = p.flag(2, false);
  Text source = v.as_text();
  source.append("\n", false);
  Text out;
  out.markup = v.as_text().markup;
  if (p.flag(1, false)) out.append(pad);
  bool first = true;
  for (const Text& line : lines_of(run, source, false)) {
    if (!run.charge(pad.size() + line.size() + 1)) return {};
    if (!first) out.append("\n", false);
    if (!first && (blank || !line.empty())) out.append(pad);
    out.append(line);
    first = false;
  }
  return text(std::move(out));
}

Value join(Run& run, const Value& v, Args& args) {
  Params p(run, "join", args, {"d", "attribute"});
  const auto items = p.ok() ? iterate(run, v) : nullptr;
  if (!items) return {};
  const Text separator = p.get(0) ? to_text(run, *p.get(0)) : Text();
  const AttributePath path(run, p.get(1));
  Text out;
  for (size_t i = 0; i < items->items.size() && !run.failed(); i++) {
    const Text t = to_text(run, path.get(items->items[i]));
    if (!run.step() || !run.charge(separator.size() + t.size())) return {};
    if (i) out.append(separator);
    out.append(t);
  }
  return text(std::move(out));
}

Value truncate(Run& run, const Value& v, Args& args) {
  Params p(run, "truncate", args, {"length", "killwords", "end", "leeway"});
  const auto limit = p.integer(0, 255), leeway = p.get(3) && p.get(3)->is_none() ? std::optional<int64_t>(5) : p.integer(3, 5);
  if (!p.ok() || !limit || !leeway) return {};
  if (!v.is_string()) {   // lists that are short enough pass unchanged
    Args none;
    const Value size = call_filter(run, "length", v, none);
    if (run.failed() || less(run, size, Value(Int(*limit) + *leeway + 1))) return v;
    return run.fail_f("truncate needs a string, not {}", v.type_name());
  }
  const Text t = subject_text(run, v);
  const Text end = p.get(2) ? to_text(run, *p.get(2)) : Text("...");
  const auto end_size = static_cast<int64_t>(length(end.view()));
  if (*limit < end_size || *leeway < 0) return run.fail_f("truncate: the length must be at least {}, the leeway at least 0", end_size);
  if (static_cast<int64_t>(length(t.view())) <= *limit + *leeway) return run.make(t);
  Text out = t.slice(0, offset_of(t.view(), static_cast<size_t>(*limit - end_size)));
  const size_t space = out.view().rfind(' ');
  if (!p.flag(1, false) && space != std::string_view::npos) out = out.slice(0, space);
  out.append(end);
  return run.make(std::move(out));
}

Value wordcount(Run& run, const Value& v, Args& args) {
  Params p(run, "wordcount", args, {});
  const Text t = subject_text(run, v);
  size_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < t.size(); i += decode(t.view(), i).size) {
    const bool word = is_word(decode(t.view(), i).code);
    words += word && !inside;
    inside = word;
  }
  return words;
}

Text quoted(const Text& t, bool for_query) {
  Text out;
  t.each_run([&](std::string_view run, bool input) {
    std::string piece;
    for (char c : run) {
      const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || std::string_view("_.-~").find(c) != std::string_view::npos;
      if (plain || (c == '/' && !for_query)) piece += c;
      else if (c == ' ' && for_query) piece += '+';
      else piece += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    out.append(piece, input);
  });
  return out;
}

Value urlencode(Run& run, const Value& v, Args& args) {
  Params p(run, "urlencode", args, {});
  const bool pairs = v.is(Kind::Dict) || v.is(Kind::Sequence);
  if (!pairs) {
    const Text t = subject_text(run, v);
    return run.charge(t.size() * 3) ? run.make(quoted(t, false)) : Value();
  }
  Value list = v, method;
  Args none;
  if (v.is(Kind::Dict) && find_method(v, "items", method)) list = method.as_object().call(run, none);
  const auto items = iterate(run, list);
  if (!items) return {};
  Text out;
  for (const Value& item : items->items) {
    const auto pair = iterate(run, item);
    if (!pair || pair->items.size() != 2) return run.fail("urlencode needs pairs");
    if (!out.empty()) out.append("&", false);
    const Text key = subject_text(run, pair->items[0]), value = subject_text(run, pair->items[1]);
    if (!run.charge(3 * (key.size() + value.size()))) return {};
    out.append(quoted(key, true));
    out.append("=", false);
    out.append(quoted(value, true));
  }
  return run.make(std::move(out));
}

Value tojson(Run& run, const Value& v, Args& args) {
  Params p(run, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (!p.ok()) return {};
  JsonStyle style;
  style.ensure_ascii = p.flag(0, false);
  style.sort_keys = p.flag(3, false);
  if (p.get(1) && !p.get(1)->is_none()) {
    style.lines = true;
    style.comma = ",";
    if (p.get(1)->is_string()) {
      style.indent = p.get(1)->as_view();
    } else {
      const auto width = p.integer(1, 0);
      if (!width) return {};
      if (*width > 1000) return run.fail("tojson: the indent is too large");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(*width, 0)), ' ');
    }
  }
  if (p.get(2) && !p.get(2)->is_none()) {
    const Value& s = *p.get(2);
    if (!s.is(Kind::Sequence) || s.as_sequence().items.size() != 2 || !s.as_sequence().items[0].is_string() || !s.as_sequence().items[1].is_string())
      return run.fail("tojson: separators must be two strings");
    style.comma = s.as_sequence().items[0].as_view();
    style.colon = s.as_sequence().items[1].as_view();
  }
  return run.make(to_json(run, v, style));
}

}  // namespace

const Table<Filter>& text_filters() {
  static const Table<Filter> table{
      {"upper", mapped<upper>}, {"lower", mapped<lowered>}, {"capitalize", mapped<capitalized>}, {"title", mapped<titled>},
      {"trim", trim}, {"replace", replace}, {"string", string}, {"safe", safe}, {"escape", escape}, {"e", escape},
      {"forceescape", force_escape}, {"center", center}, {"format", format}, {"indent", indent}, {"join", join},
      {"truncate", truncate}, {"wordcount", wordcount}, {"urlencode", urlencode}, {"tojson", tojson}};
  return table;
}

}  // namespace gull::text::jinja
