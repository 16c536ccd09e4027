// The C API of language models: load, generate with a callback, free.
#include "base/c_api.h"

#include "gull/engine.h"

using namespace gull;

struct gull_model {
  std::shared_ptr<Model> model;
};

struct gull_session {
  std::shared_ptr<Model> model;
  std::unique_ptr<Session> session;
};

namespace {

GenerateOptions options_of(const gull_generate_options* options) {
  GenerateOptions out;
  if (!options) return out;
  out.max_tokens = options->max_tokens > 0 ? options->max_tokens : -1;
  out.sampling.temperature = options->temperature;
  out.sampling.top_k = options->top_k;
  out.sampling.top_p = options->top_p > 0 ? options->top_p : 1.0f;
  out.sampling.min_p = options->min_p;
  out.sampling.seed = options->seed;
  for (size_t i = 0; options->stop && i < options->stop_count; ++i)
    if (options->stop[i]) out.stop.emplace_back(options->stop[i]);
  return out;
}

std::function<bool(const Piece&)> callback_of(gull_piece_callback on_piece, void* user) {
  if (!on_piece) return {};
  return [on_piece, user](const Piece& piece) { return piece.text.empty() || on_piece(piece.text.data(), piece.text.size(), user); };
}

}  // namespace

gull_model* gull_model_load(const char* path, const gull_model_options* options) {
  if (!path) return c_null(__func__), nullptr;
  LoadOptions load;
  if (options) {
    load.device = c_device(&options->device);
    load.context = options->context;
    load.gpu_budget = options->gpu_budget;
    if (options->precise) load.precision = Precision::F32;
  }
  auto model = Model::load(path, std::move(load));
  if (!model) return c_failed(model.error()), nullptr;
  return new gull_model{std::move(*model)};
}

void gull_model_free(gull_model* model) { delete model; }

gull_session* gull_session_create(gull_model* model) {
  if (!model) return c_null(__func__), nullptr;
  auto session = Session::create(model->model);
  if (!session) return c_failed(session.error()), nullptr;
  return new gull_session{model->model, std::move(*session)};
}

void gull_session_free(gull_session* session) { delete session; }

void gull_session_reset(gull_session* session) {
  if (session) session->session->reset();
}

gull_status gull_session_generate(gull_session* session, const char* prompt, const gull_generate_options* options, gull_piece_callback on_piece, void* user) {
  if (!session || !prompt) return c_null(__func__);
  const auto ids = session->model->tokenize(prompt);
  if (!ids) return c_failed(ids.error());
  return c_result(session->session->generate(*ids, options_of(options), callback_of(on_piece, user)));
}

gull_status gull_session_chat(gull_session* session, const gull_message* messages, size_t count, const gull_generate_options* options,
                              gull_piece_callback on_piece, void* user) {
  if (!session || (!messages && count)) return c_null(__func__);
  std::vector<Message> conversation;
  for (size_t i = 0; i < count; ++i) {
    if (!messages[i].role || !messages[i].content) return c_null(__func__);
    conversation.push_back({messages[i].role, messages[i].content, {}});
  }
  return c_result(session->session->chat(conversation, options_of(options), callback_of(on_piece, user)));
}
