#include "signals.h"

#include <csignal>
#include <unistd.h>

namespace gull::app {
namespace {

CancelFlag flag{false};
static_assert(CancelFlag::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_interrupt(int) {
  if (flag.exchange(true)) _exit(130);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read that waits for the user returns, so that Ctrl-C ends it.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);   // a file that may not grow any more is a failed write, which says so
#endif
}

CancelFlag& interrupted() { return flag; }
void clear_interrupt() { flag = false; }

}  // namespace gull::app
