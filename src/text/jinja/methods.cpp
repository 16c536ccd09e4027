// Methods of str, dict, list and tuple.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

/// A string argument, or nullptr and an error.
const Text* text_argument(Run& run, const Params& p, size_t i, const char* what) {
  const Value* v = p.get(i);
  if (v && v->is_string()) return &v->as_text();
  if (v && v->is_undefined()) run.fail(v->why_undefined());
  else run.fail_f("{} needs a string, not {}", what, v ? v->type_name() : "nothing");
  return nullptr;
}

template <bool left, bool right>
Value strip_method(Run& run, const Value& self, Args& args) {
  Params p(run, "strip()", args, {"chars"});
  if (p.ok() && p.get(0) && !p.get(0)->is_none() && !text_argument(run, p, 0, "strip()")) return {};
  const size_t set = p.get(0) && p.get(0)->is_string() ? p.get(0)->as_text().size() : 0;
  if (!p.ok() || !run.scan(self.as_text().size() * (1 + set / 16))) return {};
  return run.make(strip(self.as_text(), p.get(0), left, right));
}

/// Cuts at white space (no separator) or at a separator; at most `limit` cuts, from the right if `reverse`.
std::vector<Text> split(Run& run, const Text& t, const Text* separator, int64_t limit, bool reverse) {
  const std::string_view s = t.view();
  std::vector<std::pair<size_t, size_t>> pieces;   // byte ranges of all pieces
  if (separator) {
    size_t from = 0;
    each_match(s, separator->view(), [&](size_t at) {
      if (at >= from) pieces.emplace_back(from, at), from = at + separator->size();
      return true;
    });
    pieces.emplace_back(from, s.size());
  } else {
    size_t begin = 0;
    bool inside = false;
    for (size_t i = 0; i < s.size();) {
      const Char c = decode(s, i);
      if (is_space(c.code) == inside) {
        if (inside) pieces.emplace_back(begin, i);
        else begin = i;
        inside = !inside;
      }
      i += c.size;
    }
    if (inside) pieces.emplace_back(begin, s.size());
  }
  std::vector<Text> out;
  const bool all = limit < 0 || static_cast<uint64_t>(limit) >= pieces.size();
  const size_t keep = all ? pieces.size() : static_cast<size_t>(limit) + 1;
  if (!run.charge(keep * 2 * sizeof(Text))) return out;
  if (pieces.size() <= keep) {
    for (auto [begin, end] : pieces) out.push_back(t.slice(begin, end));
  } else if (reverse) {
    const size_t joined = pieces.size() - keep;
    out.push_back(separator ? t.slice(pieces[0].first, pieces[joined].second) : strip(t.slice(0, pieces[joined].second), nullptr, false, true));
    for (size_t i = joined + 1; i < pieces.size(); i++) out.push_back(t.slice(pieces[i].first, pieces[i].second));
  } else {
    for (size_t i = 0; i + 1 < keep; i++) out.push_back(t.slice(pieces[i].first, pieces[i].second));
    out.push_back(t.slice(pieces[keep - 1].first, separator ? pieces.back().second : s.size()));
  }
  return out;
}

Value texts(Run& run, std::vector<Text> list, Sequence::Type type = Sequence::Type::List) {
  std::vector<Value> items;
  for (Text& t : list) items.push_back(run.make(std::move(t)));
  return run.make(std::move(items), type);
}

template <bool reverse>
Value split_method(Run& run, const Value& self, Args& args) {
  Params p(run, "split()", args, {"sep", "maxsplit"});
  const auto limit = p.integer(1, -1);
  const bool by_space = !p.get(0) || p.get(0)->is_none();
  const Text* separator = by_space ? nullptr : text_argument(run, p, 0, "split()");
  if (!p.ok() || run.failed() || !limit || !run.scan(self.as_text().size() * 8)) return {};
  if (separator && separator->empty()) return run.fail("split(): empty separator");
  return texts(run, split(run, self.as_text(), separator, *limit, reverse));
}

