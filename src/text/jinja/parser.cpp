#include "text/jinja/parser.h"

#include "text/jinja/parser_base.h"

namespace gull::text::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;
  Block whole() {
    Block block = body({}, 1);
    if (!failed() && !is(Token::End)) fail(fmt::format("unexpected {}", describe(current())));
    return block;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  /// Statements up to one of the end tags, which is left as the current token (a name). `opened`: line of the opening tag.
  Block body(Ends ends, int opened) {
    Nest nest(*this);
    Block out;
    while (!failed()) {
      const int line = current().line;
      if (is(Token::End)) {
        if (ends.size()) fail(fmt::format("the block is not closed: '{{% {} %}}' is missing", ends.begin()[ends.size() - 1]), opened);
        break;
      }
      if (is(Token::Data)) {
        out.push_back(stmt(Stmt::Data, line));
        out.back()->text = text(take().text);
      } else if (is(Token::PrintBegin)) {
        take();
        out.push_back(stmt(Stmt::Print, line));
        out.back()->exprs.push_back(tuple());
        expect(Token::PrintEnd, "'}}'");
      } else {
        expect(Token::BlockBegin, "a tag");
        for (auto end : ends)
          if (is_name(end)) return out;
        if (StmtPtr s = statement()) out.push_back(std::move(s));
        expect(Token::BlockEnd, "'%}'");
      }
    }
    return out;
  }

  /// The end of an opening tag, the body, and the name of the end tag.
  Block body_of_tag(Ends ends) {
    skip_operator(":");
    const int line = current().line;
    expect(Token::BlockEnd, "'%}'");
    return body(ends, line);
  }
  Block closed_body(std::string_view end) {
    Block b = body_of_tag({end});
    expect_name(end);
    return b;
  }

  static StmtPtr stmt(Stmt::Kind kind, int line) {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->line = line;
    return s;
  }

  StmtPtr statement() {
    const int line = current().line;
    const std::string tag = expect_any_name();
    if (failed()) return nullptr;
    if (tag == "if") return if_(line);
    if (tag == "for") return for_(line);
    if (tag == "set") return set(line);
    if (tag == "macro") return macro(line);
    if (tag == "call") return call_block(line);
    if (tag == "filter") return filter_block(line);
    if (tag == "with") return with_block(line);
    if (tag == "generation") return scope(line, "endgeneration");
    if (tag == "block") return block(line);
    if (tag == "autoescape") return autoescape(line);
    if (tag == "print") return print(line);
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail(fmt::format("'{}' outside a loop", tag), line);
      return stmt(tag == "break" ? Stmt::Break : Stmt::Continue, line);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends")
      fail(fmt::format("'{}' is not possible: a chat template stands alone", tag), line);
    else
      fail(fmt::format("unknown tag '{}'", tag), line);
    return nullptr;
  }

  StmtPtr if_(int line) {
    StmtPtr s = stmt(Stmt::If, line);
    soft_++;
    s->exprs.push_back(tuple(false));
    s->bodies.push_back(body_of_tag({"elif", "else", "endif"}));
    while (!failed() && skip_name("elif")) {
      s->exprs.push_back(tuple(false));
      s->bodies.push_back(body_of_tag({"elif", "else", "endif"}));
    }
    if (skip_name("else")) s->bodies.push_back(body_of_tag({"endif"}));
    expect_name("endif");
    soft_--;
    return s;
  }

  StmtPtr for_(int line) {
    StmtPtr s = stmt(Stmt::For, line);
    s->target = target(false, "in");
    if (assigns(*s->target, "loop")) fail("a loop variable cannot be named 'loop'", line);
    expect_name("in");
    s->exprs.push_back(tuple(false, "recursive"));
    s->exprs.push_back(skip_name("if") ? expression() : nullptr);
    s->recursive = skip_name("recursive");
    loops_++;
    s->bodies.push_back(body_of_tag({"else", "endfor"}));
    loops_--;
    s->bodies.push_back(skip_name("else") ? body_of_tag({"endfor"}) : Block{});
    expect_name("endfor");
    return s;
  }
  static bool assigns(const Expr& target, std::string_view name) {
    if (target.kind == Expr::Name) return target.name == name;
    for (const auto& kid : target.kids)
      if (assigns(*kid, name)) return true;
    return false;
  }

  StmtPtr set(int line) {
    ExprPtr to = target(true);
    if (skip_operator("=")) {
      StmtPtr s = stmt(Stmt::Set, line);
      s->target = std::move(to);
      s->exprs.push_back(tuple());
      return s;
    }
    StmtPtr s = stmt(Stmt::SetBlock, line);
    s->target = std::move(to);
    s->exprs.push_back(filters(nullptr, false));
    s->bodies.push_back(closed_body("endset"));
    return s;
  }

  void signature(Signature& out) {
    expect_operator("(");
    while (!failed() && !is_operator(")")) {
      out.names.push_back(expect_any_name());
      if (skip_operator("=")) out.defaults.push_back(expression());
      else if (!out.defaults.empty()) fail("a parameter without a default follows one with a default");
      if (!is_operator(")")) expect_operator(",");
    }
    expect_operator(")");
  }

  /// The body of a macro or caller: loops outside do not reach in.
  void callable_body(Stmt& s, std::string_view end) {
    const int outer = std::exchange(loops_, 0);
    signatures_.push_back(&s.signature);
    s.bodies.push_back(closed_body(end));
    signatures_.pop_back();
    loops_ = outer;
  }

  StmtPtr macro(int line) {
    StmtPtr s = stmt(Stmt::Macro, line);
    s->name = expect_any_name();
    signature(s->signature);
    callable_body(*s, "endmacro");
    return s;
  }

  StmtPtr call_block(int line) {
    StmtPtr s = stmt(Stmt::CallBlock, line);
    if (is_operator("(")) signature(s->signature);
    s->exprs.push_back(expression());
    if (!failed() && s->exprs[0]->kind != Expr::Call) fail("a call block must call something: {% call name() %}", line);
    callable_body(*s, "endcall");
    return s;
  }

  StmtPtr filter_block(int line) {
    StmtPtr s = stmt(Stmt::FilterBlock, line);
    s->exprs.push_back(filters(nullptr, true));
    s->bodies.push_back(closed_body("endfilter"));
    return s;
  }

  StmtPtr with_block(int line) {
    StmtPtr s = stmt(Stmt::With, line);
    while (!failed() && !is(Token::BlockEnd)) {
      if (!s->targets.empty()) expect_operator(",");
      ExprPtr name = node(Expr::Name, current().line);
      name->name = expect_any_name();
      s->targets.push_back(std::move(name));
      expect_operator("=");
      s->exprs.push_back(expression());
    }
    s->bodies.push_back(closed_body("endwith"));
    return s;
  }

  StmtPtr scope(int line, std::string_view end) {
    StmtPtr s = stmt(Stmt::Scope, line);
    s->bodies.push_back(closed_body(end));
    return s;
  }

  /// Without inheritance a block is rendered where it stands.
  StmtPtr block(int line) {
    const std::string name = expect_any_name();
    while (skip_name("scoped") || skip_name("required")) {}
    StmtPtr s = scope(line, "endblock");
    skip_name(name);
    return s;
  }

  StmtPtr autoescape(int line) {
    ExprPtr on = expression();
    if (!failed() && (on->kind != Expr::Constant || on->constant.truthy())) fail("autoescape is not possible: a prompt is not HTML", line);
    return scope(line, "endautoescape");
  }

  StmtPtr print(int line) {
    StmtPtr s = stmt(Stmt::Print, line);
    while (!failed() && !is(Token::BlockEnd)) {
      if (!s->exprs.empty()) expect_operator(",");
      s->exprs.push_back(expression());
    }
    return s;
  }

  int loops_ = 0;   ///< around the current place
};

}  // namespace

Syntax<Block> parse(std::string_view source) {
  auto tokens = tokenize(source);
  if (!tokens) return std::unexpected(tokens.error());
  Parser parser(std::move(*tokens));
  Block block = parser.whole();
  if (parser.error()) return std::unexpected(*parser.error());
  return block;
}

}  // namespace gull::text::jinja
