// Running another program.
#pragma once

#include <string>
#include <vector>

#include "gull/error.h"

namespace gull::app {

/// Runs a program found on PATH with these arguments (no shell is involved), its standard output sent to standard error,
/// or both dropped when `quiet`. Success is exit status 0. An interrupt ends it too (Cancelled).
Result<void> run_program(const std::vector<std::string>& arguments, bool quiet = false);

/// The number of this process.
int process_id();

}  // namespace gull::app
