// Generation: the prompt goes in, tokens come out, until something says stop.
#include <algorithm>
#include <chrono>
#include <deque>

#include "base/log.h"
#include "engine/impl.h"
#include "engine/sampler.h"
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

/// Greedy decoding on the GPU: the argmax kernel writes the next id where the embedding reads it, so several steps are
/// submitted ahead and the CPU reads ids late, a batch at a time.
class GreedyStream {
 public:
  GreedyStream(Session::Impl& session, uint32_t most) : s_(session), position_(static_cast<uint32_t>(session.tokens.size())), most_(most) {}

  /// The next id; negative: no logit was a number. Errors: the GPU's.
  Result<int32_t> next() {
    if (s_.m().weights->bounded()) return next_streamed();
    if (ready_.empty()) {
      if (auto ok = fill(); !ok) return fail(ok.error());
      if (auto ok = collect(); !ok) return fail(ok.error());
    }
    const int32_t id = ready_.front();
    ready_.pop_front();
    return id;
  }

  /// Waits for what was submitted ahead and not used.
  Result<void> drain() {
    while (!flying_.empty())
      if (auto ok = collect(); !ok) return ok;
    return {};
  }

 private:
  struct Batch {
    gpu::Mapping mapping;
    gpu::Submission submission;
    uint32_t first = 0, count = 0;
  };

  /// Under a budget of weights nothing is submitted ahead: each step needs other weights, and the id that it begins with.
  Result<int32_t> next_streamed() {
    const uint32_t kv_length = position_ + launched_;
    const auto ok = launched_ == 0 ? s_.run({PlanKind::Greedy}, 1, kv_length) : s_.run({s_.decode_kind(kv_length), PlanKind::Greedy}, 1, kv_length);
    if (!ok) return fail(ok.error());
    ++launched_;
    int32_t ids[64];
    if (auto read = s_.m().device->read(*s_.history, 0, std::span<int32_t>(ids)); !read) return fail(read.error());
    return ids[(launched_ - 1) % 64];
  }

  Result<void> fill() {
    while (flying_.size() < 2 && launched_ < most_) {
      const uint32_t count = launched_ == 0 ? 1 : std::min(batch_, most_ - launched_);
      if (auto ok = launch(count); !ok) return ok;
    }
    return {};
  }

  /// Step 0 only chooses from the logits that the prompt left; each later step decodes the id before it, then chooses.
  Result<void> launch(uint32_t count) {
    auto& device = *s_.m().device;
    auto greedy = s_.plan(PlanKind::Greedy);
    if (!greedy) return fail(greedy.error());
    const auto turn = s_.m().weights->share();
    if (auto ok = ready_plan(*(*greedy)->plan); !ok) return ok;
    auto commands = device.begin();
    if (!commands) return fail(commands.error());
    for (uint32_t i = 0; i < count; ++i) {
      if (launched_ + i > 0) {
        const uint32_t kv_length = position_ + launched_ + i;
        auto decode = s_.plan(s_.decode_kind(kv_length));
        if (!decode) return fail(decode.error());
        if (auto ok = ready_plan(*(*decode)->plan); !ok) return ok;
        (*decode)->plan->replay(*commands, {1, 1, kernels::attention_splits(kv_length)}, 0, (*decode)->plan->segments());
      }
      (*greedy)->plan->replay(*commands, {1, 1, 1}, 0, (*greedy)->plan->segments());
    }
    auto staging = take_staging();
    if (!staging) return fail(staging.error());
    commands->copy(*s_.history, 0, **staging, 0, 256);
    s_.m().dispatches += commands->dispatches();
    auto submission = device.submit(std::move(*commands));
    if (!submission) return fail(submission.error());
    flying_.push_back({device.start_map(*staging, 256), *submission, launched_, count});
    launched_ += count;
    return {};
  }

  Result<void> ready_plan(dispatch::Plan& plan) {
    for (size_t i = 0; i < plan.segments(); ++i)
      if (auto ok = s_.m().weights->ensure(plan.residents(i)); !ok) return ok;
    return plan.prepare(0, plan.segments());
  }

  Result<gpu::BufferRef> take_staging() {
    if (!spare_.empty()) {
      auto buffer = std::move(spare_.back());
      spare_.pop_back();
      return buffer;
    }
    return s_.m().device->create_buffer(256, gpu::kMapRead | gpu::kCopyDst, gpu::Memory::Staging, "ids");
  }

  Result<void> collect() {
    Batch batch = std::move(flying_.front());
    flying_.pop_front();
    const auto start = Clock::now();
    uint32_t ids[64];
    if (auto ok = s_.m().device->finish_map(batch.mapping, batch.submission, std::as_writable_bytes(std::span(ids))); !ok) return ok;
    spare_.push_back(batch.mapping.buffer);
    for (uint32_t i = 0; i < batch.count; ++i) ready_.push_back(static_cast<int32_t>(ids[(batch.first + i) % 64]));
    // Fast devices read back in batches of about 10 ms; slow ones token by token, so that text flows.
    const double step = seconds_since(start) / batch.count;
    batch_ = std::clamp<uint32_t>(static_cast<uint32_t>(0.010 / std::max(step, 1e-5)), 1, 16);
    return {};
  }

  Session::Impl& s_;
  uint32_t position_, most_;
  uint32_t launched_ = 0, batch_ = 1;
  std::deque<Batch> flying_;
  std::deque<int32_t> ready_;
  std::vector<gpu::BufferRef> spare_;
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

Error no_logits() { return {ErrorKind::Device, "the model gave no usable logits (all are NaN)"}; }

bool cancelled(const GenerateOptions& options) { return options.cancel && *options.cancel; }

Result<void> generate_greedy(Session::Impl& s, uint32_t most, const GenerateOptions& options, Output& output) {
  GreedyStream stream(s, most);
  std::vector<int32_t> made;
  bool going = true;
  for (uint32_t i = 0; i < most && going; ++i) {
    if (cancelled(options)) { output.stop(StopReason::Cancelled); break; }
    auto id = stream.next();
    if (id && *id < 0) id = fail(no_logits());
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

Result<void> generate_sampled(Session::Impl& s, Sampler& sampler, Constraint* constraint, uint32_t most, const GenerateOptions& options, Output& output) {
  std::vector<float> logits, untouched;
  for (uint32_t i = 0; i < most; ++i) {
    if (cancelled(options)) return output.stop(StopReason::Cancelled), Result<void>{};
    if (auto ok = s.read_logits(logits); !ok) return ok;
    if (options.logprobs) untouched = logits;
    const int32_t id = constraint ? sampler.sample(logits, constraint->allowed()) : sampler.sample(logits);
    if (id < 0 && constraint) return fail(ErrorKind::Unsupported, "no token of this vocabulary continues what the grammar asks for");
    if (id < 0) return fail(no_logits());
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
  for (int32_t id : prompt) sampler.accept(id);
  const bool on_gpu = sampler.plain_greedy() && options.logprobs == 0 && !*constraint;
  auto made = on_gpu ? generate_greedy(s, most, options, output) : generate_sampled(s, sampler, constraint->get(), most, options, output);
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
