// Ctrl-C, and readers that go away.
#pragma once

#include "gull/engine.h"

namespace gull::app {

/// SIGINT and SIGTERM set the flag; a second one ends the program at once with status 130. SIGPIPE is ignored: writing
/// to a closed pipe then fails as any other write does.
void install_signal_handlers();
/// Set once the user has asked to stop. Give it to whatever loads or generates.
CancelFlag& interrupted();
/// Forgets an interrupt that has been dealt with (chat goes on after one).
void clear_interrupt();

}  // namespace gull::app
