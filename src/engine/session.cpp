// A conversation: the KV cache and what is in it.
#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "engine/impl.h"

namespace gull {

using engine::PlanKind;

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<Model> model) {
  auto impl = std::make_unique<Impl>();
  impl->model = std::move(model);
  impl->owner = &impl->model->impl();
  if (auto ok = impl->allocate(); !ok) return fail(ok.error());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

uint32_t Session::position() const { return static_cast<uint32_t>(impl_->tokens.size()); }

void Session::reset() {
  impl_->tokens.clear();
  // States are overwritten at position 0 by the next feed; a failure here is met again there.
  (void)impl_->clear_states();
  impl_->poisoned = false;
}

Result<void> Session::truncate(uint32_t n) {
  if (n >= impl_->tokens.size()) return {};
  if (impl_->m().family->config().recurrent || n == 0) {
    reset();
    return {};
  }
  impl_->tokens.resize(n);
  return {};
}

Result<void> Session::Impl::restore() {
  if (!poisoned) return {};
  const std::vector<int32_t> kept = std::exchange(tokens, {});
  if (auto ok = clear_states(); !ok) return ok;
  poisoned = false;
  return kept.empty() ? Result<void>{} : feed(kept, false, nullptr);
}

Result<std::vector<float>> Session::logits(std::span<const int32_t> ids, bool all) {
  Impl& s = *impl_;
  const uint32_t vocabulary = s.m().family->config().vocabulary;
  if (s.m().family->config().embedding) return fail(ErrorKind::Unsupported, "an embedding model has no logits: use embed");
  if (ids.empty()) return fail(ErrorKind::InvalidArgument, "no token ids given");
  if (auto ok = s.restore(); !ok) return fail(ok.error());
  std::vector<float> out;
  if (!all) {
    if (auto ok = s.feed(ids, true, nullptr); !ok) return fail(ok.error());
    if (auto ok = s.read_logits(out); !ok) return fail(ok.error());
    return out;
  }
  out.resize(ids.size() * size_t{vocabulary});
  const uint32_t stride = (vocabulary + 31) & ~31u;
  std::vector<float> row(size_t{stride} * s.head_rows);
  for (size_t at = 0; at < ids.size(); at += s.head_rows) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(s.head_rows, ids.size() - at));
    const auto position = static_cast<uint32_t>(s.tokens.size());
    if (auto ok = s.feed(ids.subspan(at, count), false, nullptr); !ok) return fail(ok.error());
    if (auto ok = s.write_state(position, count); !ok) return fail(ok.error());
    if (auto ok = s.run({count <= kernels::kFewTokens ? PlanKind::HeadAllFew : PlanKind::HeadAll}, count, position + count); !ok) return fail(ok.error());
    if (auto ok = s.m().device->read(*s.logits_all, 0, std::span<float>(row.data(), size_t{stride} * count)); !ok) return fail(ok.error());
    for (uint32_t i = 0; i < count; ++i)
      std::copy_n(row.data() + size_t{i} * stride, vocabulary, out.data() + (at + i) * vocabulary);
  }
  return out;
}

namespace {

enum class Pooling { None = 0, Mean = 1, Cls = 2, Last = 3 };

/// One vector out of [n, width], as the metadata's pooling type says.
std::vector<float> pool(const std::vector<float>& rows, uint32_t n, uint32_t width, Pooling pooling) {
  std::vector<float> out(width);
  const uint32_t pick = pooling == Pooling::Cls ? 0 : n - 1;
  for (uint32_t i = 0; i < width; ++i) {
    double sum = 0;
    for (uint32_t t = 0; t < n; ++t) sum += rows[size_t{t} * width + i];
    out[i] = pooling == Pooling::Mean ? static_cast<float>(sum / n) : rows[size_t{pick} * width + i];
  }
  return out;
}

}  // namespace