Value splitlines(Run& run, const Value& self, Args& args) {
  Params p(run, "splitlines()", args, {"keepends"});
  if (!p.ok() || !run.scan(self.as_text().size() * 8)) return {};
  return texts(run, lines_of(run, self.as_text(), p.flag(0, false)));
}

template <Text (*f)(const Text&)>
Value map_method(Run& run, const Value& self, Args& args) {
  Params p(run, "this method", args, {});
  if (!p.ok() || !run.scan(self.as_text().size() * 4)) return {};
  return run.make(f(self.as_text()));
}

Text titled(const Text& t) {
  Text out;
  out.markup = t.markup;
  bool in_word = false;
  t.each_run([&](std::string_view run, bool input) {
    std::string piece;
    for (size_t i = 0; i < run.size(); i += decode(run, i).size) {
      const uint32_t c = decode(run, i).code;
      in_word ? append_lower(c, piece) : append_title(c, piece);
      in_word = is_cased(c);
    }
    out.append(piece, input);
  });
  return out;
}

Text swapped(const Text& t) {
  Text out;
  t.each_run([&](std::string_view run, bool input) {
    std::string piece;
    for (size_t i = 0; i < run.size(); i += decode(run, i).size) {
      const uint32_t c = decode(run, i).code;
      is_upper(c) ? append_lower(c, piece) : append_upper(c, piece);
    }
    out.append(piece, input);
  });
  return out;
}

/// The bytes [begin, end) that the optional arguments start and end (in characters) select.
bool window(Run& run, Params& p, const Text& t, size_t& begin, size_t& end) {
  const auto bound = [&](size_t i, size_t fallback) -> std::optional<size_t> {
    if (!p.get(i) || p.get(i)->is_none()) return fallback;
    const auto n = p.integer(i, 0);
    if (!n) return std::nullopt;
    const auto size = static_cast<int64_t>(length(t.view()));
    return offset_of(t.view(), static_cast<size_t>(std::clamp<int64_t>(*n < 0 ? *n + size : *n, 0, size)));
  };
  if (!p.ok() || !run.scan(t.size())) return false;
  const auto b = bound(1, 0), e = bound(2, t.size());
  if (!b || !e) return false;
  begin = *b, end = std::max(*b, *e);
  return true;
}

enum class Search { Find, RFind, Index, RIndex, Count };
template <Search kind>
Value search_method(Run& run, const Value& self, Args& args) {
  Params p(run, kind == Search::Count ? "count()" : "find()", args, {"sub", "start", "end"}, 1);
  const Text& t = self.as_text();
  size_t begin = 0, end = 0;
  if (!window(run, p, t, begin, end)) return {};
  const Text* what = text_argument(run, p, 0, "find()");
  if (!what) return {};
  const std::string_view s = t.view().substr(begin, end - begin);
  constexpr bool last = kind == Search::RFind || kind == Search::RIndex;
  size_t found = std::string_view::npos, count = 0, next = 0;
  if (what->empty()) {
    found = last ? s.size() : 0, count = length(s) + 1;
  } else {
    each_match(s, what->view(), [&](size_t at) {
      if (last || found == s.npos) found = at;
      if (at >= next) count++, next = at + what->size();
      return last || kind == Search::Count;
    });
  }
  if (kind == Search::Count) return count;
  if (found == s.npos) return kind == Search::Index || kind == Search::RIndex ? run.fail("substring not found") : Value(-1);
  return length(t.view().substr(0, begin + found));
}

template <bool at_end>
Value affix_method(Run& run, const Value& self, Args& args) {
  Params p(run, at_end ? "endswith()" : "startswith()", args, {"prefix", "start", "end"}, 1);
  size_t begin = 0, end = 0;
  if (!window(run, p, self.as_text(), begin, end)) return {};
  const std::string_view s = self.as_view().substr(begin, end - begin);
  const auto matches = [&](const Value& v) {
    if (!v.is_string()) return run.fail_f("{} needs a string or a tuple of them, not {}", at_end ? "endswith()" : "startswith()", v.type_name()), false;
    return at_end ? s.ends_with(v.as_view()) : s.starts_with(v.as_view());
  };
  if (!p.get(0)->is(Kind::Sequence) || p.get(0)->as_sequence().type != Sequence::Type::Tuple) return matches(*p.get(0));
  for (const Value& v : p.get(0)->as_sequence().items)
    if (matches(v)) return true;
  return false;
}

