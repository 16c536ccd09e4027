// What the statement parser and the expression parser share.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace gull::text::jinja {

/// Walks the tokens. Errors are sticky: after the first one every token reads as the end.
class ParserBase {
 public:
  explicit ParserBase(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const std::optional<SyntaxError>& error() const { return error_; }

 protected:
  /// How deeply brackets, blocks and operators may nest.
  static constexpr int kMaxDepth = 200;
  static constexpr int kMaxTree = 200;

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() {
    if (at_ + 1 >= tokens_.size()) return tokens_.back();
    return std::move(tokens_[at_++]);
  }
  bool is(Token::Type type) const { return current().type == type; }
  bool is_operator(std::string_view text) const { return is(Token::Operator) && current().text == text; }
  bool is_name(std::string_view text) const { return is(Token::Name) && current().text == text; }
  bool skip_operator(std::string_view text) { return is_operator(text) && (take(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (take(), true); }

  void fail(std::string message, int line) {
    if (!error_) error_ = SyntaxError{std::move(message), line};
    at_ = tokens_.size() - 1;
  }
  void fail(std::string message) { fail(std::move(message), current().line); }
  bool failed() const { return error_.has_value(); }

  /// What a token is called in messages.
  static std::string describe(const Token& t) {
    switch (t.type) {
      case Token::Data: return "text";
      case Token::PrintBegin: return "'{{'";
      case Token::PrintEnd: return "'}}'";
      case Token::BlockBegin: return "'{%'";
      case Token::BlockEnd: return "'%}'";
      case Token::String: return "a string";
      case Token::End: return "the end of the template";
      default: return fmt::format("'{}'", t.text);
    }
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail(fmt::format("expected '{}', got {}", text, describe(current())));
  }
  void expect_name(std::string_view text) {
    if (!skip_name(text)) fail(fmt::format("expected '{}', got {}", text, describe(current())));
  }
  void expect(Token::Type type, std::string_view what) {
    if (is(type)) take();
    else fail(fmt::format("expected {}, got {}", what, describe(current())));
  }
  std::string expect_any_name() {
    if (is(Token::Name)) return take().text;
    fail(fmt::format("expected a name, got {}", describe(current())));
    return {};
  }

  /// One level of nesting, for as long as it lives.
  class Nest {
   public:
    explicit Nest(ParserBase& p) : p_(p) {
      if (++p_.depth_ > kMaxDepth) p_.fail("nested too deeply");
    }
    ~Nest() { --p_.depth_; }
    Nest(const Nest&) = delete;

   private:
    ParserBase& p_;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::optional<SyntaxError> error_;
};

/// Expressions, by Jinja's grammar and precedences.
class ExpressionParser : public ParserBase {
 public:
  using ParserBase::ParserBase;

 protected:
  ExprPtr expression(bool conditional = true);
  /// One expression, or a tuple without brackets. `end_name`: a name that also ends it ("in").
  ExprPtr tuple(bool conditional = true, std::string_view end_name = {}, bool in_brackets = false);
  /// What can be assigned to: a name, a tuple of them, or an attribute of a namespace.
  ExprPtr target(bool attributes, std::string_view end_name = {});
  /// A chain of `name(args) | name(args)` applied to `subject`; `bare`: the first name has no bar before it.
  ExprPtr filters(ExprPtr subject, bool bare);

  ExprPtr node(Expr::Kind kind, int line);
  /// Adds children, and checks the depth of the tree.
  ExprPtr with(ExprPtr parent, ExprPtr kid);

  std::vector<Signature*> signatures_;   ///< macros around the current place
  int soft_ = 0;                         ///< inside conditions: unknown filters only fail when they run

 private:
  ExprPtr binary(int level);
  ExprPtr compare(ExprPtr left);
  ExprPtr unary(bool with_filters);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr e);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscript_part();
  ExprPtr call(ExprPtr e);
  ExprPtr test(ExprPtr e);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr name_or_constant();
  std::unique_ptr<CallArgs> call_args(Expr& owner);
  bool tuple_ends(std::string_view end_name) const;
};

}  // namespace gull::text::jinja
