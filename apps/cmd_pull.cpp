// gull pull: fetches a model into the cache.
#include <filesystem>

#include "base/log.h"
#include "catalogue.h"
#include "command.h"
#include "terminal.h"

namespace gull::app {
namespace {

struct PullArguments {
  std::string model;
  bool list = false, verbose = false;
};

int list_catalogue() {
  for (const auto& entry : catalogue()) {
    const std::string path = cached_model(entry.name);
    write_output(fmt::format("{:<16} {:>10}  {:<20} {}\n", entry.name, human_bytes(entry.bytes), entry.licence,
                             path.empty() ? "not fetched" : path));
  }
  return kSuccess;
}

int pull(const PullArguments& arguments) {
  if (arguments.verbose) set_log_level(LogLevel::Debug);
  if (arguments.list) return list_catalogue();
  if (arguments.model.empty()) return usage_error("pull", "what should be fetched? Give a catalogue name or an address, or --list");
  auto path = pull_model(arguments.model);
  if (!path) return report(path.error());
  write_output(*path + "\n");
  return kSuccess;
}

}  // namespace

void add_pull(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("pull", "Fetch a model into the cache and print its path");
  auto arguments = std::make_shared<PullArguments>();
  command->add_option("NAME|URL", arguments->model, "A catalogue name, or the http(s) address of a GGUF file");
  command->add_flag("--list", arguments->list, "List the catalogue, and what is already there");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is being done");
  command->callback([arguments, &action] { action = [arguments] { return pull(*arguments); }; });
}

}  // namespace gull::app
