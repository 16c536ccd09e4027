// gull run: one prompt, one answer.
#include "command.h"
#include "generation.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;

struct RunArguments {
  ModelArguments model;
  GenerateArguments generate;
  std::string prompt = "-", system, format = "text";
  bool raw = false, quiet = false;
  uint32_t logprobs = 0;
};

Result<std::string> read_prompt(const RunArguments& arguments) {
  std::string prompt = arguments.prompt;
  if (prompt == "-") {
    if (stdin_is_terminal()) print_notice("type the prompt, then Ctrl-D on a line of its own");
    auto text = read_standard_input();
    if (!text) return fail(text.error());
    prompt = std::move(*text);
    // The line end that echo and editors add is not part of the question.
    while (!arguments.raw && (prompt.ends_with('\n') || prompt.ends_with('\r'))) prompt.pop_back();
  }
  if (prompt.empty()) return fail(ErrorKind::InvalidArgument, "the prompt is empty: give one as an argument or on standard input");
  return prompt;
}

Result<std::vector<int32_t>> prompt_ids(const Model& model, const RunArguments& arguments, const std::string& prompt) {
  if (arguments.raw) return model.tokenize(prompt);
  if (!model.has_chat_template()) {
    print_notice("the model has no chat template: the prompt is used as it stands, as with --raw");
    return model.tokenize(prompt);
  }
  std::vector<Message> messages;
  if (!arguments.system.empty()) messages.push_back({"system", arguments.system, {}});
  messages.push_back({"user", prompt, {}});
  return model.apply_chat_template(messages);
}

Json logprobs_json(const Piece& piece) {
  Json top = Json::array();
  for (const auto& entry : piece.logprobs.subspan(std::min<size_t>(1, piece.logprobs.size())))
    top.push_back({{"id", entry.id}, {"logprob", entry.logprob}});
  return {{"id", piece.id}, {"logprob", piece.logprobs.empty() ? 0.0f : piece.logprobs[0].logprob}, {"top", std::move(top)}};
}

Json result_json(const Model& model, const std::vector<int32_t>& prompt, const GenerateResult& result) {
  Json json = {{"prompt_ids", prompt}, {"ids", result.ids}, {"text", result.text}, {"stop", to_string(result.stop)}};
  if (result.stop == StopReason::StopString) json["stop_string"] = result.stop_string;
  json["timings"] = timings_json(result.timings);
  json["device"] = device_json(model.device());
  return json;
}

int run(const RunArguments& arguments) {
  auto prompt = read_prompt(arguments);
  if (!prompt) return report(prompt.error());
  auto options = arguments.generate.resolve();
  if (!options) return report(options.error());
  options->logprobs = arguments.logprobs;

  auto model = arguments.model.load();
  if (!model) return report(model.error());
  if ((*model)->is_embedding_model())
    return report({ErrorKind::Unsupported, "this model makes vectors, not text: use 'gull embed'"});
  auto ids = prompt_ids(**model, arguments, *prompt);
  if (!ids) return report(ids.error());
  auto session = Session::create(*model);
  if (!session) return report(session.error());

  const bool json = arguments.format == "json";
  Json logprobs = Json::array();
  auto result = (*session)->generate(*ids, *options, [&](const Piece& piece) {
    if (json && arguments.logprobs && piece.id >= 0) logprobs.push_back(logprobs_json(piece));
    return json || write_output(piece.text);
  });
  if (!json) write_output("\n");
  if (!result) return report(result.error());
  if (json) {
    Json out = result_json(**model, *ids, *result);
    if (arguments.logprobs) out["logprobs"] = std::move(logprobs);
    write_output(dump(out) + "\n");
  }
  if (!arguments.quiet) print_notice(timings_line(*result));
  return kSuccess;
}

}  // namespace

void add_run(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("run", "Answer one prompt");
  auto arguments = std::make_shared<RunArguments>();
  arguments->model.add_to(*command);
  command->add_option("PROMPT", arguments->prompt, "The prompt; '-' or none: standard input");
  command->add_option("--system", arguments->system, "System message before the prompt");
  command->add_flag("--raw", arguments->raw, "Use the prompt as it stands, without the model's chat template");
  command->add_option("--format", arguments->format, "text, streamed; json: one object at the end")
      ->check(CLI::IsMember({"text", "json"}))->capture_default_str();
  command->add_option("--logprobs", arguments->logprobs, "With --format json: log-probabilities of each token and its n likeliest rivals")
      ->check(CLI::Range(0, 20));
  command->add_flag("--quiet", arguments->quiet, "No timings at the end");
  arguments->generate.add_to(*command);
  command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace gull::app
