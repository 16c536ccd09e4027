#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/log.h"
#include "signals.h"

extern char** environ;

namespace gull::app {

Result<void> run_program(const std::vector<std::string>& arguments, bool quiet) {
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  // The child takes SIGINT from the terminal as usual; only the ignored SIGPIPE must not be passed on.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error) return fail_f(ErrorKind::NotFound, "cannot run {}: {}", arguments[0], std::strerror(error));

  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return fail_f(ErrorKind::Internal, "waiting for {}: {}", arguments[0], std::strerror(errno));
    if (interrupted()) kill(child, SIGINT);
  }
  if (interrupted()) return fail_f(ErrorKind::Cancelled, "interrupted");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFSIGNALED(status)) return fail_f(ErrorKind::Io, "{} was ended by signal {}", arguments[0], WTERMSIG(status));
  return fail_f(ErrorKind::Io, "{} failed with status {}", arguments[0], WEXITSTATUS(status));
}

int process_id() { return static_cast<int>(getpid()); }

}  // namespace gull::app
