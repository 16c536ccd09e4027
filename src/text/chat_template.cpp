#include "text/chat_template.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace gull::text {
namespace {

using jinja::Text;
using jinja::Value;

constexpr int kMaxJsonDepth = 90;   // below the depth that the template language allows

/// Values of the template from JSON. All strings are input, but for the names of roles.
class Importer {
 public:
  bool too_deep() const { return too_deep_; }
  size_t bytes() const { return bytes_; }   ///< of all strings

  Value value(const Json& j, int depth = 0) {
    if (depth > kMaxJsonDepth) too_deep_ = true;
    if (too_deep_) return {};
    switch (j.type()) {
      case Json::value_t::boolean: return j.get<bool>();
      case Json::value_t::number_integer: return jinja::Int(j.get<int64_t>());
      case Json::value_t::number_unsigned: return jinja::Int(j.get<uint64_t>());
      case Json::value_t::number_float: return j.get<double>();
      case Json::value_t::string: return string(j);
      case Json::value_t::array: {
        auto list = std::make_shared<jinja::Sequence>();
        for (const Json& item : j) {
          list->items.push_back(value(item, depth + 1));
          list->depth = std::max(list->depth, 1 + list->items.back().depth());
        }
        return list;
      }
      case Json::value_t::object: {
        auto dict = std::make_shared<jinja::Dict>();
        for (const auto& [key, item] : j.items()) dict->set(jinja::text(Text(key, true)), value(item, depth + 1));
        return dict;
      }
      default: return Value::none();
    }
  }

  Value messages(const Json& j) {
    const Value list = value(j);
    if (too_deep_ || !list.is(jinja::Kind::Sequence)) return list;
    for (const Value& message : list.as_sequence().items) {
      const Value* role = message.is(jinja::Kind::Dict) ? message.as_dict().find(std::string_view("role")) : nullptr;
      if (role && role->is_string() && known_role(role->as_view()))
        message.as_dict().set(jinja::text("role"), jinja::text(std::string(role->as_view())));
    }
    return list;
  }

 private:
  Value string(const Json& j) {
    const std::string& s = j.get_ref<const std::string&>();
    bytes_ += s.size();
    return jinja::text(Text(s, true));
  }
  static bool known_role(std::string_view role) {
    static constexpr std::string_view roles[] = {"system", "user", "assistant", "tool", "developer", "function", "ipython", "model", "environment"};
    return std::find(std::begin(roles), std::end(roles), role) != std::end(roles);
  }
  bool too_deep_ = false;
  size_t bytes_ = 0;
};

/// Long conversations may do more: some templates look at each message once for each message.
jinja::Limits limits_for(size_t messages, size_t bytes) {
  jinja::Limits limits;
  limits.steps += 10'000 * std::min<size_t>(messages, 20'000);
  limits.bytes += 32 * std::min<size_t>(bytes, size_t{64} << 20);
  limits.output += 4 * std::min<size_t>(bytes, size_t{256} << 20);
  return limits;
}

std::tm local_now() {
  const std::time_t t = std::time(nullptr);
  std::tm out{};
#if defined(_WIN32)
  localtime_s(&out, &t);
#else
  localtime_r(&t, &out);
#endif
  return out;
}

/// "2025-03-01T12:34:56" (or only the date); fills the day of the week and of the year in.
Result<std::tm> parse_time(const std::string& iso) {
  std::tm t{};
  const int n = std::sscanf(iso.c_str(), "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec);
  const bool ok = n >= 3 && t.tm_year > 0 && t.tm_mon >= 1 && t.tm_mon <= 12 && t.tm_mday >= 1 && t.tm_mday <= 31 && t.tm_hour >= 0 &&
                  t.tm_hour < 24 && t.tm_min >= 0 && t.tm_min < 60 && t.tm_sec >= 0 && t.tm_sec <= 60;
  if (!ok) return fail(ErrorKind::InvalidArgument, "now: '" + iso.substr(0, 40) + "' is no time; write it like 2025-03-01T12:34:56");
  static constexpr int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int y = t.tm_year, m = t.tm_mon - 1;
  const bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
  t.tm_yday = before[m] + (leap && m > 1) + t.tm_mday - 1;
  const int days = (y - 1) * 365 + (y - 1) / 4 - (y - 1) / 100 + (y - 1) / 400 + t.tm_yday;   // since 0001-01-01, a Monday
  t.tm_wday = (days + 1) % 7;
  t.tm_year -= 1900;
  t.tm_mon = m;
  return t;
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Block root;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::compile(std::string source) {
  auto root = jinja::parse(source);
  if (!root) return fail(ErrorKind::BadFile, fmt::format("chat template, line {}: {}", root.error().line, root.error().message));
  auto impl = std::make_unique<Impl>();
  impl->root = std::move(*root);
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::vector<RenderedSpan>> ChatTemplate::render_spans(const TemplateInput& input) const {
  Importer importer;
  const Value messages = importer.messages(input.messages), tools = importer.value(input.tools);
  jinja::Interpreter run(limits_for(input.messages.size(), importer.bytes()), impl_->root);
  run.define("documents", Value::none());
  if (input.extra.is_object())
    for (auto it = input.extra.begin(); it != input.extra.end(); ++it) run.define(it.key(), importer.value(it.value()));
  run.define("messages", messages);
  run.define("tools", tools);
  run.define("add_generation_prompt", input.add_generation_prompt);
  run.define("bos_token", jinja::text(input.bos_token));
  run.define("eos_token", jinja::text(input.eos_token));
  if (importer.too_deep())
    return fail(ErrorKind::InvalidArgument, fmt::format("chat template: the messages or tools are nested more than {} levels deep", kMaxJsonDepth));
  const auto now = input.now.empty() ? Result<std::tm>(local_now()) : parse_time(input.now);
  if (!now) return fail(now.error());
  run.now = *now;

  const auto text = run.render();
  if (!text) return fail(ErrorKind::BadFile, fmt::format("chat template, line {}: {}", run.error_line(), run.error()));
  std::vector<RenderedSpan> spans;
  text->each_run([&](std::string_view bytes, bool is_input) { spans.push_back({std::string(bytes), !is_input}); });
  return spans;
}

Result<std::string> ChatTemplate::render(const TemplateInput& input) const {
  auto spans = render_spans(input);
  if (!spans) return fail(spans.error());
  std::string out;
  for (const auto& span : *spans) out += span.text;
  return out;
}

}  // namespace gull::text
