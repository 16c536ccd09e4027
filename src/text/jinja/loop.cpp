#include "text/jinja/loop.h"

#include "text/jinja/operators.h"

namespace gull::text::jinja {

bool Macro::attribute(Run& run, std::string_view name, Value& out) {
  if (name == "name") out = text(name_);
  else if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& n : definition_.signature.names) names.push_back(text(n));
    out = run.make(std::move(names), Sequence::Type::Tuple);
  } else return false;
  return true;
}

Value Loop::call(Run& run, Args& args) {
  if (!definition_.recursive) return run.fail("a loop must be marked 'recursive' to be called");
  Params p(run, "loop()", args, {"iterable"}, 1);
  return p.ok() ? run_.recurse(definition_, scope_, *p.get(0), level_ + 1) : Value();
}

Value Loop::cycle(Args& args) {
  if (args.positional.empty()) return run_.fail("loop.cycle() needs at least one item");
  return args.positional[index_ % args.positional.size()];
}

Value Loop::changed(Args& args) {
  bool same = any_seen_ && seen_.size() == args.positional.size();
  for (size_t i = 0; same && i < seen_.size(); i++) same = equal(run_, seen_[i], args.positional[i]);
  any_seen_ = true;
  if (!ended_) seen_ = args.positional;   // later it could only make a loop hold itself
  return !same;
}

namespace {

class LoopMethod : public Object {
 public:
  using Body = Value (Loop::*)(Args&);
  LoopMethod(std::shared_ptr<Loop> loop, Body body) : loop_(std::move(loop)), body_(body) {}
  const char* type_name() const override { return "method"; }
  bool callable() const override { return true; }
  Value call(Run& run, Args& args) override { return run.step() ? ((*loop_).*body_)(args) : Value(); }
  int depth() const override { return loop_->depth(); }

 private:
  std::shared_ptr<Loop> loop_;
  Body body_;
};

}  // namespace

bool Loop::attribute(Run&, std::string_view name, Value& out) {
  const auto method = [&](LoopMethod::Body body) { return Value(std::shared_ptr<Object>(std::make_shared<LoopMethod>(shared_from_this(), body))); };
  const size_t n = items_->items.size();
  if (name == "index") out = index_ + 1;
  else if (name == "index0") out = index_;
  else if (name == "first") out = index_ == 0;
  else if (name == "last") out = index_ + 1 >= n;
  else if (name == "length") out = n;
  else if (name == "revindex") out = n - index_;
  else if (name == "revindex0") out = n - index_ - 1;
  else if (name == "depth") out = level_ + 1;
  else if (name == "depth0") out = level_;
  else if (name == "previtem") out = index_ > 0 ? items_->items[index_ - 1] : Value::undefined("there is no previous item");
  else if (name == "nextitem") out = index_ + 1 < n ? items_->items[index_ + 1] : Value::undefined("there is no next item");
  else if (name == "cycle") out = method(&Loop::cycle);
  else if (name == "changed") out = method(&Loop::changed);
  else return false;
  return true;
}

}  // namespace gull::text::jinja
