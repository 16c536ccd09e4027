// The engine for JavaScript: requests and answers are JSON, so that a handful of functions is the whole interface.
//   gull_request(json, length)  may suspend (JSPI); one at a time. Returns the address of the answer, a C string that stays
//                               until the next request: {"error": {kind, message}} or {"result": …, "floats": [address, count]?}.
//   gull_cancel(), gull_sha256_*  never suspend, and may be called while a request waits.
#include <map>

#include "base/log.h"
#include "base/sha256.h"
#include "browser_source.h"
#include "request.h"

extern "C" {
// Tells JavaScript of something that happens during a request: {"type": "piece" | "progress" | "log", …}.
__attribute__((import_module("env"), import_name("gull_event"))) void gull_event(const char* json, uint32_t length);
}

namespace gull::web {
namespace {

struct State {
  std::shared_ptr<Model> model;
  std::map<int32_t, std::unique_ptr<Session>> sessions;
  int32_t next_session = 1;
  CancelFlag cancel{false};
  std::string answer;
  std::vector<float> floats;   // what the last answer points at
  Sha256 sha256;
};

State& state() {
  static State instance;
  return instance;
}

void send(const Json& event) {
  const std::string text = dump(event);
  gull_event(text.data(), static_cast<uint32_t>(text.size()));
}

Result<Session*> session_of(const Json& request) {
  const auto id = static_cast<int32_t>(number_of(request, "session", 0));
  const auto it = state().sessions.find(id);
  if (it == state().sessions.end()) return fail_f(ErrorKind::NotFound, "there is no session {}: it was disposed of", id);
  return it->second.get();
}

Result<Json> with_floats(std::vector<float> values, Json result) {
  state().floats = std::move(values);
  return result;
}

Result<Json> open(const Json& request) {
  auto options = load_options(member(request, "options"));
  if (!options) return fail(options.error());
  options->cancel = &state().cancel;
  options->progress = [](const Progress& p) { send({{"type", "progress"}, {"stage", p.stage}, {"done", p.done}, {"total", p.total}}); };
  std::vector<std::shared_ptr<ByteSource>> parts;
  for (const Json& source : member(request, "sources"))
    parts.push_back(browser_source(static_cast<int32_t>(number_of(source, "id", 0)), text_of(source, "name"),
                                   static_cast<uint64_t>(number_of(source, "size", 0))));
  if (parts.empty()) return fail(ErrorKind::InvalidArgument, "no file was given");
  auto file = parts.size() == 1 ? gguf::File::open(std::move(parts[0])) : gguf::File::open(std::move(parts));
  if (!file) return fail(file.error());
  auto model = Model::load(std::move(*file), std::move(*options));
  if (!model) return fail(model.error());
  state().model = std::move(*model);
  return describe(*state().model);
}

/// Uploads the weights and compiles the shaders now, so that the first answer does not wait for them.
Result<Json> warm(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  // Enough for the kernels of prompts, not only those of a few tokens or of one.
  const std::vector<int32_t> some_tokens(std::min(17u, state().model->context()));
  if (state().model->is_embedding_model()) {
    if (auto ok = (*session)->embed(some_tokens); !ok) return fail(ok.error());
  } else {
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = 2;
    options.ignore_eog = true;
    options.cancel = &state().cancel;
    auto result = (*session)->generate(some_tokens, options);
    if (!result) return fail(result.error());
    if (result->stop == StopReason::Cancelled) return fail(ErrorKind::Cancelled, "loading was cancelled");
  }
  (*session)->reset();
  return Json::object();
}

Result<Json> new_session(const Json&) {
  auto session = Session::create(state().model);
  if (!session) return fail(session.error());
  const int32_t id = state().next_session++;
  state().sessions.emplace(id, std::move(*session));
  return Json{{"session", id}};
}

Result<Json> delete_session(const Json& request) {
  state().sessions.erase(static_cast<int32_t>(number_of(request, "session", 0)));
  return Json::object();
}

Result<Json> reset(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  (*session)->reset();
  return Json::object();
}

Result<Json> truncate(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  if (auto ok = (*session)->truncate(static_cast<uint32_t>(number_of(request, "tokens", 0))); !ok) return fail(ok.error());
  return Json{{"position", (*session)->position()}};
}

/// The ids of a prompt: given as such, as text, or as a conversation.
Result<std::vector<int32_t>> prompt_of(const Json& request) {
  const Model& model = *state().model;
  if (member(request, "ids").is_array()) return ids_of(request, "ids");
  if (const Json& text = member(request, "text"); text.is_string()) return model.tokenize(text.get<std::string>());
  const auto messages = messages_of(member(request, "messages"));
  const Json& tools = member(member(request, "options"), "tools");
  return model.apply_chat_template(messages, true, tools.is_null() ? std::string() : dump(tools));
}

Result<Json> generate(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  auto prompt = prompt_of(request);
  if (!prompt) return fail(prompt.error());
  GenerateOptions options = generate_options(member(request, "options"));
  options.cancel = &state().cancel;
  auto result = (*session)->generate(*prompt, options, [](const Piece& piece) {
    Json event = to_json(piece);
    event["type"] = "piece";
    send(event);
    return true;
  });
  if (!result) return fail(result.error());
  Json json = to_json(*result);
  json["position"] = (*session)->position();
  return json;
}

Result<Json> logits(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  auto values = (*session)->logits(ids_of(request, "ids"), flag_of(request, "all"));
  if (!values) return fail(values.error());
  return with_floats(std::move(*values), {{"vocabulary", state().model->vocabulary()}});
}

Result<Json> embed(const Json& request) {
  auto session = session_of(request);
  if (!session) return fail(session.error());
  auto ids = prompt_of(request);
  if (!ids) return fail(ids.error());
  const Json& options = member(request, "options");
  auto values = (*session)->embed(*ids, flag_of(options, "pooled", true), flag_of(options, "normalize", true));
  if (!values) return fail(values.error());
  return with_floats(std::move(*values), {{"tokens", ids->size()}});
}

Result<Json> tokenize(const Json& request) {
  auto ids = state().model->tokenize(text_of(request, "text"), flag_of(request, "addSpecial", true), flag_of(request, "parseSpecial", true));
  if (!ids) return fail(ids.error());
  return Json{{"ids", *ids}};
}

Result<Json> detokenize(const Json& request) {
  return Json{{"text", state().model->detokenize(ids_of(request, "ids"), flag_of(request, "special"))}};
}

Result<Json> apply_template(const Json& request) {
  auto ids = prompt_of(request);
  if (!ids) return fail(ids.error());
  return Json{{"ids", *ids}};
}

Result<Json> stats(const Json&) { return to_json(state().model->stats()); }

Result<Json> close(const Json&) {
  state().sessions.clear();
  state().model.reset();
  return Json::object();
}

Result<Json> answer(const Json& request) {
  const std::pair<const char*, Result<Json> (*)(const Json&)> calls[] = {
      {"open", open}, {"close", close}, {"warm", warm}, {"newSession", new_session}, {"deleteSession", delete_session}, {"reset", reset},
      {"truncate", truncate}, {"generate", generate}, {"logits", logits}, {"embed", embed}, {"tokenize", tokenize},
      {"detokenize", detokenize}, {"applyTemplate", apply_template}, {"stats", stats}};
  const std::string op = text_of(request, "op");
  for (const auto& [name, call] : calls) {
    if (op != name) continue;
    if (op != "open" && op != "close" && !state().model) return fail(ErrorKind::NotInitialised, "no model is loaded");
    return call(request);
  }
  return fail_f(ErrorKind::InvalidArgument, "'{}' is no request", op);
}

}  // namespace
}  // namespace gull::web

using gull::web::Json;
using gull::web::state;

extern "C" {

__attribute__((export_name("gull_request"))) const char* gull_request(const char* text, uint32_t length) {
  state().cancel = false;
  state().floats.clear();
  const Json request = Json::parse(text, text + length, nullptr, false);
  auto result = gull::web::answer(request);
  Json reply;
  if (!result) {
    reply["error"] = gull::web::to_json(result.error());
  } else {
    reply["result"] = std::move(*result);
    if (!state().floats.empty()) reply["floats"] = {reinterpret_cast<uintptr_t>(state().floats.data()), state().floats.size()};
  }
  state().answer = gull::web::dump(reply);
  return state().answer.c_str();
}

__attribute__((export_name("gull_cancel"))) void gull_cancel() { state().cancel = true; }

__attribute__((export_name("gull_sha256_update"))) void gull_sha256_update(const std::byte* bytes, uint32_t length) {
  state().sha256.update({bytes, length});
}

/// The digest of all updates so far, 64 digits; the next update starts afresh.
__attribute__((export_name("gull_sha256_hex"))) const char* gull_sha256_hex() {
  static std::string hex;
  hex = state().sha256.hex();
  return hex.c_str();
}
}
