// Generation: the prompt goes in, tokens come out, until something says stop.
#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "engine/impl.h"
#include "engine/sampler.h"
#include "engine/token_stream.h"
#include "text/stream.h"

namespace gull {

using engine::PlanKind;
using engine::Sampler;

const char* to_string(StopReason reason) {
  switch (reason) {
    case StopReason::EndOfGeneration: return "eog";
    case StopReason::MaxTokens: return "length";
    case StopReason::StopString: return "stop";
    case StopReason::ContextFull: return "context";
    case StopReason::Cancelled: return "cancelled";
    case StopReason::Callback: return "callback";
  }
  return "";
}

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Turns ids into text for the caller, and decides when to stop.
class Output {
 public:
  Output(const Model::Impl& model, const GenerateOptions& options, const std::function<bool(const Piece&)>& on_piece, GenerateResult& result)
      : model_(model), options_(options), on_piece_(on_piece), stops_(options.stop), result_(result) {}

  /// Takes one id; true when generation goes on.
  bool take(int32_t id, std::span<const TokenLogprob> logprobs) {
    if (!options_.ignore_eog && model_.tokenizer && model_.tokenizer->is_end_of_generation(id)) return stop(StopReason::EndOfGeneration);
    result_.ids.push_back(id);
    auto out = stops_.push(utf8_.push(model_.tokenizer ? model_.tokenizer->piece(id) : std::string()));
    const bool wanted = emit(id, out.text, logprobs);
    if (out.stopped) {
      result_.stop_string = out.stop;
      return stop(StopReason::StopString);
    }
    return wanted || stop(StopReason::Callback);
  }

  /// What was held back comes out, unless a stop string ended it.
  void finish() {
    if (result_.stop == StopReason::StopString) return;
    auto rest = stops_.push(utf8_.finish());
    std::string text = rest.text;
    if (!rest.stopped) text += stops_.finish();
    if (!text.empty() && result_.stop != StopReason::Callback) emit(-1, text, {});
  }

  bool stop(StopReason reason) {
    result_.stop = reason;
    return false;
  }

 private:
  bool emit(int32_t id, const std::string& text, std::span<const TokenLogprob> logprobs) {
    result_.text += text;
    return !on_piece_ || on_piece_(Piece{id, text, logprobs});
  }

  const Model::Impl& model_;
  const GenerateOptions& options_;
  const std::function<bool(const Piece&)>& on_piece_;
  text::Utf8Stream utf8_;
  text::StopMatcher stops_;
  GenerateResult& result_;
};

/// How many tokens may be generated: each but the last needs a place in the cache.
uint32_t room(const Session::Impl& s, const GenerateOptions& options, uint32_t context, StopReason& at_end) {
  const uint32_t left = context - static_cast<uint32_t>(s.tokens.size()) + 1;
  at_end = StopReason::ContextFull;
  if (options.max_tokens >= 0 && static_cast<uint32_t>(options.max_tokens) <= left) {
    at_end = StopReason::MaxTokens;
    return static_cast<uint32_t>(options.max_tokens);
  }
  return left;
}

/// Where steps are joined, a GPU that does not let a waiting step's forerunners go on ends here, too.
Error no_logits(const Session::Impl& s) {
  return {ErrorKind::Device, fmt::format("the model gave no usable logits (all are NaN){}", s.m().choices.chain ? ": try --joined off" : "")};
}

bool cancelled(const GenerateOptions& options) { return options.cancel && *options.cancel; }

/// The tokens that the GPU chooses.
Result<void> generate_on_gpu(Session::Impl& s, engine::TokenStream stream, uint32_t most, const GenerateOptions& options, Output& output) {
  std::vector<int32_t> made;
  bool going = true;
  for (uint32_t i = 0; i < most && going; ++i) {
    if (cancelled(options)) { output.stop(StopReason::Cancelled); break; }
    auto id = stream.next();
    if (id && *id < 0) id = fail(no_logits(s));
    if (!id) {
      (void)stream.drain();
      return fail(id.error());
    }
    made.push_back(*id);
    going = output.take(*id, {});
  }
  if (auto ok = stream.drain(); !ok) return ok;
  // The last id may not have gone through the layers; what was computed beyond it is overwritten by the next tokens.
  if (!made.empty()) s.tokens.insert(s.tokens.end(), made.begin(), made.end() - 1);
  s.poisoned = s.m().family->config().recurrent;   // its states went on with the steps that were run ahead
  return {};
}

/// A grammar that the output keeps to: which tokens may come next.
class Constraint {
 public:
  /// None without an error where the options ask for none.
  static Result<std::unique_ptr<Constraint>> create(Model::Impl& model, const GenerateOptions& options) {
    if (options.grammar.empty() && options.json_schema.empty()) return std::unique_ptr<Constraint>();
    if (!options.grammar.empty() && !options.json_schema.empty())
      return fail(ErrorKind::InvalidArgument, "a grammar and a JSON Schema cannot both constrain one output");
    if (!model.tokenizer) return fail(ErrorKind::Unsupported, model.tokenizer_problem);
    auto grammar = options.grammar.empty() ? text::Grammar::from_json_schema(options.json_schema) : text::Grammar::parse(options.grammar);
    if (!grammar) return fail(grammar.error());
    return std::unique_ptr<Constraint>(new Constraint(model, std::move(*grammar)));
  }

