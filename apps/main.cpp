// The gull program: reads the command line and hands over to one command.
#include <clocale>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "command.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {

int report(const Error& error) {
  std::string line = error.message.empty() ? to_string(error.kind) : error.message;
  for (char& c : line) if (c == '\n' || c == '\r') c = ' ';
  print_notice(line);
  return kFailure;
}

int usage_error(std::string_view command, std::string_view message) {
  print_notice(message);
  fmt::print(stderr, "Try 'gull {} --help'.\n", command);
  return kUsage;
}

namespace {

int parse_and_run(int argc, char** argv) {
  CLI::App program("gull runs language models in GGUF files on any GPU, through WebGPU.", "gull");
  program.set_version_flag("--version", "gull " GULL_VERSION);
  program.require_subcommand(1);
  program.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);   // a later option overrides an earlier one
  program.footer(
      "MODEL is a file, an http(s) address, or a name that 'gull pull --list' shows.\n"
      "'gull COMMAND --help' shows the options of a command.\n"
      "Exit status: 0 success, 1 failure, 2 wrong usage.");
  Action action;
  add_run(program, action);
  add_chat(program, action);
  add_inspect(program, action);
  add_devices(program, action);
  add_tokenize(program, action);
  add_template(program, action);
  add_logits(program, action);
  add_embed(program, action);
  add_bench(program, action);
  add_pull(program, action);
  add_tune(program, action);
#if defined(GULL_HAS_HTTPLIB)
  add_web(program, action);
#endif

  if (argc < 2) {
    fmt::print(stderr, "{}", program.help());
    return kUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? kSuccess : kUsage;
  }
  return action ? action() : kUsage;
}

}  // namespace
}  // namespace gull::app

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  // Without a desktop session Mesa's Vulkan driver looks for Wayland's socket all the same and complains of
  // XDG_RUNTIME_DIR on standard error. gull opens no window: an absolute path is tried silently.
  if (!std::getenv("XDG_RUNTIME_DIR")) setenv("WAYLAND_DISPLAY", "/dev/null", 0);
  gull::set_log([](gull::LogLevel, std::string_view line) { gull::app::print_notice(line); });
  gull::app::install_signal_handlers();
  int status = gull::app::parse_and_run(argc, argv);
  if (const int output = gull::app::finish_output(); status == gull::app::kSuccess) status = output;
  return status;
}
