// What every command of the program shares: how it is registered, and how it ends.
#pragma once

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "gull/error.h"

namespace gull::app {

/// Exit statuses of the program: these three, and 130 when a second Ctrl-C ends it at once.
enum Exit { kSuccess = 0, kFailure = 1, kUsage = 2 };

/// What is to be run once the command line has been understood.
using Action = std::function<int()>;

// One function a command: adds the subcommand, and sets `action` when it is chosen.
void add_run(CLI::App& program, Action& action);
void add_chat(CLI::App& program, Action& action);
void add_inspect(CLI::App& program, Action& action);
void add_devices(CLI::App& program, Action& action);
void add_tokenize(CLI::App& program, Action& action);
void add_template(CLI::App& program, Action& action);
void add_logits(CLI::App& program, Action& action);
void add_embed(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_pull(CLI::App& program, Action& action);
void add_tune(CLI::App& program, Action& action);
void add_web(CLI::App& program, Action& action);   ///< where cpp-httplib was there to build it

/// Prints "gull: MESSAGE" as one line on standard error; gives kFailure.
int report(const Error& error);
/// Prints "gull: MESSAGE" on standard error and a pointer to `gull COMMAND --help`; gives kUsage.
int usage_error(std::string_view command, std::string_view message);

}  // namespace gull::app
