// gull logits: what the model says of each next token, for comparison with other programs.
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "command.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

struct LogitsArguments {
  ModelArguments model;
  std::string ids, out;
  bool all = false;
};

// Positions computed at a time with --all: bounds the memory for a vocabulary of 262,144 to 128 MiB.
constexpr size_t kChunk = 128;

using FilePtr = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Result<void> write_floats(std::FILE* file, const std::string& name, const std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little, "the file holds little-endian floats");
  if (std::fwrite(values.data(), sizeof(float), values.size(), file) != values.size())
    return fail_f(ErrorKind::Io, "cannot write {}: {}", name, std::strerror(errno));
  return {};
}

Result<void> compute(Session& session, std::span<const int32_t> ids, bool all, std::FILE* file, const std::string& name) {
  if (!all) {
    auto last = session.logits(ids, false);
    return last ? write_floats(file, name, *last) : fail(last.error());
  }
  for (size_t at = 0; at < ids.size(); at += kChunk) {
    if (interrupted()) return fail_f(ErrorKind::Cancelled, "interrupted");
    auto chunk = session.logits(ids.subspan(at, std::min(kChunk, ids.size() - at)), true);
    if (!chunk) return fail(chunk.error());
    if (auto written = write_floats(file, name, *chunk); !written) return written;
  }
  return {};
}

int logits(const LogitsArguments& arguments) {
  auto ids = parse_ids(arguments.ids);
  if (!ids) return report(ids.error());
  if (ids->empty()) return report({ErrorKind::InvalidArgument, "--ids is empty: give at least one token id"});
  auto model = arguments.model.load();
  if (!model) return report(model.error());
  if (auto fine = check_ids(*ids, (*model)->vocabulary()); !fine) return report(fine.error());
  auto session = Session::create(*model);
  if (!session) return report(session.error());

  const FilePtr file(std::fopen(arguments.out.c_str(), "wb"), std::fclose);
  if (!file) return report({ErrorKind::Io, fmt::format("cannot write {}: {}", arguments.out, std::strerror(errno))});
  auto done = compute(**session, *ids, arguments.all, file.get(), arguments.out);
  if (done && std::fflush(file.get()) != 0) done = fail_f(ErrorKind::Io, "cannot write {}: {}", arguments.out, std::strerror(errno));
  return done ? kSuccess : report(done.error());
}

}  // namespace

void add_logits(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("logits", "Write the logits after given token ids to a file");
  auto arguments = std::make_shared<LogitsArguments>();
  arguments->model.add_to(*command);
  command->add_option("--ids", arguments->ids, "Token ids, as in 1,2,3; complete: none is added")->required();
  command->add_flag("--all", arguments->all, "Every position, not only the last");
  command->add_option("--out", arguments->out, "File for little-endian float32 [positions, vocabulary]")->required();
  command->callback([arguments, &action] { action = [arguments] { return logits(*arguments); }; });
}

}  // namespace gull::app
