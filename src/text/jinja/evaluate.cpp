// Expressions of the interpreter.
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gull::text::jinja {

Value Interpreter::eval(const Expr& e, Scope& scope) {
  if (failed()) return {};
  if (e.kind == Expr::Constant) return e.constant;
  if (e.kind == Expr::Name) return eval_name(e, scope);
  return eval_deeper(e, scope);
}

Value Interpreter::eval_name(const Expr& e, Scope& scope) {
  const Value* found = scope.find(e.name);
  return found ? *found : Value::undefined(fmt::format("'{}' is undefined", e.name));
}

Value Interpreter::eval_deeper(const Expr& e, Scope& scope) {
  Deeper deeper(*this);
  line = e.line;
  if (!deeper.ok || !step()) return {};
  switch (e.kind) {
    case Expr::List:
    case Expr::Tuple: {
      std::vector<Value> items;
      for (const auto& kid : e.kids) items.push_back(eval(*kid, scope));
      return make(std::move(items), e.kind == Expr::List ? Sequence::Type::List : Sequence::Type::Tuple);
    }
    case Expr::Dict: return eval_dict(e, scope);
    case Expr::Attribute: {
      const Value object = eval(*e.kids[0], scope);
      line = e.line;
      return failed() ? Value() : get_attribute(*this, object, e.name);
    }
    case Expr::Item: return eval_item(e, scope);
    case Expr::Slice: return fail("a slice can only stand alone between brackets");
    case Expr::Call: return eval_call(e, scope, nullptr);
    case Expr::Filter: return eval_filter(e, scope);
    case Expr::Test: {
      const Value subject = eval(*e.kids[0], scope);
      Args args;
      if (!arguments(e.args.get(), scope, args)) return {};
      return call_test(*this, e.name, subject, args);
    }
    case Expr::Not: return !eval(*e.kids[0], scope).truthy();
    case Expr::And: {
      Value left = eval(*e.kids[0], scope);
      return left.truthy() ? eval(*e.kids[1], scope) : left;
    }
    case Expr::Or: {
      Value left = eval(*e.kids[0], scope);
      return left.truthy() ? left : eval(*e.kids[1], scope);
    }
    case Expr::Negative: {
      const Value v = eval(*e.kids[0], scope);
      return failed() ? v : negative(*this, v);
    }
    case Expr::Positive: {
      const Value v = eval(*e.kids[0], scope);
      if (v.is_number() || failed()) return v.is(Kind::Bool) ? Value(v.as_int()) : v;
      return fail(v.is_undefined() ? v.why_undefined() : fmt::format("bad operand type for unary +: '{}'", v.type_name()));
    }
    case Expr::Binary: {
      const Value left = eval(*e.kids[0], scope), right = eval(*e.kids[1], scope);
      line = e.line;
      return failed() ? Value() : binary(*this, e.name, left, right);
    }
    case Expr::Compare: return eval_compare(e, scope);
    case Expr::Concat: return eval_concat(e, scope);
    case Expr::Conditional: {
      const bool yes = eval(*e.kids[0], scope).truthy();
      if (yes) return eval(*e.kids[1], scope);
      if (e.kids[2]) return eval(*e.kids[2], scope);
      return Value::undefined(fmt::format("the inline if on line {} was false and has no else", e.line));
    }
    case Expr::Constant:
    case Expr::Name: break;
  }
  return {};
}

Value Interpreter::eval_dict(const Expr& e, Scope& scope) {
  auto dict = std::make_shared<Dict>();
  for (size_t i = 0; i + 1 < e.kids.size(); i += 2) {
    const Value key = eval(*e.kids[i], scope);
    Value value = eval(*e.kids[i + 1], scope);
    if (failed() || (key.is_string() && !scan(key.as_text().size()))) return {};
    if (!dict->set(key, std::move(value))) return fail_f("unhashable type: '{}'", key.type_name());
  }
  return make(std::move(dict));
}

Value Interpreter::eval_item(const Expr& e, Scope& scope) {
  const Value object = eval(*e.kids[0], scope);
  const Expr& index = *e.kids[1];
  if (index.kind != Expr::Slice) {
    const Value key = eval(index, scope);
    line = e.line;
    return failed() ? Value() : get_item(*this, object, key);
  }
  const auto part = [&](size_t i) { return index.kids[i] ? eval(*index.kids[i], scope) : Value::none(); };
  const Value begin = part(0), end = part(1), by = part(2);
  return failed() ? Value() : get_slice(*this, object, begin, end, by);
}

bool Interpreter::arguments(const CallArgs* from, Scope& scope, Args& out) {
  if (!from) return !failed();
  for (const auto& e : from->positional) out.positional.push_back(eval(*e, scope));
  for (const auto& [name, e] : from->named) out.named.emplace_back(name, eval(*e, scope));
  if (from->star) {
    const auto items = iterate(*this, eval(*from->star, scope));
    if (!items || !charge(items->items.size() * sizeof(Value))) return false;
    out.positional.insert(out.positional.end(), items->items.begin(), items->items.end());
  }
  if (from->star_star) {
    const Value more = eval(*from->star_star, scope);
    if (failed()) return false;
    if (!more.is(Kind::Dict)) return fail("the argument after ** must be a dict"), false;
    for (const auto& [key, value] : more.as_dict().items) {
      if (!key.is_string()) return fail("keywords must be strings"), false;
      out.named.emplace_back(std::string(key.as_view()), value);
    }
  }
  return !failed();
}

Value Interpreter::eval_call(const Expr& e, Scope& scope, const Value* caller) {
  const Value callee = eval(*e.kids[0], scope);
  Args args;
  if (!arguments(e.args.get(), scope, args)) return {};
  if (caller) args.named.emplace_back("caller", *caller);
  line = e.line;
  if (callee.is_undefined()) return fail(callee.why_undefined());
  if (!callee.is(Kind::Object) || !callee.as_object().callable()) return fail_f("'{}' object is not callable", callee.type_name());
  return callee.as_object().call(*this, args);
}

Value Interpreter::eval_filter(const Expr& e, Scope& scope) {
  const Value subject = e.kids[0] ? eval(*e.kids[0], scope) : *filter_subject_;
  Args args;
  if (!arguments(e.args.get(), scope, args)) return {};
  line = e.line;
  return call_filter(*this, e.name, subject, args);
}

Value Interpreter::eval_compare(const Expr& e, Scope& scope) {
  Value left = eval(*e.kids[0], scope);
  for (size_t i = 0; i < e.operators.size(); i++) {
    Value right = eval(*e.kids[i + 1], scope);
    if (failed()) return {};
    line = e.line;
    if (!compare(*this, e.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval_concat(const Expr& e, Scope& scope) {
  Text out;
  for (const auto& kid : e.kids) {
    const Value v = eval(*kid, scope);
    if (failed()) return {};
    if (v.is_string()) {
      if (charge(v.as_text().size())) out.append(v.as_text());
    } else {
      out.append(to_text(*this, v));
    }
  }
  return make(std::move(out));
}

}  // namespace gull::text::jinja