template <bool at_end>
Value remove_affix(Run& run, const Value& self, Args& args) {
  Params p(run, at_end ? "removesuffix()" : "removeprefix()", args, {"prefix"}, 1);
  const Text* what = p.ok() ? text_argument(run, p, 0, "removeprefix()") : nullptr;
  if (!what) return {};
  const Text& t = self.as_text();
  if (!at_end && t.view().starts_with(what->view())) return run.make(t.slice(what->size(), t.size()));
  if (at_end && t.view().ends_with(what->view())) return run.make(t.slice(0, t.size() - what->size()));
  return self;
}

template <bool last>
Value partition_method(Run& run, const Value& self, Args& args) {
  Params p(run, "partition()", args, {"sep"}, 1);
  const Text* separator = p.ok() ? text_argument(run, p, 0, "partition()") : nullptr;
  if (!separator || !run.scan(self.as_text().size())) return {};
  if (separator->empty()) return run.fail("partition(): empty separator");
  const Text& t = self.as_text();
  size_t found = std::string_view::npos;
  each_match(t.view(), separator->view(), [&](size_t at) { return found = at, last; });
  if (found == std::string_view::npos)
    return texts(run, last ? std::vector<Text>{{}, {}, t} : std::vector<Text>{t, {}, {}}, Sequence::Type::Tuple);
  const size_t after = found + separator->size();
  return texts(run, {t.slice(0, found), t.slice(found, after), t.slice(after, t.size())}, Sequence::Type::Tuple);
}

Value replace(Run& run, const Value& self, Args& args) {
  Params p(run, "replace()", args, {"old", "new", "count"}, 2);
  const auto count = p.integer(2, -1);
  if (!p.ok() || !count) return {};
  const Text *old = text_argument(run, p, 0, "replace()"), *fresh = text_argument(run, p, 1, "replace()");
  return old && fresh ? run.make(replaced(run, self.as_text(), *old, *fresh, *count)) : Value();
}

Value join(Run& run, const Value& self, Args& args) {
  Params p(run, "join()", args, {"iterable"}, 1);
  const auto items = p.ok() ? iterate(run, *p.get(0)) : nullptr;
  if (!items) return {};
  Text out;
  for (size_t i = 0; i < items->items.size(); i++) {
    const Value& item = items->items[i];
    if (!item.is_string()) return run.fail_f("join(): item {} must be a string, not {}", i, item.type_name());
    if (!run.charge(self.as_text().size() + item.as_text().size())) return {};
    if (i) out.append(self.as_text());
    out.append(item.as_text());
  }
  return text(std::move(out));
}

enum class Side { Left, Right, Center };
template <Side side>
Value pad_method(Run& run, const Value& self, Args& args) {
  Params p(run, "this method", args, {"width", "fillchar"}, 1);
  const auto width = p.integer(0, 0);
  if (!p.ok() || !width || !run.scan(self.as_text().size())) return {};
  const Text* fill = p.get(1) ? text_argument(run, p, 1, "padding") : nullptr;
  if (run.failed()) return {};
  if (fill && length(fill->view()) != 1) return run.fail("the fill character must be exactly one character long");
  const auto size = static_cast<int64_t>(length(self.as_view()));
  if (*width <= size) return self;
  const auto missing = static_cast<size_t>(*width - size);
  if (!run.charge(missing * 4)) return {};
  const size_t left = side == Side::Left ? 0 : side == Side::Right ? missing : missing / 2 + (missing & static_cast<size_t>(*width) & 1);
  Text out;
  const auto pad = [&](size_t n) {
    while (n-- > 0) fill ? out.append(*fill) : out.append(" ", false);
  };
  pad(left);
  out.append(self.as_text());
  pad(missing - left);
  return text(std::move(out));
}

