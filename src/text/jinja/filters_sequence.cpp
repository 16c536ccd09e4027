// Filters on lists and dicts.
#include "text/jinja/sequences.h"

#include <algorithm>
#include <unordered_set>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {

AttributePath::AttributePath(Run& run, const Value* attribute, const Value* missing) : run_(run), missing_(missing) {
  if (missing_ && missing_->is_none()) missing_ = nullptr;
  if (!attribute || attribute->is_none()) return;
  if (attribute->is_string()) add(attribute->as_view());
  else parts_.push_back(*attribute);
}

AttributePath::AttributePath(Run& run, std::string_view path) : run_(run) { add(path); }

void AttributePath::add(std::string_view path) {
  for (size_t begin = 0; begin <= path.size() && run_.step();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part(path.substr(begin, end - begin));
    const bool index = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    parts_.push_back(index ? Value(std::atoi(part.c_str())) : text(part));
    begin = end + 1;
  }
}

Value AttributePath::get(const Value& item) const {
  Value v = item;
  for (const Value& part : parts_) {
    v = get_item(run_, v, part);
    if (missing_ && v.is_undefined()) v = *missing_;
  }
  return v;
}

std::vector<Value> items_of(Run& run, const Value& value) {
  const auto s = iterate(run, value);
  return s ? s->items : std::vector<Value>();
}

namespace {

using Type = Sequence::Type;

Value without_case(Run& run, const Value& v) { return v.is_string() ? run.make(lowered(v.as_text())) : v; }

Value length_filter(Run& run, const Value& v, Args& args) {
  Params p(run, "length", args, {});
  if (!p.ok()) return {};
  switch (v.kind()) {
    case Kind::Undefined: return 0;
    case Kind::String: return run.scan(v.as_text().size()) ? Value(length(v.as_view())) : Value();
    case Kind::Dict: return v.as_dict().items.size();
    case Kind::Sequence:
      if (v.as_sequence().type != Type::Generator) return v.as_sequence().items.size();
      [[fallthrough]];
    default: return run.fail_f("object of type '{}' has no length", v.type_name());
  }
}

Value list(Run& run, const Value& v, Args& args) {
  Params p(run, "list", args, {});
  return run.make(items_of(run, v));
}

Value first(Run& run, const Value& v, Args& args) {
  Params p(run, "first", args, {});
  if (v.is(Kind::Sequence) && v.as_sequence().type == Type::Generator) {   // takes one item, and leaves the others
    Sequence& s = v.as_sequence();
    if (s.next < s.items.size()) return s.items[s.next++];
    return Value::undefined("no first item: the sequence is empty");
  }
  if (v.is_string() && !v.as_text().empty()) return run.make(v.as_text().slice(0, decode(v.as_view(), 0).size));
  const auto s = iterate(run, v);
  return s && !s->items.empty() ? s->items.front() : Value::undefined("no first item: the sequence is empty");
}

Value last(Run& run, const Value& v, Args& args) {
  Params p(run, "last", args, {});
  if (v.is(Kind::Sequence) && v.as_sequence().type == Type::Generator) return run.fail("last: a generator cannot be reversed");
  const auto s = iterate(run, v);
  return s && !s->items.empty() ? s->items.back() : Value::undefined("no last item: the sequence is empty");
}

Value reverse(Run& run, const Value& v, Args& args) {
  Params p(run, "reverse", args, {});
  std::vector<Value> items = items_of(run, v);
  std::reverse(items.begin(), items.end());
  if (!v.is_string()) return run.make(std::move(items), Type::Generator);
  Text out;
  out.markup = v.as_text().markup;
  for (const Value& c : items) out.append(c.as_text());
  return run.make(std::move(out));
}

/// Stable sort by keys that are lists of values; errors end it. As in Python, values in a list are first tested for
/// equality, so that equal ones need no order; a `plain` key is only compared.
std::vector<Value> sorted(Run& run, const std::vector<Value>& items, const std::vector<std::vector<Value>>& keys, bool descending, bool plain) {
  std::vector<size_t> at(items.size());
  for (size_t i = 0; i < at.size(); i++) at[i] = i;
  std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) {
    for (size_t k = 0; k < keys[a].size() && !run.failed(); k++) {
      if (!plain && equal(run, keys[a][k], keys[b][k])) continue;
      return descending ? less(run, keys[b][k], keys[a][k]) : less(run, keys[a][k], keys[b][k]);
    }
    return false;
  });
  std::vector<Value> out;
  for (size_t i : at) out.push_back(items[i]);
  return out;
}

Value sort(Run& run, const Value& v, Args& args) {
  Params p(run, "sort", args, {"reverse", "case_sensitive", "attribute"});
  if (!p.ok()) return {};
  const std::vector<Value> items = items_of(run, v);
  std::vector<AttributePath> paths;
  if (p.get(2) && p.get(2)->is_string()) {   // several attributes: "a,b"
    const std::string_view names = p.get(2)->as_view();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      paths.emplace_back(run, names.substr(begin, end - begin));
      begin = end + 1;
    }
  } else {
    paths.emplace_back(run, p.get(2));
  }
  const bool exact = p.flag(1, false);
  std::vector<std::vector<Value>> keys;
  for (const Value& item : items) {
    if (!run.charge(paths.size() * sizeof(Value))) return {};
    keys.emplace_back();
    for (const AttributePath& path : paths) {
      const Value key = path.get(item);
      keys.back().push_back(exact ? key : without_case(run, key));
    }
  }
  return run.make(sorted(run, items, keys, p.flag(0, false), false));
}

