// Global functions and the objects that they make.
#include <functional>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace gull::text::jinja {
namespace {

class Function : public Object {
 public:
  using Body = Value (*)(Run&, Args&);
  explicit Function(Body body) : body_(body) {}
  const char* type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Run& run, Args& args) override { return run.step() ? body_(run, args) : Value(); }

 private:
  Body body_;
};

Value function(Function::Body body) { return Value(std::shared_ptr<Object>(std::make_shared<Function>(body))); }

/// What dict(mapping_or_pairs, name=value …) holds.
std::shared_ptr<Dict> dict_of(Run& run, Args& args) {
  auto dict = std::make_shared<Dict>();
  if (args.positional.size() > 1) return run.fail_f("dict expected at most 1 argument, got {}", args.positional.size()), dict;
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::Dict)) {
      *dict = from.as_dict();
    } else if (const auto pairs = iterate(run, from)) {
      for (const Value& pair : pairs->items) {
        const auto kv = iterate(run, pair);
        if (!kv) return dict;
        if (kv->items.size() != 2 || !dict->set(kv->items[0], kv->items[1])) return run.fail("dict needs pairs of a key and a value"), dict;
      }
    }
  }
  for (auto& [name, value] : args.named) dict->set(text(name), value);
  return dict;
}

class Namespace : public Object {
 public:
  explicit Namespace(std::shared_ptr<Dict> attributes) : attributes_(std::move(attributes)) {}
  const char* type_name() const override { return "Namespace"; }
  bool attribute(Run&, std::string_view name, Value& out) override {
    const Value* found = attributes_->find(name);
    if (found) out = *found;
    return found != nullptr;
  }
  Text print(Run& run) const override {
    Text out("<Namespace ");
    out.append(to_repr(run, Value(attributes_)));
    out.append(">", false);
    return out;
  }
  Dict* namespace_attributes() override { return attributes_.get(); }

 private:
  std::shared_ptr<Dict> attributes_;
};

Value make_namespace(Run& run, Args& args) {
  auto dict = dict_of(run, args);
  for (const auto& [key, value] : dict->items)
    if (key.is_string() && key.as_view().starts_with('_')) return run.fail_f("a namespace cannot have the attribute '{}': it begins with an underscore", key.as_view());
  const Value charged = run.make(dict);
  if (run.failed()) return {};
  run.keep(dict);
  return Value(std::shared_ptr<Object>(std::make_shared<Namespace>(std::move(dict))));
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& v : items_) depth_ = std::max(depth_, v.depth() + 1);
  }
  const char* type_name() const override { return "Cycler"; }
  int depth() const override { return depth_; }
  bool attribute(Run&, std::string_view name, Value& out) override {
    if (name == "current") out = items_[at_];
    else if (name == "next" || name == "reset") out = Value(std::shared_ptr<Object>(std::make_shared<Step>(shared_from_this(), name == "next")));
    else return false;
    return true;
  }

 private:
  class Step : public Object {
   public:
    Step(std::shared_ptr<Cycler> cycler, bool forward) : cycler_(std::move(cycler)), forward_(forward) {}
    const char* type_name() const override { return "method"; }
    bool callable() const override { return true; }
    int depth() const override { return cycler_->depth(); }
    Value call(Run& run, Args&) override {
      if (!run.step()) return {};
      const Value now = cycler_->items_[cycler_->at_];
      cycler_->at_ = forward_ ? (cycler_->at_ + 1) % cycler_->items_.size() : 0;
      return forward_ ? now : Value::none();
    }

   private:
    std::shared_ptr<Cycler> cycler_;
    bool forward_;
  };
  std::vector<Value> items_;
  size_t at_ = 0;
  int depth_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  const char* type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  int depth() const override { return separator_.depth() + 1; }
  Value call(Run&, Args&) override { return std::exchange(used_, true) ? separator_ : text(std::string()); }

 private:
  Value separator_;
  bool used_ = false;
};

Value checked(Run& run, std::shared_ptr<Object> object) {
  return object->depth() > run.limits.nesting ? run.fail("objects are nested too deeply") : Value(std::move(object));
}

