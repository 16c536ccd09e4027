#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_base.h"

namespace gull::text::jinja {

ExprPtr ExpressionParser::node(Expr::Kind kind, int line) {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = line;
  return e;
}

ExprPtr ExpressionParser::with(ExprPtr parent, ExprPtr kid) {
  if (kid) parent->depth = std::max(parent->depth, kid->depth + 1);
  if (parent->depth > kMaxTree) fail("an expression is too long or nested too deeply", parent->line);
  parent->kids.push_back(std::move(kid));
  return parent;
}

ExprPtr ExpressionParser::expression(bool conditional) {
  Nest nest(*this);
  const int line = current().line;
  ExprPtr e = failed() ? node(Expr::Constant, line) : binary(1);
  while (conditional && !failed() && skip_name("if")) {
    ExprPtr condition = binary(1);
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    e = with(with(with(node(Expr::Conditional, line), std::move(condition)), std::move(e)), std::move(otherwise));
  }
  return e;
}

namespace {
/// or 1, and 2, not 3, comparisons 4, + - 5, ~ 6, * / // % 7, ** 8; 0: no operator.
int level_of(const Token& t, const Token& next) {
  if (t.type == Token::Name) {
    if (t.text == "or") return 1;
    if (t.text == "and") return 2;
    if (t.text == "in" || (t.text == "not" && next.type == Token::Name && next.text == "in")) return 4;
    return 0;
  }
  if (t.type != Token::Operator) return 0;
  const std::string_view s = t.text;
  if (s == "==" || s == "!=" || s == "<" || s == "<=" || s == ">" || s == ">=") return 4;
  if (s == "+" || s == "-") return 5;
  if (s == "~") return 6;
  if (s == "*" || s == "/" || s == "//" || s == "%") return 7;
  return s == "**" ? 8 : 0;
}
}  // namespace

ExprPtr ExpressionParser::binary(int level) {
  Nest nest(*this);
  const int line = current().line;
  ExprPtr left;
  if (level <= 3 && is_name("not")) {
    take();
    left = with(node(Expr::Not, line), binary(3));
  } else {
    left = unary(true);
  }
  while (!failed()) {
    const int next = level_of(current(), ahead());
    if (next == 0 || next < level) break;
    if (next == 4) {
      left = compare(std::move(left));
    } else if (next == 6) {
      ExprPtr all = with(node(Expr::Concat, line), std::move(left));
      while (!failed() && skip_operator("~")) all = with(std::move(all), binary(7));
      left = std::move(all);
    } else {
      const Token op = take();
      ExprPtr e = node(next == 1 ? Expr::Or : next == 2 ? Expr::And : Expr::Binary, op.line);
      e->name = op.text;
      left = with(with(std::move(e), std::move(left)), binary(next + 1));
    }
  }
  return left;
}

ExprPtr ExpressionParser::compare(ExprPtr left) {
  ExprPtr e = with(node(Expr::Compare, current().line), std::move(left));
  while (!failed() && level_of(current(), ahead()) == 4) {
    std::string op = take().text;
    if (op == "not") take(), op = "not in";
    e->operators.push_back(std::move(op));
    e = with(std::move(e), binary(5));
  }
  return e;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  Nest nest(*this);
  const int line = current().line;
  ExprPtr e;
  if (failed()) return node(Expr::Constant, line);
  if (is_operator("-") || is_operator("+")) {
    const bool minus = take().text == "-";
    e = with(node(minus ? Expr::Negative : Expr::Positive, line), unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  while (with_filters && !failed()) {
    if (is_operator("|")) e = filters(std::move(e), false);
    else if (is_name("is")) e = test(std::move(e));
    else if (is_operator("(")) e = call(std::move(e));
    else break;
  }
  return e;
}

ExprPtr ExpressionParser::name_or_constant() {
  const Token token = take();
  const std::string& s = token.text;
  ExprPtr e = node(Expr::Constant, token.line);
  if (s == "true" || s == "True") e->constant = true;
  else if (s == "false" || s == "False") e->constant = false;
  else if (s == "none" || s == "None") e->constant = Value::none();
  else e->kind = Expr::Name;
  for (Signature* signature : signatures_) {
    signature->uses_varargs |= s == "varargs";
    signature->uses_kwargs |= s == "kwargs";
    signature->uses_caller |= s == "caller";
  }
  if (e->kind == Expr::Name) e->name = s;
  return e;
}

ExprPtr ExpressionParser::primary() {
  const int line = current().line;
  switch (current().type) {
    case Token::Name: return name_or_constant();
    case Token::String: {
      std::string value = take().text;
      while (is(Token::String)) value += take().text;
      ExprPtr e = node(Expr::Constant, line);
      e->constant = text(std::move(value));
      return e;
    }
    case Token::Integer:
    case Token::Float: {
      const Token t = take();
      ExprPtr e = node(Expr::Constant, line);
      e->constant = t.type == Token::Integer ? Value(t.integer) : Value(t.number);
      return e;
    }
    default: break;
  }
  if (skip_operator("(")) {
    ExprPtr e = tuple(true, {}, true);
    expect_operator(")");
    return e;
  }
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  fail(fmt::format("unexpected {}", describe(current())));
  return node(Expr::Constant, line);
}

ExprPtr ExpressionParser::list() {
  ExprPtr e = node(Expr::List, take().line);
  while (!failed() && !is_operator("]")) {
    e = with(std::move(e), expression());
    if (!is_operator("]")) expect_operator(",");
  }
  expect_operator("]");
  return e;
}

ExprPtr ExpressionParser::dict() {
  ExprPtr e = node(Expr::Dict, take().line);
  while (!failed() && !is_operator("}")) {
    e = with(std::move(e), expression());
    expect_operator(":");
    e = with(std::move(e), expression());
    if (!is_operator("}")) expect_operator(",");
  }
  expect_operator("}");
  return e;
}

bool ExpressionParser::tuple_ends(std::string_view end_name) const {
  return is(Token::PrintEnd) || is(Token::BlockEnd) || is(Token::End) || is_operator(")") ||
         (!end_name.empty() && is_name(end_name));
}

ExprPtr ExpressionParser::tuple(bool conditional, std::string_view end_name, bool in_brackets) {
  const int line = current().line;
  if (tuple_ends(end_name)) {
    if (!in_brackets) fail(fmt::format("expected an expression, got {}", describe(current())));
    return node(Expr::Tuple, line);
  }
  ExprPtr first = expression(conditional);
  if (!is_operator(",")) return first;
  ExprPtr e = with(node(Expr::Tuple, line), std::move(first));
  while (!failed() && skip_operator(",") && !tuple_ends(end_name)) e = with(std::move(e), expression(conditional));
  return e;
}

ExprPtr ExpressionParser::target(bool attributes, std::string_view end_name) {
  const auto one = [&]() -> ExprPtr {
    Nest nest(*this);
    const int line = current().line;
    if (skip_operator("(")) {
      ExprPtr e = target(attributes);
      expect_operator(")");
      return e;
    }
    ExprPtr e = node(Expr::Name, line);
    e->name = expect_any_name();
    static constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
    for (auto constant : constants)
      if (e->name == constant) fail(fmt::format("cannot assign to '{}'", constant), line);
    if (attributes && skip_operator(".")) {
      e->kind = Expr::Attribute;
      e->attribute = expect_any_name();
    }
    return e;
  };
  const int line = current().line;
  ExprPtr first = one();
  if (!is_operator(",")) return first;
  ExprPtr e = with(node(Expr::Tuple, line), std::move(first));
  while (!failed() && skip_operator(",") && !tuple_ends(end_name) && !is_operator("=")) e = with(std::move(e), one());
  return e;
}

ExprPtr ExpressionParser::postfix(ExprPtr e) {
  while (!failed()) {
    if (is_operator(".") || is_operator("[")) e = subscript(std::move(e));
    else if (is_operator("(")) e = call(std::move(e));
    else break;
  }
  return e;
}

ExprPtr ExpressionParser::subscript(ExprPtr e) {
  const Token open = take();
  if (open.text == ".") {
    if (is(Token::Integer)) {
      ExprPtr index = node(Expr::Constant, open.line);
      index->constant = take().integer;
      return with(with(node(Expr::Item, open.line), std::move(e)), std::move(index));
    }
    ExprPtr attribute = with(node(Expr::Attribute, open.line), std::move(e));
    attribute->name = expect_any_name();
    return attribute;
  }
  ExprPtr index = subscript_part();
  if (is_operator(",")) {
    index = with(node(Expr::Tuple, open.line), std::move(index));
    while (!failed() && skip_operator(",")) index = with(std::move(index), subscript_part());
  }
  expect_operator("]");
  return with(with(node(Expr::Item, open.line), std::move(e)), std::move(index));
}

ExprPtr ExpressionParser::subscript_part() {
  const int line = current().line;
  ExprPtr first = is_operator(":") ? nullptr : expression();
  if (!is_operator(":")) return first;
  ExprPtr slice = with(node(Expr::Slice, line), std::move(first));
  for (int i = 0; i < 2; i++) {
    const bool given = skip_operator(":") && !is_operator(":") && !is_operator("]") && !is_operator(",");
    slice = with(std::move(slice), given ? expression() : nullptr);
  }
  return slice;
}

std::unique_ptr<CallArgs> ExpressionParser::call_args(Expr& owner) {
  auto args = std::make_unique<CallArgs>();
  const int line = current().line;
  const auto note = [&](ExprPtr e) {
    owner.depth = std::max(owner.depth, e->depth + 1);
    if (owner.depth > kMaxTree) fail("an expression is too long or nested too deeply", line);
    return e;
  };
  expect_operator("(");
  while (!failed() && !is_operator(")")) {
    const bool ordered = !args->star && !args->star_star;
    if (skip_operator("**")) {
      if (args->star_star) fail("a call has two '**' arguments", line);
      args->star_star = note(expression());
    } else if (skip_operator("*")) {
      if (!ordered) fail("'*' arguments must come before '**' ones, and only once", line);
      args->star = note(expression());
    } else if (is(Token::Name) && ahead().type == Token::Operator && ahead().text == "=") {
      if (args->star_star) fail("a named argument follows '**'", line);
      std::string name = take().text;
      take();
      args->named.emplace_back(std::move(name), note(expression()));
    } else {
      if (!ordered || !args->named.empty()) fail("a positional argument follows a named one", line);
      args->positional.push_back(note(expression()));
    }
    if (!is_operator(")")) expect_operator(",");
  }
  expect_operator(")");
  return args;
}

ExprPtr ExpressionParser::call(ExprPtr e) {
  ExprPtr c = with(node(Expr::Call, current().line), std::move(e));
  c->args = call_args(*c);
  return c;
}

ExprPtr ExpressionParser::filters(ExprPtr subject, bool bare) {
  while (!failed() && (bare || skip_operator("|"))) {
    bare = false;
    ExprPtr f = node(Expr::Filter, current().line);
    f->name = expect_any_name();
    while (skip_operator(".")) f->name += "." + expect_any_name();
    if (!failed() && soft_ == 0 && !has_filter(f->name)) fail(fmt::format("no filter is named '{}'", f->name), f->line);
    f = with(std::move(f), std::move(subject));
    if (is_operator("(")) f->args = call_args(*f);
    subject = std::move(f);
  }
  return subject;
}

ExprPtr ExpressionParser::test(ExprPtr e) {
  const int line = take().line;
  const bool negated = skip_name("not");
  ExprPtr t = with(node(Expr::Test, line), std::move(e));
  t->name = expect_any_name();
  while (skip_operator(".")) t->name += "." + expect_any_name();
  if (!failed() && soft_ == 0 && !has_test(t->name)) fail(fmt::format("no test is named '{}'", t->name), line);
  const bool starts_value = is(Token::Name) || is(Token::String) || is(Token::Integer) || is(Token::Float) || is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    t->args = call_args(*t);
  } else if (starts_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("tests cannot be chained with 'is'");
    t->args = std::make_unique<CallArgs>();
    ExprPtr argument = postfix(primary());
    t->depth = std::max(t->depth, argument->depth + 1);
    t->args->positional.push_back(std::move(argument));
  }
  return negated ? with(node(Expr::Not, line), std::move(t)) : std::move(t);
}

}  // namespace gull::text::jinja