Value dictsort(Run& run, const Value& v, Args& args) {
  Params p(run, "dictsort", args, {"case_sensitive", "by", "reverse"});
  if (!p.ok()) return {};
  if (!v.is(Kind::Dict)) return run.fail(v.is_undefined() ? v.why_undefined() : fmt::format("dictsort needs a dict, not {}", v.type_name()));
  const std::string_view by = p.get(1) && p.get(1)->is_string() ? p.get(1)->as_view() : p.get(1) ? "?" : "key";
  if (by != "key" && by != "value") return run.fail("dictsort: by must be 'key' or 'value'");
  std::vector<Value> items;
  std::vector<std::vector<Value>> keys;
  for (const auto& [key, value] : v.as_dict().items) {
    items.push_back(run.make({key, value}, Type::Tuple));
    const Value& sort_by = by == "key" ? key : value;
    keys.push_back({p.flag(0, false) ? sort_by : without_case(run, sort_by)});
  }
  return run.make(sorted(run, items, keys, p.flag(2, false), true));
}

Value unique(Run& run, const Value& v, Args& args) {
  Params p(run, "unique", args, {"case_sensitive", "attribute"});
  const auto items = p.ok() ? iterate(run, v) : nullptr;
  if (!items) return {};
  const AttributePath path(run, p.get(1));
  std::unordered_set<std::string> seen;
  std::vector<Value> out;
  for (const Value& item : items->items) {
    const Value value = path.get(item);
    std::string key;
    if (!dict_key(p.flag(0, false) ? value : without_case(run, value), key)) return run.fail_f("unhashable type: '{}'", value.type_name());
    if (!run.charge(key.size())) return {};
    if (seen.insert(std::move(key)).second) out.push_back(item);
  }
  return run.make(std::move(out), Type::Generator);
}

template <bool largest>
Value extreme(Run& run, const Value& v, Args& args) {
  Params p(run, largest ? "max" : "min", args, {"case_sensitive", "attribute"});
  const auto items = p.ok() ? iterate(run, v) : nullptr;
  if (!items) return {};
  if (items->items.empty()) return Value::undefined("no aggregated item: the sequence is empty");
  const AttributePath path(run, p.get(1));
  const auto key_of = [&](const Value& item) {
    const Value key = path.get(item);
    return p.flag(0, false) ? key : without_case(run, key);
  };
  const Value* best = &items->items[0];
  Value best_key = key_of(*best);
  for (size_t i = 1; i < items->items.size() && !run.failed(); i++) {
    const Value key = key_of(items->items[i]);
    if (largest ? less(run, best_key, key) : less(run, key, best_key)) best = &items->items[i], best_key = key;
  }
  return *best;
}

/// map and select take anything that is false for an empty list.
std::vector<Value> items_if_true(Run& run, const Value& v) { return v.truthy() ? items_of(run, v) : std::vector<Value>(); }

Args copy_from(const Args& args, size_t first) {
  Args out;
  out.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(first), args.positional.end());
  out.named = args.named;
  return out;
}

Value map(Run& run, const Value& v, Args& args) {
  const bool by_filter = !args.positional.empty();
  if (by_filter && !args.positional[0].is_string()) return run.fail("map needs the name of a filter");
  Args path_args = by_filter ? Args() : args;
  Params p(run, "map", path_args, {"attribute", "default"}, by_filter ? 0 : 1);
  if (!p.ok()) return {};
  const AttributePath path(run, p.get(0), p.get(1));
  std::vector<Value> out;
  for (const Value& item : items_if_true(run, v)) {
    if (!run.step()) return {};
    Args inner = by_filter ? copy_from(args, 1) : Args();
    out.push_back(by_filter ? call_filter(run, args.positional[0].as_view(), item, inner) : path.get(item));
  }
  return run.make(std::move(out), Type::Generator);
}

/// select, reject, selectattr, rejectattr: items (or attributes of them) that pass a test, or are true.
template <bool keep, bool attribute>
Value select(Run& run, const Value& v, Args& args) {
  if (attribute && args.positional.empty()) return run.fail("selectattr and rejectattr need the name of an attribute");
  const AttributePath path(run, attribute ? &args.positional[0] : nullptr);
  const size_t test = attribute ? 1 : 0;
  const bool tested = args.positional.size() > test;
  if (tested && !args.positional[test].is_string()) return run.fail("select and reject need the name of a test");
  std::vector<Value> out;
  for (const Value& item : items_if_true(run, v)) {
    if (!run.step()) return {};
    const Value value = path.get(item);
    Args inner = tested ? copy_from(args, test + 1) : Args();
    const bool passes = tested ? call_test(run, args.positional[test].as_view(), value, inner) : value.truthy();
    if (passes == keep) out.push_back(item);
  }
  return run.make(std::move(out), Type::Generator);
}