Value range(Run& run, Args& args) {
  Params p(run, "range()", args, {"start", "stop", "step"}, 1);
  auto start = p.integer(0, 0), stop = p.integer(1, 0), step = p.integer(2, 1);
  if (!p.ok() || !start || !stop || !step) return {};
  if (!p.get(1)) stop = start, start = 0;
  if (*step == 0) return run.fail("range(): the step must not be zero");
  const Int span = *step > 0 ? Int(*stop) - *start : Int(*start) - *stop;
  const Int by = *step > 0 ? Int(*step) : -Int(*step);
  const Int count = span <= 0 ? 0 : (span + by - 1) / by;
  if (count > static_cast<Int>(run.limits.range)) return run.fail_f("range(): more than {} items", run.limits.range);
  if (!run.step(static_cast<size_t>(count))) return {};
  std::vector<Value> items;
  for (Int i = 0; i < count; i++) items.push_back(Int(*start) + i * *step);
  std::string label = *step == 1 ? fmt::format("range({}, {})", *start, *stop) : fmt::format("range({}, {}, {})", *start, *stop, *step);
  return run.make(std::move(items), Sequence::Type::Range, std::move(label));
}

Value raise_exception(Run& run, Args& args) {
  Params p(run, "raise_exception()", args, {"message"}, 1);
  return p.ok() ? run.fail(to_text(run, *p.get(0)).bytes()) : Value();
}

/// One conversion of strftime; `%-d` leaves padding out. Unknown ones are kept as they are.
std::string time_part(const std::tm& now, char c, bool unpadded) {
  if (c == 'f') return "000000";
  if (c == 'z' || c == 'Z') return "";   // the time has no zone
  if (std::string_view("aAbBcdDeFgGhHIjmMnpRStTuUVwWxXyY%").find(c) == std::string_view::npos) return fmt::format("%{}", c);
  const char format[] = {'%', c, '\0'};
  char buffer[128];
  std::string out(buffer, std::strftime(buffer, sizeof buffer, format, &now));
  if (unpadded) out.erase(0, std::min(out.find_first_not_of("0 "), out.empty() ? 0 : out.size() - 1));
  return out;
}

Value strftime_now(Run& run, Args& args) {
  Params p(run, "strftime_now()", args, {"format"}, 1);
  if (!p.ok()) return {};
  const Text format = to_text(run, *p.get(0));
  if (!run.charge(format.size() * 16)) return {};
  std::string out;
  for (size_t i = 0; i < format.size(); i++) {
    const std::string_view s = format.view();
    if (s[i] != '%' || i + 1 >= s.size()) { out += s[i]; continue; }
    const bool unpadded = s[i + 1] == '-' && i + 2 < s.size();
    i += unpadded ? 2 : 1;
    out += time_part(run.now, s[i], unpadded);
  }
  return run.make(Text(std::move(out), format.has_input()));
}

}  // namespace

const Table<Value>& globals() {
  static const Table<Value> table{
      {"range", function(range)},
      {"dict", function([](Run& run, Args& args) { return run.make(dict_of(run, args)); })},
      {"namespace", function(make_namespace)},
      {"cycler", function([](Run& run, Args& args) {
         if (args.positional.empty() || !args.named.empty()) return run.fail("cycler() needs at least one item");
         return checked(run, std::make_shared<Cycler>(std::move(args.positional)));
       })},
      {"joiner", function([](Run& run, Args& args) {
         Params p(run, "joiner()", args, {"sep"});
         return p.ok() ? checked(run, std::make_shared<Joiner>(p.value(0, text(", ")))) : Value();
       })},
      {"raise_exception", function(raise_exception)},
      {"strftime_now", function(strftime_now)}};
  return table;
}

void set_namespace(Run& run, const Value& ns, const std::string& name, const Value& value) {
  Dict* attributes = ns.is(Kind::Object) ? ns.as_object().namespace_attributes() : nullptr;
  if (!attributes) run.fail("an attribute can only be set on a namespace");
  else if (name.starts_with('_')) run.fail_f("a namespace cannot have the attribute '{}': it begins with an underscore", name);
  else attributes->set(text(name), value);
}

}  // namespace gull::text::jinja
