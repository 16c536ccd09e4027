// The objects that a template can call back into: macros, and `loop`.
#pragma once

#include <memory>
#include <string>

#include "text/jinja/interpreter.h"

namespace gull::text::jinja {

/// A macro, or the caller() of a call block.
class Macro : public Object {
 public:
  Macro(Interpreter& run, const Stmt& definition, Scope* scope, std::string name)
      : run_(run), definition_(definition), scope_(scope), name_(std::move(name)) {}
  const char* type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Run&, Args& args) override { return run_.call_macro(definition_, scope_, name_, args); }
  bool attribute(Run& run, std::string_view name, Value& out) override;

 private:
  Interpreter& run_;
  const Stmt& definition_;
  Scope* scope_;
  std::string name_;
};

/// The variable `loop` inside a for loop.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  Loop(Interpreter& run, const Stmt& definition, Scope* scope, std::shared_ptr<Sequence> items, int level)
      : run_(run), definition_(definition), scope_(scope), items_(std::move(items)), level_(level) {}
  void move_to(size_t index) { index_ = index; }
  /// Lets go of what loop.changed() had kept.
  void end() {
    ended_ = true;
    seen_.clear();
  }

  const char* type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  Value call(Run& run, Args& args) override;
  bool attribute(Run& run, std::string_view name, Value& out) override;
  Text print(Run&) const override { return Text(fmt::format("<LoopContext {}/{}>", index_ + 1, items_->items.size())); }
  int depth() const override { return items_->depth + 1; }

  Value cycle(Args& args);
  Value changed(Args& args);

 private:
  Interpreter& run_;
  const Stmt& definition_;
  Scope* scope_;
  std::shared_ptr<Sequence> items_;
  size_t index_ = 0;
  int level_ = 0;
  bool any_seen_ = false, ended_ = false;
  std::vector<Value> seen_;
};

}  // namespace gull::text::jinja
