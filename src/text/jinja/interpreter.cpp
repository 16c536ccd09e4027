// Statements of the interpreter.
#include "text/jinja/interpreter.h"

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gull::text::jinja {

class Interpreter::Inner {
 public:
  Inner(Interpreter& run, Scope& parent) : run_(run), scope_(std::make_unique<Scope>()) { scope_->parent = &parent; }
  ~Inner() {
    if (scope_->kept) run_.kept_scopes_.push_back(std::move(scope_));
  }
  Inner(const Inner&) = delete;
  Scope& operator*() { return *scope_; }
  Scope* operator->() { return scope_.get(); }

 private:
  Interpreter& run_;
  std::unique_ptr<Scope> scope_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& run) : run_(run), outer_(run.out_) { run.out_ = &text; }
  ~Capture() { run_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Text text;

 private:
  Interpreter& run_;
  Text* outer_;
};

Interpreter::Interpreter(const Limits& limits, const Block& root) : Run(limits), root_block_(root) {
  for (const auto& [name, value] : globals()) root_.variables[name] = value;
}

std::optional<Text> Interpreter::render() {
  Text out;
  out_ = &out;
  Inner top(*this, root_);
  block(root_block_, *top);
  if (failed()) return std::nullopt;
  return out;
}

void Interpreter::write(const Text& t) {
  if (!charge(t.size())) return;
  if (out_->size() + t.size() > limits.output) {
    fail_f("the render is larger than {} MiB", limits.output >> 20);
    return;
  }
  out_->append(t);
}

Interpreter::Flow Interpreter::block(const Block& b, Scope& scope) {
  Deeper deeper(*this);
  for (const auto& s : b) {
    if (!deeper.ok || failed()) break;
    const Flow flow = statement(*s, scope);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::statement(const Stmt& s, Scope& scope) {
  line = s.line;
  if (!step()) return Flow::Normal;
  switch (s.kind) {
    case Stmt::Data: write(s.text.as_text()); break;
    case Stmt::Print:
      for (const auto& e : s.exprs) {
        const Value v = eval(*e, scope);
        if (v.is_string()) write(v.as_text());
        else write(to_text(*this, v));
      }
      break;
    case Stmt::If: return if_(s, scope);
    case Stmt::For: {
      const Value iterable = eval(*s.exprs[0], scope);
      if (!s.recursive) return for_(s, scope, iterable, 0);
      keep(&scope);
      const Value text = recurse(s, &scope, iterable, 0);
      if (!failed()) write(text.as_text());
      break;
    }
    case Stmt::Set: assign(*s.target, eval(*s.exprs[0], scope), scope); break;
    case Stmt::SetBlock:
    case Stmt::FilterBlock: {
      Value value;
      const Flow flow = captured(s, scope, value);
      if (flow != Flow::Normal || failed()) return flow;
      if (s.kind == Stmt::SetBlock) assign(*s.target, value, scope);
      else write(to_text(*this, value));
      break;
    }
    case Stmt::Macro:
      keep(&scope);
      scope.variables[s.name] = std::shared_ptr<Object>(std::make_shared<Macro>(*this, s, &scope, s.name));
      break;
    case Stmt::CallBlock: call_block(s, scope); break;
    case Stmt::With: return with(s, scope);
    case Stmt::Scope: {
      Inner inner(*this, scope);
      return block(s.bodies[0], *inner);
    }
    case Stmt::Break: return Flow::Break;
    case Stmt::Continue: return Flow::Continue;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::if_(const Stmt& s, Scope& scope) {
  for (size_t i = 0; i < s.bodies.size(); i++) {
    const bool chosen = i >= s.exprs.size() || eval(*s.exprs[i], scope).truthy();
    if (failed()) break;
    if (chosen) return block(s.bodies[i], scope);
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::for_(const Stmt& s, Scope& scope, const Value& iterable, int level) {
  auto items = iterate(*this, iterable);
  if (items && s.exprs[1]) {
    std::vector<Value> chosen;
    for (const Value& item : items->items) {
      Inner inner(*this, scope);
      assign(*s.target, item, *inner);
      if (eval(*s.exprs[1], *inner).truthy()) chosen.push_back(item);
      if (failed()) break;
    }
    const Value made = make(std::move(chosen));
    items = failed() ? nullptr : made.sequence_pointer();
  }
  if (!items) return Flow::Normal;
  const auto loop = std::make_shared<Loop>(*this, s, &scope, items, level);
  const Value loop_value = std::shared_ptr<Object>(loop);
  // As in jinja2, `else` also runs when no pass came to its end (each was left by break or continue).
  bool completed = false;
  for (size_t i = 0; i < items->items.size() && step(); i++) {
    loop->move_to(i);
    Inner inner(*this, scope);
    inner->variables["loop"] = loop_value;
    assign(*s.target, items->items[i], *inner);
    if (failed()) break;
    const Flow flow = block(s.bodies[0], *inner);
    if (flow == Flow::Normal) completed = true;
    if (flow == Flow::Break) break;
  }
  loop->end();
  if (completed || failed()) return Flow::Normal;
  Inner inner(*this, scope);
  return block(s.bodies[1], *inner);
}

Value Interpreter::recurse(const Stmt& loop, Scope* scope, const Value& items, int level) {
  Deeper deeper(*this);
  if (!deeper.ok) return {};
  Capture capture(*this);
  for_(loop, *scope, items, level);
  return make(std::move(capture.text));
}

/// Runs the body apart, and its output through the filters.
Interpreter::Flow Interpreter::captured(const Stmt& s, Scope& scope, Value& out) {
  Inner inner(*this, scope);
  Flow flow;
  {
    Capture capture(*this);
    flow = block(s.bodies[0], *inner);
    out = make(std::move(capture.text));
  }
  if (failed() || !s.exprs[0]) return flow;
  const Value subject = out;
  const Value* outer = std::exchange(filter_subject_, &subject);
  out = eval(*s.exprs[0], *inner);
  filter_subject_ = outer;
  return flow;
}

void Interpreter::call_block(const Stmt& s, Scope& scope) {
  keep(&scope);
  const Value caller = std::shared_ptr<Object>(std::make_shared<Macro>(*this, s, &scope, "caller"));
  const Value result = eval_call(*s.exprs[0], scope, &caller);
  if (!failed()) write(to_text(*this, result));
}

Interpreter::Flow Interpreter::with(const Stmt& s, Scope& scope) {
  Inner inner(*this, scope);
  for (size_t i = 0; i < s.targets.size(); i++) assign(*s.targets[i], eval(*s.exprs[i], scope), *inner);
  return block(s.bodies[0], *inner);
}

void Interpreter::assign(const Expr& target, const Value& value, Scope& scope) {
  if (failed()) return;
  if (target.kind == Expr::Name) {
    scope.variables[target.name] = value;
    return;
  }
  if (target.kind == Expr::Attribute) {
    const Value* ns = scope.find(target.name);
    return set_namespace(*this, ns ? *ns : Value(), target.attribute, value);
  }
  const auto items = iterate(*this, value);
  if (!items) return;
  const size_t want = target.kids.size(), have = items->items.size();
  if (have != want) {
    fail_f("cannot unpack {} value(s) into {} name(s)", have, want);
    return;
  }
  for (size_t i = 0; i < want; i++) assign(*target.kids[i], items->items[i], scope);
}

void Interpreter::keep(Scope* scope) {
  for (; scope && !scope->kept; scope = scope->parent) {
    if (!charge(2 * sizeof(Scope))) return;
    scope->kept = true;
  }
}

bool Interpreter::bind(const Stmt& macro, std::string_view name, Args& args, Scope& scope) {
  const Signature& sig = macro.signature;
  const size_t count = sig.names.size(), given = std::min(count, args.positional.size());
  for (size_t i = 0; i < given; i++) scope.variables[sig.names[i]] = args.positional[i];
  auto rest = std::make_shared<Dict>();
  for (auto& [key, value] : args.named) {
    size_t i = given;
    while (i < count && sig.names[i] != key) i++;
    if (i < count) scope.variables[sig.names[i]] = value;
    else if (key == "caller" && sig.uses_caller) scope.variables["caller"] = value;
    else if (sig.uses_kwargs) rest->set(text(key), value);
    else return fail_f("macro '{}' takes no keyword argument '{}'", name, key), false;
  }
  if (args.positional.size() > count && !sig.uses_varargs) return fail_f("macro '{}' takes not more than {} argument(s)", name, count), false;
  const size_t first_default = count - sig.defaults.size();
  for (size_t i = given; i < count && !failed(); i++) {
    if (scope.variables.contains(sig.names[i])) continue;
    scope.variables[sig.names[i]] = i >= first_default ? eval(*sig.defaults[i - first_default], scope)
                                                       : Value::undefined(fmt::format("parameter '{}' was not provided", sig.names[i]));
  }
  if (sig.uses_kwargs) scope.variables["kwargs"] = make(std::move(rest));
  if (sig.uses_varargs) {
    std::vector<Value> more(args.positional.begin() + static_cast<ptrdiff_t>(given), args.positional.end());
    scope.variables["varargs"] = make(std::move(more), Sequence::Type::Tuple);
  }
  if (sig.uses_caller && !scope.variables.contains("caller")) scope.variables["caller"] = Value::undefined("no caller is defined");
  return !failed();
}

Value Interpreter::call_macro(const Stmt& macro, Scope* scope, std::string_view name, Args& args) {
  Deeper deeper(*this);
  if (!deeper.ok || !step()) return {};
  Inner inner(*this, *scope);
  if (!bind(macro, name, args, *inner)) return {};
  Capture capture(*this);
  block(macro.bodies[0], *inner);
  return make(std::move(capture.text));
}

}  // namespace gull::text::jinja
