#include "text/jinja/run.h"

namespace gull::text::jinja {

Run::~Run() {
  for (auto& attributes : kept_) attributes->items.clear();
}

Value Run::fail(std::string message) {
  if (error_.empty()) {
    error_ = message.empty() ? "error without a message" : std::move(message);
    error_line_ = line;
  }
  return {};
}

bool Run::step(size_t n) {
  if (failed()) return false;
  if (n > steps_left_) {
    fail_f("the template runs for too long (more than {} operations)", limits.steps);
    return false;
  }
  steps_left_ -= n;
  return true;
}

bool Run::charge(size_t bytes) {
  if (failed()) return false;
  if (bytes > bytes_left_) {
    fail_f("the template uses too much memory (more than {} MiB in all)", limits.bytes >> 20);
    return false;
  }
  bytes_left_ -= bytes;
  return true;
}

Value Run::make(Text t) {
  if (!charge(t.size() + sizeof(Text))) return {};
  return text(std::move(t));
}

Value Run::make(std::vector<Value> items, Sequence::Type type, std::string label) {
  if (!charge(items.size() * sizeof(Value) + sizeof(Sequence))) return {};
  auto s = std::make_shared<Sequence>();
  for (const Value& item : items) s->depth = std::max(s->depth, 1 + item.depth());
  if (s->depth > limits.nesting) return fail("lists are nested too deeply");
  s->type = type;
  s->items = std::move(items);
  s->label = std::move(label);
  return s;
}

Value Run::make(std::shared_ptr<Dict> dict) {
  if (!charge(dict->items.size() * 4 * sizeof(Value) + sizeof(Dict))) return {};
  if (dict->depth > limits.nesting) return fail("dicts are nested too deeply");
  return dict;
}

Params::Params(Run& run, std::string_view what, Args& args, std::initializer_list<std::string_view> names, size_t required)
    : run_(run), what_(what), names_(names), values_(names.size(), nullptr) {
  const auto reject = [&](std::string message) {
    run_.fail(std::move(message));
    ok_ = false;
  };
  if (args.positional.size() > names.size()) {
    reject(fmt::format("{} takes at most {} argument(s), but {} were given", what, names.size(), args.positional.size()));
    return;
  }
  for (size_t i = 0; i < args.positional.size(); i++) values_[i] = &args.positional[i];
  for (auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != name) i++;
    if (i == names.size()) reject(fmt::format("{} has no parameter '{}'", what, name));
    else if (values_[i]) reject(fmt::format("{} got '{}' twice", what, name));
    else values_[i] = &value;
  }
  for (size_t i = 0; i < required; i++)
    if (!values_[i]) reject(fmt::format("{} needs the argument '{}'", what, names.begin()[i]));
}

std::optional<int64_t> Params::integer(size_t i, int64_t fallback) {
  const Value* v = get(i);
  if (!v) return fallback;
  if (v->is_integral() && v->as_int() >= INT64_MIN && v->as_int() <= INT64_MAX) return static_cast<int64_t>(v->as_int());
  if (v->is_undefined()) run_.fail(v->why_undefined());
  else run_.fail_f("{}: '{}' must be an integer, not {}", what_, names_[i], v->type_name());
  ok_ = false;
  return std::nullopt;
}

}  // namespace gull::text::jinja
