// A model's chat template (Jinja), rendered as transformers renders it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"

namespace gull::text {

using Json = nlohmann::ordered_json;

struct TemplateInput {
  Json messages = Json::array();    ///< [{role, content, tool_calls?, …}]
  Json tools;                       ///< null or an array
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  std::string now;                  ///< ISO 8601 local time for strftime_now; empty: the clock
  Json extra = Json::object();      ///< further variables of the template (enable_thinking, …)
};

/// One piece of a render: `trusted` text was written by the template, the rest came from the messages, tools and further
/// variables. Only trusted text may become control tokens. The usual names of roles count as trusted, because some
/// templates build control tokens from them ('<|' + message.role + '|>').
struct RenderedSpan {
  std::string text;
  bool trusted = true;
};

/// A compiled template: immutable, thread-safe. Bounded in depth, steps, memory and output size.
/// The language is what transformers accepts: jinja2 with trim_blocks, lstrip_blocks, break and continue, {% generation %},
/// raise_exception, strftime_now, and tojson without HTML escapes; lists and dicts cannot be changed.
class ChatTemplate {
 public:
  /// Errors (BadFile) name the line.
  static Result<std::shared_ptr<const ChatTemplate>> compile(std::string source);
  ~ChatTemplate();
  /// Errors (BadFile): what the template itself raised or did wrong, with the line. `tools` null is none in the template.
  Result<std::string> render(const TemplateInput& input) const;
  /// The same, with what came from message content kept apart.
  Result<std::vector<RenderedSpan>> render_spans(const TemplateInput& input) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gull::text
