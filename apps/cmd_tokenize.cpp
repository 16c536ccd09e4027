// gull tokenize: text to token ids and back. Needs no GPU.
#include "catalogue.h"
#include "command.h"
#include "generation.h"
#include "gull/gguf.h"
#include "model_file.h"
#include "options.h"
#include "terminal.h"
#include "text/tokenizer.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;

struct TokenizeArguments {
  std::string model, text;
  bool no_bos = false, no_special = false, json = false, decode = false, verbose = false;
};

/// One token as a person reads it: control characters escaped, its bytes in quotes.
std::string quoted(const std::string& bytes) {
  std::string text = dump(Json(bytes));
  return text;
}

int decode(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments, const std::string& list) {
  auto ids = parse_ids(list);
  if (!ids) return report(ids.error());
  if (auto fine = check_ids(*ids, static_cast<uint32_t>(tokenizer.size())); !fine) return report(fine.error());
  const std::string bytes = tokenizer.decode(*ids, !arguments.no_special);
  write_output(arguments.json ? dump({{"text", bytes}}) + "\n" : bytes);
  return kSuccess;
}

int encode(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments, const std::string& bytes) {
  auto ids = tokenizer.encode(bytes, {.add_special = !arguments.no_bos, .parse_special = !arguments.no_special});
  if (!ids) return report(ids.error());
  if (arguments.json) {
    write_output(dump({{"ids", *ids}}) + "\n");
    return kSuccess;
  }
  std::string lines;
  for (const int32_t id : *ids) lines += fmt::format("{:>7}  {}\n", id, quoted(tokenizer.piece(id, true)));
  write_output(lines);
  return kSuccess;
}

int tokenize(const TokenizeArguments& arguments) {
  set_verbose(arguments.verbose);
  auto file = open_model_file(arguments.model);
  if (!file) return report(file.error());
  auto tokenizer = text::Tokenizer::from_gguf(**file);
  if (!tokenizer) return report(tokenizer.error());
  std::string input = arguments.text;
  if (input == "-") {
    auto bytes = read_standard_input();
    if (!bytes) return report(bytes.error());
    input = std::move(*bytes);
  }
  return arguments.decode ? decode(**tokenizer, arguments, input) : encode(**tokenizer, arguments, input);
}

}  // namespace

void add_tokenize(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  auto arguments = std::make_shared<TokenizeArguments>();
  command->add_option("MODEL", arguments->model, "A GGUF file, an http(s) address, or a catalogue name")->required();
  command->add_option("TEXT", arguments->text, "The text; '-': standard input, byte for byte")->required();
  command->add_flag("--no-bos", arguments->no_bos, "Add no token at the beginning or the end");
  command->add_flag("--no-special", arguments->no_special, "Special tokens written in the text are plain text (with --decode: leave them out)");
  command->add_flag("--decode", arguments->decode, "TEXT is a list of ids, as in 1,2,3: print their text");
  command->add_flag("--json", arguments->json, "{\"ids\": [...]}, or {\"text\": ...}");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is being done");
  command->callback([arguments, &action] { action = [arguments] { return tokenize(*arguments); }; });
}

}  // namespace gull::app
