// gull template: renders a conversation as the model will read it. Needs no GPU.
#include "command.h"
#include "generation.h"
#include "model_file.h"
#include "terminal.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace gull::app {
namespace {

using text::Json;

struct TemplateArguments {
  std::string model, file;
  bool verbose = false;
};

/// The template itself, and the model's special tokens where there is a model.
struct Template {
  std::string source, bos_token, eos_token;
};

Result<Template> load_template(const TemplateArguments& arguments) {
  Template result;
  if (!arguments.model.empty()) {
    auto file = open_model_file(arguments.model);
    if (!file) return fail(file.error());
    if (const std::string* source = (*file)->get_string("tokenizer.chat_template")) result.source = *source;
    else if (arguments.file.empty())
      return fail(ErrorKind::NotFound, (*file)->name() + ": has no chat template (tokenizer.chat_template)");
    if (auto tokenizer = text::Tokenizer::from_gguf(**file)) {
      const auto spelling = [&](int32_t id) { return id < 0 ? std::string() : std::string((*tokenizer)->token_text(id)); };
      result.bos_token = spelling((*tokenizer)->bos());
      result.eos_token = spelling((*tokenizer)->eos());
    }
  }
  if (!arguments.file.empty()) {
    auto source = read_text_file(arguments.file);
    if (!source) return fail(source.error());
    result.source = std::move(*source);
  }
  return result;
}

Result<std::string> string_member(const Json& request, const char* key, std::string otherwise) {
  const auto member = request.find(key);
  if (member == request.end() || member->is_null()) return otherwise;
  if (!member->is_string()) return fail(ErrorKind::InvalidArgument, fmt::format("the request's \"{}\" is not a string", key));
  return member->get<std::string>();
}

/// {messages, tools, add_generation_prompt, now, bos_token, eos_token}; any other member becomes a variable of the template.
Result<text::TemplateInput> read_request(const std::string& body, const Template& source) {
  Json request = Json::parse(body, nullptr, false);
  if (request.is_discarded()) return fail(ErrorKind::InvalidArgument, "the request on standard input is not JSON");
  if (request.is_array()) request = Json{{"messages", std::move(request)}};
  if (!request.is_object() || !request.contains("messages") || !request["messages"].is_array())
    return fail(ErrorKind::InvalidArgument, "the request needs \"messages\": a list of {\"role\", \"content\"}");
  text::TemplateInput input;
  const auto take_string = [&](const char* key, std::string& out, const std::string& otherwise) -> Result<void> {
    auto value = string_member(request, key, otherwise);
    if (!value) return fail(value.error());
    out = std::move(*value);
    return {};
  };
  if (auto r = take_string("now", input.now, ""); !r) return fail(r.error());
  if (auto r = take_string("bos_token", input.bos_token, source.bos_token); !r) return fail(r.error());
  if (auto r = take_string("eos_token", input.eos_token, source.eos_token); !r) return fail(r.error());
  if (const auto flag = request.find("add_generation_prompt"); flag != request.end()) {
    if (!flag->is_boolean()) return fail(ErrorKind::InvalidArgument, "the request's \"add_generation_prompt\" is not true or false");
    input.add_generation_prompt = flag->get<bool>();
  }
  if (const auto tools = request.find("tools"); tools != request.end()) input.tools = *tools;
  input.messages = request["messages"];
  for (const char* key : {"messages", "tools", "add_generation_prompt", "now", "bos_token", "eos_token"}) request.erase(key);
  input.extra = std::move(request);
  return input;
}

int render(const TemplateArguments& arguments) {
  set_verbose(arguments.verbose);
  if (arguments.model.empty() && arguments.file.empty()) return usage_error("template", "give a MODEL or --template FILE");
  auto source = load_template(arguments);
  if (!source) return report(source.error());
  auto compiled = text::ChatTemplate::compile(source->source);
  if (!compiled) return report(compiled.error());
  if (stdin_is_terminal()) print_notice("type the request as JSON, then Ctrl-D");
  auto body = read_standard_input();
  if (!body) return report(body.error());
  auto input = read_request(*body, *source);
  if (!input) return report(input.error());
  auto text = (*compiled)->render(*input);
  if (!text) return report(text.error());
  write_output(*text);
  return kSuccess;
}

}  // namespace

void add_template(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("template", "Render a conversation, read as JSON from standard input, with a chat template");
  auto arguments = std::make_shared<TemplateArguments>();
  command->add_option("MODEL", arguments->model, "The model whose template is used");
  command->add_option("--template", arguments->file, "A file with a Jinja template, in place of the model's");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is being done");
  command->footer("The request: {\"messages\": [{\"role\", \"content\"}...], \"tools\", \"add_generation_prompt\", \"now\", \"bos_token\", \"eos_token\"}.");
  command->callback([arguments, &action] { action = [arguments] { return render(*arguments); }; });
}

}  // namespace gull::app