Result<std::vector<KernelTime>> Session::profile(uint32_t tokens) {
  Impl& s = *impl_;
  Model::Impl& model = s.m();
  if (model.weights->bounded()) return fail(ErrorKind::Unsupported, "a step cannot be timed under a budget of weights: leave --gpu-budget out");
  const auto position = static_cast<uint32_t>(s.tokens.size());
  if (position >= model.context) return fail(ErrorKind::InvalidArgument, "the context is full: reset the session before timing a step");
  tokens = std::clamp(tokens, 1u, std::min(model.chunk, model.context - position));
  const std::vector<int32_t> ids(tokens, 0);
  if (auto ok = s.write_state(position, tokens); !ok) return fail(ok.error());
  if (auto ok = model.device->write(*s.ids, 0, std::span<const int32_t>(ids)); !ok) return fail(ok.error());
  auto recorded = s.plan(tokens == 1 ? s.decode_kind(position + 1) : s.prefill_kind(tokens));
  if (!recorded) return fail(recorded.error());
  dispatch::Plan& plan = *(*recorded)->plan;
  for (size_t i = 0; i < plan.segments(); ++i)
    if (auto ok = model.weights->ensure(plan.residents(i)); !ok) return fail(ok.error());
  if (auto ok = plan.prepare(0, plan.segments()); !ok) return fail(ok.error());
  auto profiler = gpu::Profiler::create(*model.device, static_cast<uint32_t>(plan.steps()));
  if (!profiler) return fail(profiler.error());
  auto commands = model.device->begin();
  if (!commands) return fail(commands.error());
  (*profiler)->attach(*commands);
  plan.replay(*commands, {1, tokens, kernels::attention_splits(position + tokens)}, 0, plan.segments());
  (*profiler)->resolve(*commands);
  if (auto ok = model.device->submit(std::move(*commands)); !ok) return fail(ok.error());
  auto times = (*profiler)->collect();
  if (!times) return fail(times.error());
  s.poisoned = true;   // the cache now holds a token that nobody asked for
  const auto costs = plan.costs();
  std::vector<KernelTime> out;
  for (size_t i = 0; i < times->size() && i < costs.size(); ++i) {
    auto it = std::find_if(out.begin(), out.end(), [&](const KernelTime& k) { return k.label == (*times)[i].label; });
    if (it == out.end()) it = out.insert(out.end(), KernelTime{.label = (*times)[i].label});
    ++it->dispatches;
    it->seconds += static_cast<double>((*times)[i].nanoseconds) * 1e-9;
    const double share = static_cast<double>(costs[i].per_token) / costs[i].parts;
    it->bytes += static_cast<uint64_t>(static_cast<double>(costs[i].bytes) * std::min(1.0, share * tokens));
    it->operations += static_cast<uint64_t>(2.0 * static_cast<double>(costs[i].elements) * share * tokens);
  }
  std::sort(out.begin(), out.end(), [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return out;
}

Result<std::vector<float>> Session::embed(std::span<const int32_t> ids, bool pooled, bool normalize) {
  Impl& s = *impl_;
  const model::Config& config = s.m().family->config();
  if (!config.embedding) return fail(ErrorKind::Unsupported, "this model generates text; it is no embedding model");
  if (ids.empty()) return fail(ErrorKind::InvalidArgument, "nothing to embed: the text is empty");
  if (config.bidirectional && ids.size() > s.m().chunk)
    return fail_f(ErrorKind::InvalidArgument, "{} tokens are more than the {} that one embedding can take: raise --ctx", ids.size(), s.m().chunk);
  reset();
  const auto n = static_cast<uint32_t>(ids.size());
  const uint32_t stride = (config.hidden + 31) & ~31u;
  auto buffer = s.arena->rows("embeddings", config.hidden);
  if (!buffer) return fail(buffer.error());
  std::vector<float> raw(size_t{stride} * std::min(n, s.m().chunk)), rows(size_t{config.hidden} * n);
  for (uint32_t at = 0; at < n;) {
    const uint32_t count = std::min(n - at, s.m().chunk);
    if (auto ok = s.feed(ids.subspan(at, count), false, nullptr); !ok) return fail(ok.error());
    if (auto ok = s.write_state(at, count); !ok) return fail(ok.error());
    if (auto ok = s.run({PlanKind::EmbedAll}, count, at + count); !ok) return fail(ok.error());
    if (auto ok = s.m().device->read(*buffer->buffer, 0, std::span<float>(raw.data(), size_t{stride} * count)); !ok) return fail(ok.error());
    for (uint32_t t = 0; t < count; ++t)
      std::copy_n(raw.data() + size_t{t} * stride, config.hidden, rows.data() + size_t{at + t} * config.hidden);
    at += count;
  }
  if (pooled) {
    const auto type = s.m().file->get_uint(config.arch + ".pooling_type").value_or(1);
    if (type > 3) return fail_f(ErrorKind::Unsupported, "pooling type {} is unknown to gull", type);
    if (type != 0) rows = pool(rows, n, config.hidden, static_cast<Pooling>(type));
  }
  if (normalize)
    for (size_t at = 0; at < rows.size(); at += config.hidden) {
      double sum = 0;
      for (uint32_t i = 0; i < config.hidden; ++i) sum += double{rows[at + i]} * rows[at + i];
      const double scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
      for (uint32_t i = 0; i < config.hidden; ++i) rows[at + i] = static_cast<float>(rows[at + i] * scale);
    }
  return rows;
}

}  // namespace gull