Value zfill(Run& run, const Value& self, Args& args) {
  Params p(run, "zfill()", args, {"width"}, 1);
  const auto width = p.integer(0, 0);
  if (!p.ok() || !width) return {};
  const Text& t = self.as_text();
  const auto size = static_cast<int64_t>(length(t.view()));
  if (*width <= size) return self;
  if (!run.charge(static_cast<size_t>(*width - size))) return {};
  const bool sign = t.view().starts_with('-') || t.view().starts_with('+');
  Text out = t.slice(0, sign);
  out.append(std::string(static_cast<size_t>(*width - size), '0'), false);
  out.append(t, sign, t.size());
  return text(std::move(out));
}

/// All characters of a class, and at least one.
template <bool (*f)(uint32_t)>
Value all_method(Run& run, const Value& self, Args&) {
  const std::string_view s = self.as_view();
  if (!run.scan(s.size() * 4)) return {};
  for (size_t i = 0; i < s.size(); i += decode(s, i).size)
    if (!f(decode(s, i).code)) return false;
  return !s.empty();
}
bool alphanumeric(uint32_t c) { return is_alpha(c) || is_numeric(c); }

template <bool (*wanted)(uint32_t), bool (*other)(uint32_t)>
Value case_method(Run& run, const Value& self, Args&) {
  const std::string_view s = self.as_view();
  if (!run.scan(s.size() * 4)) return {};
  bool any = false;
  for (size_t i = 0; i < s.size(); i += decode(s, i).size) {
    if (other(decode(s, i).code)) return false;
    any = any || wanted(decode(s, i).code);
  }
  return any;
}

