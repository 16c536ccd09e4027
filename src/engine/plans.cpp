// A session's memory and Plans.
#include <algorithm>

#include "base/log.h"
#include "dispatch/chain.h"
#include "engine/impl.h"

namespace gull {

using engine::PlanKind;
using engine::Recorded;

namespace {

constexpr uint32_t kStateBytes = 16;
constexpr uint64_t kTightTile = 8u << 20;

Result<gpu::BufferRef> zeroed(gpu::Device& device, uint64_t bytes, gpu::Memory kind, const char* label, uint32_t extra = 0) {
  return device.create_buffer(bytes, gpu::kStorage | gpu::kCopyDst | gpu::kCopySrc | extra, kind, label);
}

}  // namespace

namespace engine {

weights::Options weight_options(const LoadOptions& options) {
  return {options.gpu_budget, options.memory_tight ? kTightTile : 0, options.memory_tight};
}

Replay::Replay(Model::Impl& model) : model_(model), turn_(model.weights->share()) {}

Result<gpu::Commands*> Replay::commands() {
  if (!commands_) {
    auto begun = model_.device->begin();
    if (!begun) return fail(begun.error());
    commands_.emplace(std::move(*begun));
  }
  return &*commands_;
}

Result<void> Replay::add(dispatch::Plan& plan, const dispatch::Vars& vars) {
  for (size_t s = 0; s < plan.segments(); ++s)
    if (auto ok = model_.weights->ensure(plan.residents(s)); !ok) return ok;
  if (auto ok = plan.prepare(0, plan.segments()); !ok) return ok;
  const size_t at_once = model_.options.memory_tight ? 1 : plan.segments();
  for (size_t s = 0; s < plan.segments(); s += at_once) {
    auto to = commands();
    if (!to) return fail(to.error());
    plan.replay(**to, vars, s, s + at_once);
    if (!model_.options.memory_tight) continue;
    if (auto ok = submit(); !ok) return fail(ok.error());
  }
  return {};
}

Result<void> Replay::copy(const gpu::Buffer& from, const gpu::Buffer& to, uint64_t bytes) {
  auto encoder = commands();
  if (!encoder) return fail(encoder.error());
  (*encoder)->copy(from, 0, to, 0, bytes);
  return {};
}

Result<gpu::Submission> Replay::submit() {
  auto encoded = commands();
  if (!encoded) return fail(encoded.error());
  model_.dispatches += (*encoded)->dispatches();
  auto submission = model_.device->submit(std::move(**encoded));
  commands_.reset();
  return submission;
}

}  // namespace engine

Result<void> Session::Impl::allocate() {
  Model::Impl& model = m();
  const model::Config& config = model.family->config();
  gpu::Device& device = *model.device;
  arena = std::make_unique<kernels::Arena>(model.device, model.chunk);
  const auto make = [&](gpu::BufferRef& out, uint64_t bytes, gpu::Memory kind, const char* label, uint32_t extra = 0) -> Result<void> {
    auto buffer = zeroed(device, bytes, kind, label, extra);
    if (!buffer) return fail(buffer.error());
    out = *buffer;
    return {};
  };
  if (auto ok = make(ids, uint64_t{4} * model.chunk, gpu::Memory::Activations, "token ids"); !ok) return ok;
  if (auto ok = make(state, kStateBytes, gpu::Memory::Parameters, "state", gpu::kUniform); !ok) return ok;
  if (auto ok = make(history, 256, gpu::Memory::Activations, "history"); !ok) return ok;
  if (!config.embedding)
    if (auto ok = make(logits, uint64_t{4} * ((config.vocabulary + 31) & ~31u), gpu::Memory::Activations, "logits"); !ok) return ok;
  inputs.ids = ids;
  inputs.rope_tables = model.rope_tables;
  for (uint32_t l = 0; l < config.layers; ++l) {
    const model::LayerKv& kv = config.kv[l];
    kernels::KvLayer layer{nullptr, nullptr, model.kv_type, kv.heads, kv.head_dim};
    if (kv.shares >= 0) {
      layer = inputs.kv[kv.shares];
    } else if (kv.heads) {
      const uint64_t row = kernels::kv_row_bytes(model.kv_type, kv.heads, kv.head_dim);
      if (auto ok = make(layer.k, row * model.context, gpu::Memory::Kv, "KV cache"); !ok) return ok;
      layer.v = layer.k;
      if (!kv.keys_only)
        if (auto ok = make(layer.v, row * model.context, gpu::Memory::Kv, "KV cache"); !ok) return ok;
    }
    inputs.kv.push_back(layer);
  }
  for (const model::StateSpec& spec : config.states) {
    gpu::BufferRef buffer;
    if (auto ok = make(buffer, spec.floats * 4, gpu::Memory::Kv, spec.name.c_str()); !ok) return ok;
    states.push_back(buffer);
  }
  inputs.states = states;
  const uint64_t row = uint64_t{4} * ((std::max(config.vocabulary, 1u) + 31) & ~31u);
  const uint64_t most = std::min(device.caps().max_binding, uint64_t{128} << 20);
  head_rows = static_cast<uint32_t>(std::clamp<uint64_t>(most / row, 1, model.chunk));
  return {};
}

Result<Recorded*> Session::Impl::plan(PlanKind kind) {
  if (auto it = plans.find(kind); it != plans.end()) return &it->second;
  const bool decode = kind == PlanKind::Decode || kind == PlanKind::DecodeShort;
  auto recorded = record(kind, decode && m().choices.chain);
  if (recorded && !recorded->plan) recorded = record(kind, false);
  if (!recorded) return fail(recorded.error());
  recorded->attached = weights::Attached(*m().weights, *recorded->plan);
  return &plans.emplace(kind, std::move(*recorded)).first->second;
}

Result<Recorded> Session::Impl::record(PlanKind kind, bool chain) {
  Model::Impl& model = m();
  const model::Config& config = model.family->config();
  Recorded recorded;
  recorded.plan = std::make_unique<dispatch::Plan>(model.device);
  kernels::Recorder r{*model.pipelines, *model.weights, *recorded.plan, *arena, state, 1, model.choices, {}};
  r.choices.chain = chain;
  const kernels::Rows last{logits, config.vocabulary, config.vocabulary, 0};
  switch (kind) {
    case PlanKind::Prefill:
    case PlanKind::PrefillFew:
      r.max_tokens = kind == PlanKind::Prefill ? model.chunk : std::min(model.chunk, kernels::kFewTokens);
      recorded.hidden = model.family->body(r, inputs);
      break;
    case PlanKind::HeadLast: {
      const kernels::Rows x = r.rows("last", config.hidden);
      kernels::last_row(r, r.rows("x", config.hidden), x);
      model.family->head(r, x, last);
      break;
    }
    case PlanKind::HeadAll:
    case PlanKind::HeadAllFew: {
      r.max_tokens = std::max(kind == PlanKind::HeadAll ? head_rows : std::min(head_rows, kernels::kFewTokens), 2u);
      const uint32_t stride = (config.vocabulary + 31) & ~31u;
      logits_all = r.take(arena->raw("logits of all", uint64_t{4} * stride * head_rows));   // head_rows, not the chunk: what one binding holds
      if (r.failed()) break;
      const kernels::Rows all{logits_all, config.vocabulary, stride, 0};
      const kernels::Rows x = r.rows("x", config.hidden);
      model.family->head(r, x, all);
      break;
    }
    case PlanKind::Decode:
    case PlanKind::DecodeShort: {
      r.short_context = kind == PlanKind::DecodeShort;
      const kernels::Rows x = model.family->body(r, inputs);
      model.family->head(r, x, last);
      break;
    }
    case PlanKind::Greedy:
      kernels::argmax(r, last, ids, history);
      break;
    case PlanKind::Penalise:
      draw.settings = r.take(arena->raw("draw settings", sizeof(kernels::DrawSettings)));
      draw.notes = r.take(arena->raw("draw notes", sizeof(kernels::TokenNote) * uint64_t{config.vocabulary}));
      draw.said = r.take(arena->raw("draw said", uint64_t{4} * model.context));
      draw.ids = ids;
      kernels::penalise(r, last, draw);
      break;
    case PlanKind::DrawTop:
    case PlanKind::DrawCut:
    case PlanKind::DrawAll:
      draw.settings = r.take(arena->raw("draw settings", sizeof(kernels::DrawSettings)));
      draw.ids = ids, draw.history = history;
      if (kind == PlanKind::DrawTop) kernels::draw_top(r, last, draw);
      else kernels::draw_any(r, last, draw, kind == PlanKind::DrawCut);
      break;
    case PlanKind::EmbedAll: {
      r.max_tokens = model.chunk;
      model.family->embedding_head(r, r.rows("x", config.hidden), r.rows("embeddings", config.hidden));
      break;
    }
  }
  if (r.failed()) return fail(*r.error);
  if (!chain) return recorded;
  auto joined = dispatch::chained(*recorded.plan, *model.pipelines, r.handed.most, [&](uint64_t bytes) {
    return arena->raw(kind == PlanKind::Decode ? "chain areas" : "chain areas, short", bytes);
  });
  if (!joined) return fail(joined.error());
  recorded.plan = std::move(*joined);
  return recorded;
}

PlanKind Session::Impl::decode_kind(uint32_t kv_length) const {
  return kv_length <= kernels::short_context(m().device->caps(), m().choices) ? PlanKind::DecodeShort : PlanKind::Decode;
}

Result<void> Session::Impl::write_state(uint32_t position, uint32_t count) {
  const uint32_t values[4] = {position, count, position + count, 0};
  return m().device->write(*state, 0, std::span<const uint32_t>(values));
}

Result<void> Session::Impl::run(std::span<const PlanKind> kinds, uint32_t count, uint32_t kv_length) {
  Model::Impl& model = m();
  const dispatch::Vars vars{1, count, kernels::attention_splits(kv_length)};
  if (model.weights->bounded()) {
    std::vector<weights::Stage> stages;
    for (PlanKind kind : kinds) {
      auto recorded = plan(kind);
      if (!recorded) return fail(recorded.error());
      stages.push_back({(*recorded)->plan.get(), vars});
    }
    auto dispatches = model.weights->run(stages);
    if (!dispatches) return fail(dispatches.error());
    model.dispatches += *dispatches;
    return {};
  }
  engine::Replay replay(model);
  for (PlanKind kind : kinds) {
    auto recorded = plan(kind);
    if (!recorded) return fail(recorded.error());
    if (auto ok = replay.add(*(*recorded)->plan, vars); !ok) return ok;
  }
  if (auto ok = replay.submit(); !ok) return fail(ok.error());
  return {};
}

Result<void> Session::Impl::clear_states() {
  for (const gpu::BufferRef& buffer : states) {
    const std::vector<std::byte> zeros(buffer->size());
    if (auto ok = m().device->write(*buffer, 0, std::span<const std::byte>(zeros)); !ok) return ok;
  }
  return {};
}

Result<void> Session::Impl::feed(std::span<const int32_t> input, bool head, const CancelFlag* cancel) {
  Model::Impl& model = m();
  const uint32_t vocabulary = model.family->config().vocabulary;
  for (int32_t id : input)
    if (id < 0 || static_cast<uint32_t>(id) >= vocabulary)
      return fail_f(ErrorKind::InvalidArgument, "token id {} is outside the vocabulary of {}", id, vocabulary);
  if (tokens.size() + input.size() > model.context)
    return fail_f(ErrorKind::InvalidArgument, "{} tokens do not fit the context of {}: shorten the prompt or raise --ctx",
                  tokens.size() + input.size(), model.context);
  for (size_t at = 0; at < input.size();) {
    if (cancel && *cancel) return fail(ErrorKind::Cancelled, "cancelled");
    const auto count = static_cast<uint32_t>(std::min<size_t>(input.size() - at, model.chunk));
    const auto position = static_cast<uint32_t>(tokens.size());
    poisoned = true;   // until the step is known to have been submitted whole
    if (auto ok = write_state(position, count); !ok) return ok;
    if (auto ok = model.device->write(*ids, 0, input.subspan(at, count)); !ok) return ok;
    const bool last = at + count == input.size();
    Result<void> ok;
    if (count == 1 && last && head) ok = run({decode_kind(position + 1)}, 1, position + 1);
    else if (last && head) ok = run({prefill_kind(count), PlanKind::HeadLast}, count, position + count);
    else ok = run({prefill_kind(count)}, count, position + count);
    if (!ok) return ok;
    poisoned = false;
    tokens.insert(tokens.end(), input.begin() + at, input.begin() + at + count);
    at += count;
  }
  return {};
}

Result<void> Session::Impl::read_logits(std::vector<float>& out) {
  out.resize(m().family->config().vocabulary);
  return m().device->read(*logits, 0, std::span<float>(out));
}

}  // namespace gull
