#include "engine/token_stream.h"

#include <algorithm>
#include <chrono>

#include "kernels/draw.h"
#include "kernels/ops.h"

namespace gull::engine {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool penalises(const SamplingOptions& o) {
  return o.repeat_last > 0 && (o.repeat_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0);
}

}  // namespace

std::optional<std::vector<PlanKind>> gpu_choice(const GenerateOptions& options, uint32_t vocabulary) {
  const SamplingOptions& o = options.sampling;
  if (options.logprobs || !options.grammar.empty() || !options.json_schema.empty()) return std::nullopt;
  if (o.dry_multiplier > 0 || o.mirostat_tau > 0) return std::nullopt;
  const bool greedy = o.temperature <= 0 || o.top_k == 1;
  if (!greedy && o.typical_p < 1) return std::nullopt;
  std::vector<PlanKind> plans;
  if (penalises(o) || !o.logit_bias.empty()) plans.push_back(PlanKind::Penalise);
  const bool counted = o.top_k > 0 && o.top_k < vocabulary;
  if (greedy) plans.push_back(PlanKind::Greedy);
  else if (o.top_k > 0 && o.top_k <= kernels::kMostTop) plans.push_back(PlanKind::DrawTop);
  else plans.push_back(counted || o.top_p < 1 ? PlanKind::DrawCut : PlanKind::DrawAll);
  return plans;
}

Result<void> prepare_choice(Session::Impl& session, const std::vector<PlanKind>& choice, const SamplingOptions& o, uint64_t seed,
                            std::span<const int32_t> prompt) {
  if (choice == std::vector{PlanKind::Greedy}) return {};
  for (PlanKind kind : choice)
    if (auto plan = session.plan(kind); !plan) return fail(plan.error());   // with it come the buffers
  gpu::Device& device = *session.m().device;
  const uint32_t vocabulary = session.m().family->config().vocabulary;
  kernels::DrawSettings settings;
  settings.seed[0] = static_cast<uint32_t>(seed), settings.seed[1] = static_cast<uint32_t>(seed >> 32);
  settings.top_k = o.top_k < vocabulary || o.top_k <= kernels::kMostTop ? o.top_k : 0;
  settings.top_p = o.top_p, settings.min_p = std::min(o.min_p, 1.0f), settings.temperature = o.temperature;
  if (penalises(o)) {
    settings.window = o.repeat_last;
    settings.repeat = o.repeat_penalty, settings.presence = o.presence_penalty, settings.frequency = o.frequency_penalty;
  }
  if (auto ok = device.write(*session.draw.settings, 0, std::span<const kernels::DrawSettings>(&settings, 1)); !ok) return ok;
  if (choice.front() != PlanKind::Penalise) return {};
  std::vector<kernels::TokenNote> notes(vocabulary);
  for (auto [id, bias] : o.logit_bias)
    if (id >= 0 && static_cast<uint32_t>(id) < vocabulary) notes[static_cast<size_t>(id)].bias += bias;
  for (int32_t id : prompt.last(std::min<size_t>(prompt.size(), settings.window))) ++notes[static_cast<size_t>(id)].count;
  if (auto ok = device.write(*session.draw.notes, 0, std::span<const kernels::TokenNote>(notes)); !ok) return ok;
  return device.write(*session.draw.said, 0, prompt);
}

Result<int32_t> TokenStream::next() {
  if (s_.m().weights->bounded()) return next_streamed();
  if (ready_.empty()) {
    if (auto ok = fill(); !ok) return fail(ok.error());
    if (auto ok = collect(); !ok) return fail(ok.error());
  }
  const int32_t id = ready_.front();
  ready_.pop_front();
  return id;
}

Result<void> TokenStream::drain() {
  while (!flying_.empty())
    if (auto ok = collect(); !ok) return ok;
  return {};
}

/// Under a budget of weights nothing is submitted ahead: each step needs other weights, and the id that it begins with.
Result<int32_t> TokenStream::next_streamed() {
  const uint32_t kv_length = position_ + launched_;
  std::vector<PlanKind> step = choice_;
  if (launched_ > 0) step.insert(step.begin(), s_.decode_kind(kv_length));
  if (auto ok = s_.run(step, 1, kv_length); !ok) return fail(ok.error());
  ++launched_;
  int32_t ids[64];
  if (auto read = s_.m().device->read(*s_.history, 0, std::span<int32_t>(ids)); !read) return fail(read.error());
  return ids[(launched_ - 1) % 64];
}

Result<void> TokenStream::fill() {
  while (flying_.size() < 2 && launched_ < most_) {
    const uint32_t count = launched_ == 0 ? 1 : std::min(batch_, most_ - launched_);
    if (auto ok = launch(count); !ok) return ok;
  }
  return {};
}

/// Step 0 only chooses from the logits that the prompt left; each later step decodes the id before it, then chooses.
Result<void> TokenStream::launch(uint32_t count) {
  Replay replay(s_.m());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t kv_length = position_ + launched_ + i;
    if (launched_ + i > 0)
      if (auto ok = add(replay, s_.decode_kind(kv_length), kv_length); !ok) return ok;
    for (PlanKind kind : choice_)
      if (auto ok = add(replay, kind, kv_length); !ok) return ok;
  }
  auto staging = take_staging();
  if (!staging) return fail(staging.error());
  if (auto ok = replay.copy(*s_.history, **staging, 256); !ok) return ok;
  auto submission = replay.submit();
  if (!submission) return fail(submission.error());
  flying_.push_back({s_.m().device->start_map(*staging, 256), *submission, launched_, count});
  launched_ += count;
  return {};
}

Result<void> TokenStream::add(Replay& replay, PlanKind kind, uint32_t kv_length) {
  auto recorded = s_.plan(kind);
  if (!recorded) return fail(recorded.error());
  return replay.add(*(*recorded)->plan, {1, 1, kernels::attention_splits(kv_length)});
}

Result<gpu::BufferRef> TokenStream::take_staging() {
  if (!spare_.empty()) {
    auto buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  return s_.m().device->create_buffer(256, gpu::kMapRead | gpu::kCopyDst, gpu::Memory::Staging, "ids");
}

Result<void> TokenStream::collect() {
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

}  // namespace gull::engine