Value is_ascii_method(Run& run, const Value& self, Args&) {
  if (!run.scan(self.as_text().size())) return {};
  return std::all_of(self.as_view().begin(), self.as_view().end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Value isidentifier(Run& run, const Value& self, Args& args) {
  const std::string_view s = self.as_view();
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  return all_method<is_word>(run, self, args);
}

Value format(Run& run, const Value& self, Args& args) { return format_braces(run, self.as_text(), args); }

// ---- dict, list, tuple

enum class View { Keys, Values, Items };
template <View view>
Value dict_view(Run& run, const Value& self, Args& args) {
  Params p(run, "this method", args, {});
  if (!p.ok() || !run.step(self.as_dict().items.size())) return {};
  std::vector<Value> items;
  for (const auto& [key, value] : self.as_dict().items)
    items.push_back(view == View::Keys ? key : view == View::Values ? value : run.make({key, value}, Sequence::Type::Tuple));
  return run.make(std::move(items), Sequence::Type::View, view == View::Keys ? "dict_keys" : view == View::Values ? "dict_values" : "dict_items");
}

Value dict_get(Run& run, const Value& self, Args& args) {
  Params p(run, "get()", args, {"key", "default"}, 1);
  if (!p.ok() || (p.get(0)->is_string() && !run.scan(p.get(0)->as_text().size()))) return {};
  std::string key;
  if (!dict_key(*p.get(0), key)) return run.fail_f("unhashable type: '{}'", p.get(0)->type_name());
  const Value* found = self.as_dict().find(*p.get(0));
  return found ? *found : p.value(1, Value::none());
}

Value dict_copy(Run& run, const Value& self, Args&) { return run.make(std::make_shared<Dict>(self.as_dict())); }

Value list_index(Run& run, const Value& self, Args& args) {
  Params p(run, "index()", args, {"value"}, 1);
  if (!p.ok()) return {};
  const auto& items = self.as_sequence().items;
  for (size_t i = 0; i < items.size() && !run.failed(); i++)
    if (equal(run, items[i], *p.get(0))) return i;
  return run.fail("index(): the value is not in the list");
}

Value list_count(Run& run, const Value& self, Args& args) {
  Params p(run, "count()", args, {"value"}, 1);
  if (!p.ok()) return {};
  size_t n = 0;
  for (const Value& item : self.as_sequence().items) n += equal(run, item, *p.get(0));
  return n;
}

Value list_copy(Run& run, const Value& self, Args&) { return run.make(self.as_sequence().items); }

const Table<Method>& methods_of(const Value& self) {
  static const Table<Method> none, str{
      {"strip", strip_method<true, true>}, {"lstrip", strip_method<true, false>}, {"rstrip", strip_method<false, true>},
      {"split", split_method<false>}, {"rsplit", split_method<true>}, {"splitlines", splitlines},
      {"upper", map_method<upper>}, {"lower", map_method<lowered>}, {"casefold", map_method<lowered>},
      {"title", map_method<titled>}, {"capitalize", map_method<capitalized>}, {"swapcase", map_method<swapped>},
      {"find", search_method<Search::Find>}, {"rfind", search_method<Search::RFind>}, {"index", search_method<Search::Index>},
      {"rindex", search_method<Search::RIndex>}, {"count", search_method<Search::Count>},
      {"startswith", affix_method<false>}, {"endswith", affix_method<true>},
      {"removeprefix", remove_affix<false>}, {"removesuffix", remove_affix<true>},
      {"partition", partition_method<false>}, {"rpartition", partition_method<true>},
      {"replace", replace}, {"join", join}, {"format", format}, {"zfill", zfill},
      {"ljust", pad_method<Side::Left>}, {"rjust", pad_method<Side::Right>}, {"center", pad_method<Side::Center>},
      {"isalpha", all_method<is_alpha>}, {"isdigit", all_method<is_decimal>}, {"isdecimal", all_method<is_decimal>},
      {"isnumeric", all_method<is_numeric>}, {"isalnum", all_method<alphanumeric>}, {"isspace", all_method<is_space>},
      {"isupper", case_method<is_upper, is_lower>}, {"islower", case_method<is_lower, is_upper>},
      {"isascii", is_ascii_method}, {"isidentifier", isidentifier}};
  static const Table<Method> dict{{"keys", dict_view<View::Keys>}, {"values", dict_view<View::Values>},
                                  {"items", dict_view<View::Items>}, {"get", dict_get}, {"copy", dict_copy}};
  static const Table<Method> list{{"index", list_index}, {"count", list_count}, {"copy", list_copy}};
  static const Table<Method> tuple{{"index", list_index}, {"count", list_count}};
  if (self.is_string()) return str;
  if (self.is(Kind::Dict)) return dict;
  if (!self.is(Kind::Sequence)) return none;
  const auto type = self.as_sequence().type;
  return type == Sequence::Type::List ? list : type == Sequence::Type::Tuple || type == Sequence::Type::Range ? tuple : none;
}

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, Method method) : self_(std::move(self)), method_(method) {}
  const char* type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Run& run, Args& args) override { return run.step() ? method_(run, self_, args) : Value(); }
  Text print(Run&) const override { return Text("<built-in method>"); }
  int depth() const override { return self_.depth() + 1; }

 private:
  Value self_;
  Method method_;
};

}  // namespace

bool find_method(const Value& self, std::string_view name, Value& out) {
  const auto& table = methods_of(self);
  const auto it = table.find(name);
  if (it == table.end()) return false;
  out = Value(std::shared_ptr<Object>(std::make_shared<BoundMethod>(self, it->second)));
  return true;
}

bool modifies(const Value& self, std::string_view name) {
  static constexpr std::string_view of_dict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view of_list[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  if (self.is(Kind::Dict)) return std::find(std::begin(of_dict), std::end(of_dict), name) != std::end(of_dict);
  if (!self.is(Kind::Sequence) || self.as_sequence().type != Sequence::Type::List) return false;
  return std::find(std::begin(of_list), std::end(of_list), name) != std::end(of_list);
}

}  // namespace gull::text::jinja
