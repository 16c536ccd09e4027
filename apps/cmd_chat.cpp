// gull chat: a conversation in the terminal. The engine keeps the keys and values of what was said before.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "catalogue.h"
#include "command.h"
#include "generation.h"
#include "line_reader.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

struct ChatArguments {
  ModelArguments model;
  GenerateArguments generate;
  std::string system;
  bool quiet = false;
};

constexpr std::string_view kHelp =
    "/help         this list\n"
    "/reset        forget the conversation\n"
    "/system TEXT  start over with this system message\n"
    "/exit         leave (so does Ctrl-D)\n"
    "Ctrl-C stops an answer; what was said so far stays part of the conversation.\n";

class Chat {
 public:
  Chat(const ChatArguments& arguments, GenerateOptions options, std::shared_ptr<Model> model, std::unique_ptr<Session> session)
      : options_(std::move(options)), model_(std::move(model)), session_(std::move(session)), system_(arguments.system), quiet_(arguments.quiet) {
    reset();
  }

  /// One line of the user's. False when the conversation is over.
  bool take(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return true;
    if (line[0] == '/') return command(line);
    answer(line);
    return true;
  }
  int status() const { return status_; }

 private:
  void reset() {
    session_->reset();
    messages_.clear();
    if (!system_.empty()) messages_.push_back({"system", system_, {}});
  }

  bool command(const std::string& line) {
    const std::string name = line.substr(0, line.find(' '));
    if (name == "/exit" || name == "/quit" || name == "/bye") return false;
    if (name == "/help" || name == "/?") {
      write_output(kHelp);
    } else if (name == "/reset" || name == "/system") {
      if (name == "/system") system_ = line.size() > name.size() ? line.substr(name.size() + 1) : "";
      reset();
      print_notice("the conversation starts over");
    } else {
      print_notice(fmt::format("{} is not a command; /help lists them", name));
    }
    return true;
  }

  void answer(const std::string& question) {
    messages_.push_back({"user", question, {}});
    auto result = session_->chat(messages_, options_, [](const Piece& piece) { return write_output(piece.text); });
    write_output("\n");
    const bool stopped = interrupted();
    clear_interrupt();
    if (!result) {
      messages_.pop_back();
      status_ = report(result.error());
      return;
    }
    messages_.push_back({"assistant", result->text, {}});
    status_ = kSuccess;
    if (!quiet_) print_notice(timings_line(*result));
    if (result->stop == StopReason::ContextFull && !stopped)
      print_notice(fmt::format("the context of {} tokens is full: /reset, or start with a larger --ctx", model_->context()));
  }

  GenerateOptions options_;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Session> session_;
  std::string system_;
  bool quiet_;
  std::vector<Message> messages_;
  int status_ = kSuccess;   ///< of the last answer: what a script sees
};

std::string history_file() {
  auto folder = cache_folder();
  std::error_code error;
  if (!folder || (std::filesystem::create_directories(*folder, error), error)) return {};
  return *folder + "/chat-history";
}

int chat(const ChatArguments& arguments) {
  auto options = arguments.generate.resolve();
  if (!options) return report(options.error());
  auto model = arguments.model.load();
  if (!model) return report(model.error());
  if (!(*model)->has_chat_template())
    return report({ErrorKind::Unsupported, "the model has no chat template, so it was not made to converse: use 'gull run --raw'"});
  auto session = Session::create(*model);
  if (!session) return report(session.error());

  const bool person = stdin_is_terminal();
  if (person)
    print_notice(fmt::format("{} on {}; /help for help", std::filesystem::path((*model)->file().name()).filename().string(), (*model)->device().name));
  Chat conversation(arguments, std::move(*options), *model, std::move(*session));
  umask(077);   // what was typed is nobody else's business
  LineReader reader(person ? history_file() : std::string());
  for (std::string line;;) {
    const auto outcome = reader.read("> ", line);
    if (outcome == LineReader::Outcome::End) break;
    if (outcome == LineReader::Outcome::Interrupted) {
      if (!person) return report({ErrorKind::Cancelled, "interrupted"});
      clear_interrupt();
      print_notice("Ctrl-D or /exit leaves");
      continue;
    }
    if (!conversation.take(line)) break;
  }
  return conversation.status();
}

}  // namespace

void add_chat(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("chat", "Converse in the terminal");
  auto arguments = std::make_shared<ChatArguments>();
  arguments->model.add_to(*command);
  command->add_option("--system", arguments->system, "System message at the beginning");
  command->add_flag("--quiet", arguments->quiet, "No timings after each answer");
  arguments->generate.add_to(*command);
  command->callback([arguments, &action] { action = [arguments] { return chat(*arguments); }; });
}

}  // namespace gull::app