  /// One byte a token: whether it may come next. Where the text may end, so may the end-of-generation tokens.
  std::span<const uint8_t> allowed() {
    const auto bits = state_.allowed_tokens(model_.token_trie());
    for (size_t id = 0; id < mask_.size(); ++id) mask_[id] = id / 32 < bits.size() ? (bits[id / 32] >> (id % 32)) & 1 : 0;
    for (int32_t id : model_.tokenizer->end_of_generation())
      if (id >= 0 && static_cast<size_t>(id) < mask_.size()) mask_[static_cast<size_t>(id)] = state_.is_complete();
    return mask_;
  }
  void accept(int32_t id) { state_.advance(model_.tokenizer->piece(id)); }
  bool finished() const { return state_.is_finished(); }

 private:
  Constraint(Model::Impl& model, std::shared_ptr<const text::Grammar> grammar)
      : model_(model), state_(std::move(grammar)), mask_(model.family->config().vocabulary) {}
  Model::Impl& model_;
  text::GrammarState state_;
  std::vector<uint8_t> mask_;
};

/// The tokens that `sampler` chooses, from logits that are read back.
Result<void> generate_on_cpu(Session::Impl& s, Sampler& sampler, Constraint* constraint, uint32_t most, const GenerateOptions& options, Output& output) {
  std::vector<float> logits, untouched;
  for (uint32_t i = 0; i < most; ++i) {
    if (cancelled(options)) return output.stop(StopReason::Cancelled), Result<void>{};
    if (auto ok = s.read_logits(logits); !ok) return ok;
    if (options.logprobs) untouched = logits;
    const int32_t id = constraint ? sampler.sample(logits, constraint->allowed()) : sampler.sample(logits);
    if (id < 0 && constraint) return fail(ErrorKind::Unsupported, "no token of this vocabulary continues what the grammar asks for");
    if (id < 0) return fail(no_logits(s));
    sampler.accept(id);
    if (constraint) constraint->accept(id);
    const auto logprobs = options.logprobs ? Sampler::logprobs(untouched, id, options.logprobs) : std::vector<TokenLogprob>{};
    if (!output.take(id, logprobs) || i + 1 == most) return {};
    if (constraint && constraint->finished()) return output.stop(StopReason::EndOfGeneration), Result<void>{};
    const int32_t next[1] = {id};
    if (auto ok = s.feed(next, true, nullptr); !ok) return ok;
  }
  return {};
}

}  // namespace

Result<GenerateResult> Session::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                         const std::function<bool(const Piece&)>& on_piece) {
  Impl& s = *impl_;
  Model::Impl& model = s.m();
  if (model.family->config().embedding) return fail(ErrorKind::Unsupported, "an embedding model generates no text: use embed");
  if (prompt.empty()) return fail(ErrorKind::InvalidArgument, "the prompt is empty");
  if (prompt.size() > model.context)
    return fail_f(ErrorKind::InvalidArgument, "the prompt has {} tokens, the context holds {}: shorten it or raise --ctx", prompt.size(), model.context);
  auto constraint = Constraint::create(model, options);
  if (!constraint) return fail(constraint.error());
  GenerateResult result;
  const auto start = Clock::now();
  if (s.poisoned) reset();
  const size_t same = std::mismatch(s.tokens.begin(), s.tokens.end(), prompt.begin(), prompt.end()).first - s.tokens.begin();
  const size_t keep = std::min(same, prompt.size() - 1);   // the last token is computed anew: its logits are wanted
  if (auto ok = truncate(static_cast<uint32_t>(keep)); !ok) return fail(ok.error());
  result.timings.cached_tokens = position();
  result.timings.prompt_tokens = static_cast<uint32_t>(prompt.size());
  result.timings.load_s = model.load_s;
  Output output(model, options, on_piece, result);
  auto fed = s.feed(prompt.subspan(position()), true, options.cancel);
  if (!fed && fed.error().kind == ErrorKind::Cancelled) {
    s.poisoned = false;
    output.stop(StopReason::Cancelled);
    return result;
  }
  if (!fed) return fail(fed.error());
  if (auto ok = model.device->wait_idle(); !ok) return fail(ok.error());
  result.timings.prompt_s = seconds_since(start);
  const auto decode_start = Clock::now();
  StopReason at_end;
  const uint32_t most = room(s, options, model.context, at_end);
  output.stop(at_end);
  Sampler sampler(options.sampling);
  Result<void> made;
  if (const auto choice = engine::gpu_choice(options, model.family->config().vocabulary)) {
    made = engine::prepare_choice(s, *choice, options.sampling, sampler.seed(), prompt);
    if (made) made = generate_on_gpu(s, engine::TokenStream(s, *choice, most), most, options, output);
  } else {
    for (int32_t id : prompt) sampler.accept(id);
    made = generate_on_cpu(s, sampler, constraint->get(), most, options, output);
  }
  if (!made) {
    s.poisoned = true;
    return fail(made.error());
  }
  output.finish();
  result.timings.generate_s = seconds_since(decode_start);
  result.timings.generated_tokens = static_cast<uint32_t>(result.ids.size());
  return result;
}

Result<GenerateResult> Session::chat(std::span<const Message> messages, const GenerateOptions& options,
                                     const std::function<bool(const Piece&)>& on_piece) {
  auto ids = impl_->model->apply_chat_template(messages);
  if (!ids) return fail(ids.error());
  return generate(*ids, options, on_piece);
}

}  // namespace gull
