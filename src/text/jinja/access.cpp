// obj.name, obj[key], obj[a:b:c]
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

std::string describe(const Value& v) { return v.is_none() ? "None" : fmt::format("{} object", v.type_name()); }

Value missing_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", describe(object), name));
}

/// A method or attribute of Python's type; false where there is none.
bool attribute_of_type(Run& run, const Value& object, std::string_view name, Value& out) {
  if (object.is(Kind::Object)) return object.as_object().attribute(run, name, out);
  if (object.is(Kind::Sequence) && object.as_sequence().group && (name == "grouper" || name == "list")) {
    out = object.as_sequence().items[name == "grouper" ? 0 : 1];
    return true;
  }
  if (modifies(object, name)) {
    out = Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, object.type_name()));
    return true;
  }
  return find_method(object, name, out);
}

/// Python's index: negative ones count from the end. npos: out of range.
size_t place(const Value& index, size_t size) {
  const Int i = index.as_int() < 0 ? index.as_int() + static_cast<Int>(size) : index.as_int();
  return i < 0 || i >= static_cast<Int>(size) ? std::string_view::npos : static_cast<size_t>(i);
}

/// The item with this key, or false.
bool item_of(Run& run, const Value& object, const Value& key, Value& out) {
  if (object.is(Kind::Dict)) {
    if (key.is_string() && !run.scan(key.as_text().size())) return false;
    const Value* found = object.as_dict().find(key);
    if (found) out = *found;
    return found != nullptr;
  }
  if (!key.is_integral()) return false;
  if (object.is_string()) {
    const Text& t = object.as_text();
    if (!run.scan(t.size())) return false;
    const size_t at = place(key, length(t.view()));
    if (at == std::string_view::npos) return false;
    const size_t begin = offset_of(t.view(), at);
    out = run.make(t.slice(begin, begin + decode(t.view(), begin).size));
    return true;
  }
  if (!object.is(Kind::Sequence)) return false;
  const Sequence& s = object.as_sequence();
  if (s.type == Sequence::Type::View || s.type == Sequence::Type::Generator) return false;
  const size_t at = place(key, s.items.size());
  if (at == std::string_view::npos) return false;
  out = s.items[at];
  return true;
}

}  // namespace

Value get_attribute(Run& run, const Value& object, std::string_view name) {
  if (!run.step()) return {};
  if (object.is_undefined()) return run.fail(object.why_undefined());
  Value out;
  if (attribute_of_type(run, object, name, out)) return out;
  if (object.is(Kind::Dict))
    if (const Value* found = object.as_dict().find(name)) return *found;
  return missing_attribute(object, name);
}

Value get_item(Run& run, const Value& object, const Value& key) {
  if (!run.step()) return {};
  if (object.is_undefined()) return run.fail(object.why_undefined());
  Value out;
  if (item_of(run, object, key, out) || run.failed()) return out;
  if (key.is_string()) {
    if (attribute_of_type(run, object, key.as_view(), out)) return out;
    return missing_attribute(object, key.as_view());
  }
  return Value::undefined(fmt::format("{} has no element {}", describe(object), to_repr(run, key).bytes()));
}

Value get_slice(Run& run, const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (object.is_undefined()) return run.fail(object.why_undefined());
  const bool is_text = object.is_string();
  const bool sliceable = is_text || (object.is(Kind::Sequence) && object.as_sequence().type != Sequence::Type::View &&
                                     object.as_sequence().type != Sequence::Type::Generator);
  if (!sliceable) return run.fail_f("'{}' object cannot be sliced", object.type_name());
  for (const Value* part : {&begin, &end, &step})
    if (!part->is_undefined() && !part->is_none() && !part->is_integral()) return run.fail("slice indices must be integers or None");
  if (is_text && !run.scan(object.as_text().size())) return {};

  const Int size = static_cast<Int>(is_text ? length(object.as_view()) : object.as_sequence().items.size());
  const Int by = step.is_integral() ? step.as_int() : 1;
  if (by == 0) return run.fail("slice step cannot be zero");
  const auto bound = [&](const Value& v, Int fallback) {
    if (!v.is_integral()) return fallback;
    const Int i = v.as_int() < 0 ? v.as_int() + size : v.as_int();
    return by > 0 ? std::clamp<Int>(i, 0, size) : std::clamp<Int>(i, -1, size - 1);
  };
  const Int from = bound(begin, by > 0 ? 0 : size - 1), to = bound(end, by > 0 ? size : -1);

  if (is_text && by == 1) {
    if (from >= to) return run.make(object.as_text().slice(0, 0));
    const std::string_view s = object.as_view();
    const size_t first = offset_of(s, static_cast<size_t>(from));
    return run.make(object.as_text().slice(first, first + offset_of(s.substr(first), static_cast<size_t>(to - from))));
  }
  const auto all = iterate(run, object);
  if (!all) return {};
  std::vector<Value> items;
  for (Int i = from; by > 0 ? i < to : i > to; i += by) {
    items.push_back(all->items[static_cast<size_t>(i)]);
    if ((by > 0 && by >= to - i) || (by < 0 && by <= to - i)) break;   // the next step would leave, or overflow
  }
  if (is_text) {
    Text out;
    out.markup = object.as_text().markup;
    for (const Value& c : items) out.append(c.as_text());
    return run.make(std::move(out));
  }
  const auto type = object.as_sequence().type;
  return run.make(std::move(items), type == Sequence::Type::Range ? Sequence::Type::List : type);
}

}  // namespace gull::text::jinja
