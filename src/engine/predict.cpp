#include "engine/predict.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "kernels/ops.h"

namespace gull::engine {
namespace {

constexpr uint32_t kLeastContext = 256;   // a context below this is not worth advice

/// Bytes of keys and values that a token adds.
uint64_t kv_per_token(const model::Config& config, KvType type) {
  uint64_t bytes = 0;
  for (const model::LayerKv& kv : config.kv)
    if (kv.shares < 0) bytes += (kv.keys_only ? 1 : 2) * kernels::kv_row_bytes(type, kv.heads, kv.head_dim);
  return bytes;
}

/// Bytes of a position in the largest cache.
uint64_t largest_row(const model::Config& config, KvType type) {
  uint64_t row = 0;
  for (const model::LayerKv& kv : config.kv) row = std::max(row, kernels::kv_row_bytes(type, kv.heads, kv.head_dim));
  return row;
}

bool all_hold(const model::Config& config, KvType type) {
  return std::all_of(config.kv.begin(), config.kv.end(), [&](const model::LayerKv& kv) { return kv.heads == 0 || kernels::kv_holds(type, kv.head_dim); });
}

/// The next smaller way of storing the cache that this model's heads allow, as an option; nothing below 8 bits, which costs
/// quality.
std::optional<std::pair<KvType, const char*>> smaller_kv(const Model::Impl& model) {
  if (model.kv_type == KvType::F32) return std::pair(KvType::F16, "--kv f16");
  if (model.kv_type == KvType::F16 && all_hold(model.family->config(), KvType::Q8_0)) return std::pair(KvType::Q8_0, "--kv q8_0");
  return std::nullopt;
}

/// The cache of one layer is bound whole, and its heads fit its blocks.
Result<void> check_kv(const Model::Impl& model) {
  const model::Config& config = model.family->config();
  if (!all_hold(config, model.kv_type))
    return fail_f(ErrorKind::Unsupported, "{}: a KV cache in blocks of 32 needs attention heads of a multiple of 32 dimensions: use --kv f16",
                  model.file->name());
  const uint64_t most = std::min(model.device->caps().max_binding, model.device->caps().max_buffer);
  const uint64_t row = largest_row(config, model.kv_type), bytes = row * model.context;
  if (bytes <= most) return {};
  const auto smaller = smaller_kv(model);
  const std::string also = smaller && largest_row(config, smaller->first) * model.context <= most ? fmt::format(" or {}", smaller->second) : "";
  return fail_f(ErrorKind::OutOfMemory, "{}: the KV cache of a layer takes {} for {} tokens, this device binds at most {}: --ctx {}{} would fit",
                model.file->name(), human_bytes(bytes), model.context, human_bytes(most), most / row, also);
}

/// A copy of the model on a device that only counts.
std::unique_ptr<Model::Impl> imagine(const Model::Impl& model) {
  auto copy = std::make_unique<Model::Impl>();
  copy->file = model.file;
  copy->family = model.family;
  copy->options = model.options;
  copy->choices = model.choices;
  copy->kv_type = model.kv_type;
  copy->context = model.context;
  copy->chunk = model.chunk;
  copy->device = gpu::Device::imaginary(model.device->caps());
  copy->pipelines = std::make_unique<dispatch::PipelineCache>(copy->device);
  copy->weights = std::make_unique<weights::WeightCache>(copy->device, copy->file, engine::weight_options(model.options));
  return copy;
}

Result<void> check_bindings(const Model::Impl& model, const dispatch::Plan& plan) {
  const uint64_t most = model.device->caps().max_binding;
  for (size_t i = 0; i < plan.steps(); ++i)
    for (const dispatch::Operand& operand : plan.step(i).operands) {
      if (!operand.fixed.buffer) continue;
      const uint64_t bytes = operand.fixed.size ? operand.fixed.size : operand.fixed.buffer->size() - operand.fixed.offset;
      if (bytes > most)
        return fail_f(ErrorKind::OutOfMemory, "{}: {} works on {} at once, this device binds at most {}: a smaller --ctx would fit",
                      model.file->name(), plan.step(i).pipeline->label(), human_bytes(bytes), human_bytes(most));
    }
  return {};
}

/// The bytes of tables and read-backs, which a session does not allocate itself.
Result<void> add_the_rest(Model::Impl& model, MemoryUse& use) {
  for (const model::RopeSpec& spec : model.family->config().ropes)
    use.parameters += std::max<uint64_t>(uint64_t{4} * model.context * spec.dims, 16);
  const model::Config& config = model.family->config();
  use.staging += uint64_t{4} * (config.embedding ? config.hidden : config.vocabulary);
  return {};
}

}  // namespace

Result<Prediction> predict(const Model::Impl& model, weights::WeightCache* cache) {
  if (auto ok = check_kv(model); !ok) return fail(ok.error());
  const auto imagined = imagine(model);
  const model::Config& config = imagined->family->config();
  Session::Impl session;
  session.owner = imagined.get();
  imagined->rope_tables.resize(config.ropes.size());
  for (auto& table : imagined->rope_tables) {
    auto buffer = imagined->device->create_buffer(16, gpu::kStorage, gpu::Memory::Staging, "rotary table");
    if (!buffer) return fail(buffer.error());
    table = *buffer;
  }
  if (auto ok = session.allocate(); !ok) return fail(ok.error());
  auto kinds = config.embedding ? std::vector<PlanKind>{PlanKind::Prefill, PlanKind::PrefillFew, PlanKind::EmbedAll}
                                : std::vector<PlanKind>{PlanKind::Prefill, PlanKind::PrefillFew, PlanKind::HeadLast, PlanKind::DecodeShort, PlanKind::Greedy, PlanKind::DrawTop};
  if (!config.embedding && session.decode_kind(model.context) == PlanKind::Decode) kinds.push_back(PlanKind::Decode);
  std::vector<dispatch::Plan*> plans;
  std::set<const weights::Tile*> used;
  for (PlanKind kind : kinds) {
    auto recorded = session.plan(kind);
    if (!recorded) return fail(recorded.error());
    dispatch::Plan& plan = *(*recorded)->plan;
    if (auto ok = check_bindings(model, plan); !ok) return fail(ok.error());
    plans.push_back(&plan);
    for (size_t s = 0; s < plan.segments(); ++s)
      for (const auto& resident : plan.residents(s)) used.insert(static_cast<const weights::Tile*>(resident.get()));
  }
  Prediction out;
  out.memory = imagined->device->ledger().use();
  out.memory.staging = 0;   // what stood for the tables
  if (auto ok = add_the_rest(*imagined, out.memory); !ok) return fail(ok.error());
  std::set<std::string> names;
  for (const weights::Tile* tile : used) out.all_weights += tile->bytes, names.insert(tile->tensor->name);
  out.smallest_budget = imagined->weights->smallest_budget(plans);
  out.memory.weights = imagined->weights->bounded() ? std::min(out.all_weights, model.options.gpu_budget) : out.all_weights;
  out.memory.total = out.memory.weights + out.memory.kv + out.memory.activations + out.memory.parameters + out.memory.staging;
  out.memory.peak = out.memory.total;
  out.kv_per_token = kv_per_token(config, model.kv_type);
  if (!cache) return out;
  for (const gguf::TensorInfo& info : model.file->tensors()) {
    if (!names.contains(info.name)) continue;
    auto tensor = cache->tensor(info.name);
    if (!tensor) return fail(tensor.error());
    out.tiles.insert(out.tiles.end(), (*tensor)->tiles.begin(), (*tensor)->tiles.end());
  }
  return out;
}

gpu::Caps usual_caps() {
  gpu::Caps caps;
  caps.f16 = caps.subgroups = caps.linear_subgroups = caps.packed_dot = caps.naga = true;
  caps.subgroup_min = caps.subgroup_max = 32;
  caps.max_buffer = caps.max_binding = uint64_t{4} << 30;
  caps.max_uniform = 65536;
  caps.max_workgroup_memory = 32768;
  caps.max_invocations = caps.max_workgroup_x = 1024;
  return caps;
}

std::string figures(const Model::Impl& model, const Prediction& p) {
  return fmt::format("{} on the GPU: weights {}, KV cache {} for {} tokens, activations {}, other {}", human_bytes(p.memory.total),
                     human_bytes(p.memory.weights), human_bytes(p.memory.kv), model.context, human_bytes(p.memory.activations),
                     human_bytes(p.memory.parameters + p.memory.staging));
}

Error too_large(const Model::Impl& model, const Prediction& p, uint64_t room) {
  std::vector<std::string> advice;
  const uint64_t rest = p.memory.total - p.memory.weights;
  // How small a budget can be depends on how the weights are cut under one.
  Model::Impl least;
  least.file = model.file, least.family = model.family, least.options = model.options, least.choices = model.choices;
  least.kv_type = model.kv_type, least.context = model.context, least.chunk = model.chunk, least.device = model.device;
  least.options.gpu_budget = 1;
  const auto bounded = predict(least);
  const uint64_t smallest = bounded ? bounded->smallest_budget : p.smallest_budget;
  if (room > rest && room - rest >= smallest) advice.push_back(fmt::format("--gpu-budget {}", room - rest));
  const uint64_t without_kv = p.memory.total - p.kv_per_token * model.context;
  const uint64_t tokens = p.kv_per_token && room > without_kv ? (room - without_kv) / p.kv_per_token : 0;
  if (tokens >= kLeastContext) advice.push_back(fmt::format("--ctx {}", tokens));
  if (const auto smaller = smaller_kv(model);
      smaller && without_kv + kv_per_token(model.family->config(), smaller->first) * model.context <= room)
    advice.push_back(smaller->second);
  std::string text = fmt::format("{}: needs {}; there is room for {}", model.file->name(), figures(model, p), human_bytes(room));
  if (advice.empty()) {
    text += fmt::format(": not even the smallest budget of weights ({}) would fit", human_bytes(smallest));
  } else {
    text += ": ";
    for (size_t i = 0; i < advice.size(); ++i) text += (i == 0 ? "" : i + 1 == advice.size() ? " or " : ", ") + advice[i];
    text += " would fit";
  }
  return {ErrorKind::OutOfMemory, std::move(text)};
}

}  // namespace gull::engine
