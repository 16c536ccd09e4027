// What can stand after `is`, and the look-up of filters and tests by name.
#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/unicode.h"

namespace gull::text::jinja {
namespace {

template <bool (*f)(const Value&)>
bool plain(Run& run, const Value& v, Args& args) {
  Params p(run, "this test", args, {});
  return p.ok() && f(v);
}

bool sequence(const Value& v) {
  if (v.is(Kind::Sequence)) return v.as_sequence().type != Sequence::Type::Generator && v.as_sequence().type != Sequence::Type::View;
  return v.is_string() || v.is(Kind::Dict) || v.is_undefined();
}
bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool boolean(const Value& v) { return v.is(Kind::Bool); }
bool is_true(const Value& v) { return v.is(Kind::Bool) && v.as_bool(); }
bool is_false(const Value& v) { return v.is(Kind::Bool) && !v.as_bool(); }
bool integer(const Value& v) { return v.is(Kind::Int); }
bool is_float(const Value& v) { return v.is(Kind::Float); }
bool number(const Value& v) { return v.is_number(); }
bool string(const Value& v) { return v.is_string(); }
bool mapping(const Value& v) { return v.is(Kind::Dict); }
bool escaped(const Value& v) { return v.is_string() && v.as_text().markup; }
bool callable(const Value& v) { return v.is_undefined() || (v.is(Kind::Object) && v.as_object().callable()); }
bool filter(const Value& v) { return v.is_string() && has_filter(v.as_view()); }
bool test(const Value& v) { return v.is_string() && has_test(v.as_view()); }
bool iterable(const Value& v) { return v.is(Kind::Sequence) || v.is_string() || v.is(Kind::Dict) || v.is_undefined(); }

/// Only letters of one case, and at least one.
template <bool (*wanted)(uint32_t), bool (*other)(uint32_t)>
bool letters(Run& run, const Value& v, Args& args) {
  Params p(run, "this test", args, {});
  const Text t = to_text(run, v);
  if (!run.scan(t.size() * 4)) return false;
  bool any = false;
  for (size_t i = 0; i < t.size(); i += decode(t.view(), i).size) {
    const uint32_t c = decode(t.view(), i).code;
    if (other(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

bool divisible(Run& run, const Value& v, Args& args) {
  Params p(run, "divisibleby", args, {"num"}, 1);
  if (!p.ok()) return false;
  return equal(run, binary(run, "%", v, *p.get(0)), 0) && !run.failed();
}

template <int rest>
bool parity(Run& run, const Value& v, Args& args) {
  Params p(run, "this test", args, {});
  const Value r = binary(run, "%", v, 2);
  return !run.failed() && equal(run, r, rest);
}

enum class Op { Eq, Ne, Lt, Le, Gt, Ge, In };
template <Op op>
bool comparison(Run& run, const Value& v, Args& args) {
  static constexpr std::string_view symbols[] = {"==", "!=", "<", "<=", ">", ">=", "in"};
  Params p(run, "this test", args, {"other"}, 1);
  return p.ok() && compare(run, symbols[static_cast<size_t>(op)], v, *p.get(0));
}

bool same_as(Run& run, const Value& v, Args& args) {
  Params p(run, "sameas", args, {"other"}, 1);
  return p.ok() && v.same_as(*p.get(0));
}

const Table<Test>& tests() {
  static const Table<Test> table{
      {"defined", plain<defined>}, {"undefined", plain<undefined>}, {"none", plain<none>}, {"boolean", plain<boolean>},
      {"true", plain<is_true>}, {"false", plain<is_false>}, {"integer", plain<integer>}, {"float", plain<is_float>},
      {"number", plain<number>}, {"string", plain<string>}, {"mapping", plain<mapping>}, {"escaped", plain<escaped>},
      {"callable", plain<callable>}, {"sequence", plain<sequence>}, {"iterable", plain<iterable>}, {"filter", plain<filter>},
      {"test", plain<test>}, {"lower", letters<is_lower, is_upper>}, {"upper", letters<is_upper, is_lower>},
      {"divisibleby", divisible}, {"odd", parity<1>}, {"even", parity<0>}, {"sameas", same_as}, {"in", comparison<Op::In>},
      {"==", comparison<Op::Eq>}, {"eq", comparison<Op::Eq>}, {"equalto", comparison<Op::Eq>}, {"!=", comparison<Op::Ne>}, {"ne", comparison<Op::Ne>},
      {"<", comparison<Op::Lt>}, {"lt", comparison<Op::Lt>}, {"lessthan", comparison<Op::Lt>}, {"<=", comparison<Op::Le>}, {"le", comparison<Op::Le>},
      {">", comparison<Op::Gt>}, {"gt", comparison<Op::Gt>}, {"greaterthan", comparison<Op::Gt>}, {">=", comparison<Op::Ge>}, {"ge", comparison<Op::Ge>}};
  return table;
}

Filter find_filter(std::string_view name) {
  for (const auto* table : {&text_filters(), &sequence_filters(), &number_filters()})
    if (const auto it = table->find(name); it != table->end()) return it->second;
  return nullptr;
}

}  // namespace

bool has_filter(std::string_view name) { return find_filter(name) != nullptr; }
bool has_test(std::string_view name) { return tests().contains(name); }

Value call_filter(Run& run, std::string_view name, const Value& subject, Args& args) {
  if (!run.step()) return {};
  const Filter filter = find_filter(name);
  if (!filter) return run.fail_f("no filter is named '{}'", name);
  return filter(run, subject, args);
}

bool call_test(Run& run, std::string_view name, const Value& subject, Args& args) {
  if (!run.step()) return false;
  const auto it = tests().find(name);
  if (it == tests().end()) return run.fail_f("no test is named '{}'", name), false;
  return it->second(run, subject, args);
}

}  // namespace gull::text::jinja