Value groupby(Run& run, const Value& v, Args& args) {
  Params p(run, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  if (!p.ok()) return {};
  const AttributePath path(run, p.get(0), p.get(1));
  const std::vector<Value> items = items_of(run, v);
  std::vector<std::vector<Value>> keys;
  for (const Value& item : items) keys.push_back({p.flag(2, false) ? path.get(item) : without_case(run, path.get(item))});
  const std::vector<Value> in_order = sorted(run, items, keys, false, true);
  std::vector<Value> groups, members;
  const auto close = [&] {
    if (members.empty()) return;
    const Value key = path.get(members[0]);
    const Value group = run.make({key, run.make(std::exchange(members, {}))}, Type::Tuple);
    if (run.failed()) return;
    group.as_sequence().group = true;
    groups.push_back(group);
  };
  Value current;
  for (const Value& item : in_order) {
    if (run.failed()) return {};
    const Value key = p.flag(2, false) ? path.get(item) : without_case(run, path.get(item));
    if (!members.empty() && !equal(run, key, current)) close();
    members.push_back(item);
    current = key;
  }
  close();
  return run.make(std::move(groups));
}

Value batch(Run& run, const Value& v, Args& args) {
  Params p(run, "batch", args, {"linecount", "fill_with"}, 1);
  const auto size = p.integer(0, 1);
  if (!p.ok() || !size) return {};
  std::vector<Value> out, row;
  for (const Value& item : items_of(run, v)) {
    if (static_cast<int64_t>(row.size()) == *size) out.push_back(run.make(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    const bool fill = p.get(1) && !p.get(1)->is_none() && static_cast<int64_t>(row.size()) < *size;
    if (fill && !run.charge(static_cast<size_t>(std::min<int64_t>(*size, INT32_MAX)) * sizeof(Value))) return {};
    while (fill && static_cast<int64_t>(row.size()) < *size) row.push_back(*p.get(1));
    out.push_back(run.make(std::move(row)));
  }
  return run.make(std::move(out), Type::Generator);
}

Value slice(Run& run, const Value& v, Args& args) {
  Params p(run, "slice", args, {"slices", "fill_with"}, 1);
  const auto slices = p.integer(0, 1);
  if (!p.ok() || !slices) return {};
  if (*slices <= 0) return run.fail("slice: the number of slices must be positive");
  const std::vector<Value> items = items_of(run, v);
  const auto n = static_cast<int64_t>(items.size()), each = n / *slices, longer = n % *slices;
  std::vector<Value> out;
  for (int64_t i = 0, from = 0; i < *slices && run.step(); i++) {
    const int64_t size = each + (i < longer);
    std::vector<Value> part(items.begin() + from, items.begin() + from + size);
    if (p.get(1) && !p.get(1)->is_none() && i >= longer) part.push_back(*p.get(1));
    out.push_back(run.make(std::move(part)));
    from += size;
  }
  return run.make(std::move(out), Type::Generator);
}

Value items_filter(Run& run, const Value& v, Args& args) {
  Params p(run, "items", args, {});
  std::vector<Value> out;
  if (!v.is_undefined() && !v.is(Kind::Dict)) return run.fail_f("items needs a dict, not {}", v.type_name());
  if (v.is(Kind::Dict))
    for (const auto& [key, value] : v.as_dict().items) out.push_back(run.make({key, value}, Type::Tuple));
  return run.make(std::move(out), Type::Generator);
}

Value default_filter(Run& run, const Value& v, Args& args) {
  Params p(run, "default", args, {"default_value", "boolean"});
  const bool replace = v.is_undefined() || (p.flag(1, false) && !v.truthy());
  return replace ? p.value(0, text(std::string())) : v;
}

/// Attributes only, where obj.name would also find keys.
Value attr(Run& run, const Value& v, Args& args) {
  Params p(run, "attr", args, {"name"}, 1);
  if (!p.ok()) return {};
  const Text name = to_text(run, *p.get(0));
  Value method;
  if (!v.is(Kind::Dict)) return get_attribute(run, v, name.view());
  return find_method(v, name.view(), method) ? method : Value::undefined(fmt::format("'dict object' has no attribute '{}'", name.view()));
}

}  // namespace

const Table<Filter>& sequence_filters() {
  static const Table<Filter> table{
      {"length", length_filter}, {"count", length_filter}, {"list", list}, {"first", first}, {"last", last}, {"reverse", reverse},
      {"sort", sort}, {"dictsort", dictsort}, {"unique", unique}, {"min", extreme<false>}, {"max", extreme<true>}, {"map", map},
      {"select", select<true, false>}, {"reject", select<false, false>}, {"selectattr", select<true, true>},
      {"rejectattr", select<false, true>}, {"groupby", groupby}, {"batch", batch}, {"slice", slice}, {"items", items_filter},
      {"default", default_filter}, {"d", default_filter}, {"attr", attr}};
  return table;
}

}  // namespace gull::text::jinja
