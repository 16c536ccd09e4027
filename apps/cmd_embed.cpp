// gull embed: texts to vectors.
#include <sstream>

#include "command.h"
#include "generation.h"
#include "options.h"
#include "terminal.h"

namespace gull::app {
namespace {

struct EmbedArguments {
  ModelArguments model;
  std::vector<std::string> texts;
  std::string ids;
  bool no_normalize = false, json = false;
};

/// The token ids of each vector that is asked for.
Result<std::vector<std::vector<int32_t>>> inputs(const Model& model, const EmbedArguments& arguments) {
  std::vector<std::vector<int32_t>> all;
  if (!arguments.ids.empty()) {
    auto ids = parse_ids(arguments.ids);
    if (!ids) return fail(ids.error());
    if (auto fine = check_ids(*ids, model.vocabulary()); !fine) return fail(fine.error());
    all.push_back(std::move(*ids));
  }
  std::vector<std::string> texts = arguments.texts;
  if (texts.size() == 1 && texts[0] == "-") {
    auto input = read_standard_input();
    if (!input) return fail(input.error());
    texts.clear();
    std::istringstream lines(*input);
    for (std::string line; std::getline(lines, line);) texts.push_back(line);
  }
  for (const auto& text : texts) {
    auto ids = model.tokenize(text, true, false);
    if (!ids) return fail(ids.error());
    all.push_back(std::move(*ids));
  }
  for (const auto& ids : all)
    if (ids.empty()) return fail(ErrorKind::InvalidArgument, "nothing to embed: the text is empty");
  return all;
}

std::string vector_line(const std::vector<float>& vector, bool json) {
  if (json) return dump({{"embedding", vector}}) + "\n";
  std::string line;
  for (const float x : vector) line += fmt::format("{}{}", line.empty() ? "" : " ", x);
  return line + "\n";
}

int embed(const EmbedArguments& arguments) {
  if (arguments.texts.empty() == arguments.ids.empty())
    return usage_error("embed", "give either texts or --ids");
  auto model = arguments.model.load();
  if (!model) return report(model.error());
  if (!(*model)->is_embedding_model())
    return report({ErrorKind::Unsupported, "this model makes text, not vectors: 'gull embed' needs an embedding model"});
  auto all = inputs(**model, arguments);
  if (!all) return report(all.error());
  auto session = Session::create(*model);
  if (!session) return report(session.error());
  for (const auto& ids : *all) {
    (*session)->reset();
    auto vector = (*session)->embed(ids, true, !arguments.no_normalize);
    if (!vector) return report(vector.error());
    if (!write_output(vector_line(*vector, arguments.json))) break;
  }
  return kSuccess;
}

}  // namespace

void add_embed(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("embed", "Turn texts into vectors with an embedding model");
  auto arguments = std::make_shared<EmbedArguments>();
  arguments->model.add_to(*command);
  command->add_option("TEXT", arguments->texts, "Texts, one vector each; '-': the lines of standard input")->take_all();
  command->add_option("--ids", arguments->ids, "Token ids in place of a text, as in 1,2,3; complete: none is added");
  command->add_flag("--no-normalize", arguments->no_normalize, "Leave the vector's length as the model made it");
  command->add_flag("--json", arguments->json, "One {\"embedding\": [...]} a line");
  command->callback([arguments, &action] { action = [arguments] { return embed(*arguments); }; });
}

}  // namespace gull::app
