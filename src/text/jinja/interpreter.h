// Runs a parsed template.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "text/jinja/ast.h"
#include "text/jinja/run.h"

namespace gull::text::jinja {

/// Variables of one block. Reading looks outwards; setting stays inside.
struct Scope {
  Scope* parent = nullptr;
  std::unordered_map<std::string_view, Value> variables;
  bool kept = false;   ///< a macro can still come back to it

  const Value* find(std::string_view name) const {
    for (const Scope* s = this; s; s = s->parent)
      if (auto it = s->variables.find(name); it != s->variables.end()) return &it->second;
    return nullptr;
  }
};

/// One render. `root` must outlive it.
class Interpreter : public Run {
 public:
  Interpreter(const Limits& limits, const Block& root);
  /// A variable of the template; `name` must outlive the render.
  void define(std::string_view name, Value value) { root_.variables[name] = std::move(value); }
  /// The result, or nothing: see error() and error_line().
  std::optional<Text> render();

  /// Calls a macro or call block: binds the arguments, runs the body, returns its output.
  Value call_macro(const Stmt& macro, Scope* scope, std::string_view name, Args& args);
  /// Runs a loop over `items`; its output is the result. `level`: how deeply a recursive loop is nested.
  Value recurse(const Stmt& loop, Scope* scope, const Value& items, int level);

 private:
  enum class Flow { Normal, Break, Continue };
  class Inner;     ///< a scope for as long as it lives
  class Capture;   ///< collects output apart for as long as it lives

  void write(const Text& t);
  Flow block(const Block& b, Scope& scope);
  Flow statement(const Stmt& s, Scope& scope);
  Flow if_(const Stmt& s, Scope& scope);
  Flow for_(const Stmt& s, Scope& scope, const Value& iterable, int level);
  Flow captured(const Stmt& s, Scope& scope, Value& out);
  void call_block(const Stmt& s, Scope& scope);
  Flow with(const Stmt& s, Scope& scope);
  void assign(const Expr& target, const Value& value, Scope& scope);
  bool bind(const Stmt& macro, std::string_view name, Args& args, Scope& scope);
  void keep(Scope* scope);

  Value eval(const Expr& e, Scope& scope);
  Value eval_deeper(const Expr& e, Scope& scope);
  Value eval_name(const Expr& e, Scope& scope);
  Value eval_dict(const Expr& e, Scope& scope);
  Value eval_item(const Expr& e, Scope& scope);
  Value eval_call(const Expr& e, Scope& scope, const Value* caller);
  Value eval_filter(const Expr& e, Scope& scope);
  Value eval_compare(const Expr& e, Scope& scope);
  Value eval_concat(const Expr& e, Scope& scope);
  bool arguments(const CallArgs* from, Scope& scope, Args& out);

  const Block& root_block_;
  Scope root_;
  std::deque<std::unique_ptr<Scope>> kept_scopes_;
  Text* out_ = nullptr;
  const Value* filter_subject_ = nullptr;   ///< what {% filter %} applies to
};

}  // namespace gull::text::jinja
