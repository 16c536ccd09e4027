// Loading: the file, the device, the tokenizer, the family; then every weight that the budget allows.
#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "engine/impl.h"
#include "engine/predict.h"
#include "kernels/tuning.h"

namespace gull {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Result<void> load_text(Model::Impl& model) {
  auto tokenizer = text::Tokenizer::from_gguf(*model.file);
  if (tokenizer) model.tokenizer = std::move(*tokenizer);
  else if (tokenizer.error().kind == ErrorKind::Unsupported) model.tokenizer_problem = tokenizer.error().message;
  else return fail(tokenizer.error());
  const std::string* source = model.file->get_string("tokenizer.chat_template");
  if (!source) return {};
  auto compiled = text::ChatTemplate::compile(*source);
  if (compiled) model.chat_template = std::move(*compiled);
  else log(LogLevel::Warning, "{}: the chat template cannot be used: {}", model.file->name(), compiled.error().message);
  return {};
}

Result<void> make_rope_tables(Model::Impl& model) {
  for (const model::RopeSpec& spec : model.family->config().ropes) {
    const std::vector<float> table = model::rope_table(spec, model.context);
    auto buffer = model.device->create_buffer(std::max<size_t>(table.size() * 4, 16), gpu::kStorage | gpu::kCopyDst,
                                              gpu::Memory::Parameters, "rotary table");
    if (!buffer) return fail(buffer.error());
    if (auto ok = model.device->write(**buffer, 0, std::span<const float>(table)); !ok) return ok;
    model.rope_tables.push_back(*buffer);
  }
  return {};
}

Result<void> choose_settings(Model::Impl& model) {
  const LoadOptions& options = model.options;
  const model::Config& config = model.family->config();
  if (options.context > config.context)
    log(LogLevel::Warning, "{}: --ctx {} is beyond the {} tokens that the model was trained for", model.file->name(), options.context, config.context);
  if (config.max_context && options.context > config.max_context)
    return fail_f(ErrorKind::InvalidArgument, "{}: --ctx {} is beyond the {} positions that the model has", model.file->name(), options.context, config.max_context);
  model.context = options.context ? options.context : std::min(config.context, 4096u);
  model.chunk = config.bidirectional ? model.context : std::min(model.context, 512u);
  const gpu::Caps& caps = model.device->caps();
  model.choices.precision = options.precision;
  model.choices.f16 = caps.f16 && options.precision == Precision::Fast;
  model.choices.subgroups = caps.subgroups;
  model.choices.packed_dot = caps.packed_dot && options.precision == Precision::Fast;
  model.choices.few_threads = caps.software;
  // Under a budget of weights steps are run one by one, and where memory is tight a submission must be short.
  const bool joined = options.joined == Joined::On || (options.joined == Joined::Auto && caps.chains);
  model.choices.chain = joined && model.choices.packed_dot && !options.gpu_budget && !options.memory_tight;
  if (options.tuning) {
    const Tuning wanted = options.tuning(model.device->info());
    model.choices.tuning = kernels::proven(caps, wanted);
    if (!(model.choices.tuning == wanted))
      log(LogLevel::Warning, "{}: shapes of kernels that gull does not offer for this device are ignored", model.device->info().name);
  }
  model.kv_type = options.kv_type != KvType::Auto ? options.kv_type : options.precision == Precision::F32 ? KvType::F32 : KvType::F16;
  return {};
}

/// Takes what a session will need for a moment, in buffers that this device allows: WebGPU tells no free memory, so it is
/// tried whether the GPU has it.
Result<std::vector<gpu::BufferRef>> try_room(gpu::Device& device, uint64_t bytes) {
  std::vector<gpu::BufferRef> held;
  const uint64_t most = std::min<uint64_t>(device.caps().max_buffer, 256u << 20);
  for (uint64_t left = bytes; left > 0;) {
    const uint64_t size = std::min(left, most);
    auto buffer = device.create_buffer(size, gpu::kStorage | gpu::kCopyDst, gpu::Memory::Staging, "room");
    if (!buffer) return fail(buffer.error());
    held.push_back(std::move(*buffer));
    left -= size;
  }
  return held;
}

/// Says no before anything is uploaded, when the figures do; else uploads all weights, unless they are to come and go.
Result<void> fit_and_upload(Model::Impl& model) {
  auto prediction = engine::predict(model, model.weights.get());
  if (!prediction) return fail(prediction.error());
  const LoadOptions& options = model.options;
  if (model.weights->bounded() && options.gpu_budget < prediction->smallest_budget)
    return fail_f(ErrorKind::OutOfMemory, "{}: --gpu-budget must be at least {} bytes ({}) for this model, it is {}", model.file->name(),
                  prediction->smallest_budget, human_bytes(prediction->smallest_budget), options.gpu_budget);
  if (options.gpu_memory && prediction->memory.total > options.gpu_memory)
    return fail(engine::too_large(model, *prediction, options.gpu_memory));
  const auto explain = [&](const Error& error) -> Result<void> {
    if (error.kind != ErrorKind::OutOfMemory) return fail(error);
    return fail(engine::too_large(model, *prediction, model.device->ledger().use().peak));
  };
  auto room = try_room(*model.device, prediction->memory.kv + prediction->memory.activations + (model.weights->bounded() ? options.gpu_budget : 0));
  if (!room) return explain(room.error());
  const auto make_way = [&] {
    for (const gpu::BufferRef& buffer : *room) buffer->destroy();
    room->clear();
  };
  if (model.weights->bounded()) return make_way(), Result<void>{};
  // The first report comes when all buffers are there, and nothing has been read yet.
  auto loaded = model.weights->load(prediction->tiles, [&](uint64_t done, uint64_t total) {
    make_way();
    if (options.progress) options.progress({"upload", done, total});
    return !(options.cancel && *options.cancel);
  });
  return loaded ? Result<void>{} : explain(loaded.error());
}

}  // namespace

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::shared_ptr<Model>> Model::load(const std::string& path, [[maybe_unused]] LoadOptions options) {
#if defined(__wasm__)
  return fail(ErrorKind::Unsupported, path + ": a browser has no paths; load a gguf::File");
#else
  auto file = gguf::File::open_path(path);
  if (!file) return fail(file.error());
  return load(std::move(*file), std::move(options));
#endif
}

Result<std::shared_ptr<Model>> Model::load(std::shared_ptr<gguf::File> file, LoadOptions options) {
  const auto start = Clock::now();
  auto impl = std::make_unique<Impl>();
  impl->file = std::move(file);
  impl->options = std::move(options);
  // What the file alone can tell comes first: a bad file must not need a GPU to be refused.
  auto family = model::make_family(impl->file);
  if (!family) return fail(family.error());
  impl->family = std::move(*family);
  if (auto ok = load_text(*impl); !ok) return fail(ok.error());
  auto device = gpu::Device::open(impl->options.device);
  if (!device) return fail(device.error());
  impl->device = std::move(*device);
  if (auto ok = choose_settings(*impl); !ok) return fail(ok.error());
  impl->pipelines = std::make_unique<dispatch::PipelineCache>(impl->device);
  impl->weights = std::make_unique<weights::WeightCache>(impl->device, impl->file, engine::weight_options(impl->options));
  if (auto ok = fit_and_upload(*impl); !ok) return fail(ok.error());
  if (auto ok = make_rope_tables(*impl); !ok) return fail(ok.error());
  impl->load_s = seconds_since(start);
  return std::shared_ptr<Model>(new Model(std::move(impl)));
}

Result<MemoryUse> predict_memory(std::shared_ptr<const gguf::File> file, const LoadOptions& options) {
  Model::Impl model;
  auto family = model::make_family(*file);
  if (!family) return fail(family.error());
  model.file = std::move(file);
  model.family = std::move(*family);
  model.options = options;
  model.device = gpu::Device::imaginary(engine::usual_caps());
  if (auto ok = choose_settings(model); !ok) return fail(ok.error());
  auto prediction = engine::predict(model);
  if (!prediction) return fail(prediction.error());
  return prediction->memory;
}

const text::TokenTrie& Model::Impl::token_trie() {
  Lock lock(trie_mutex);
  if (!trie) {
    std::vector<std::string> pieces(static_cast<size_t>(tokenizer->size()));
    for (size_t id = 0; id < pieces.size(); ++id) pieces[id] = tokenizer->piece(static_cast<int32_t>(id));
    trie = std::make_unique<text::TokenTrie>(pieces);
  }
  return *trie;
}

const gguf::File& Model::file() const { return *impl_->file; }
const DeviceInfo& Model::device() const { return impl_->device->info(); }
uint32_t Model::vocabulary() const { return impl_->family->config().vocabulary; }
uint32_t Model::context() const { return impl_->context; }
bool Model::is_embedding_model() const { return impl_->family->config().embedding; }
bool Model::has_chat_template() const { return impl_->chat_template != nullptr; }

Result<std::vector<int32_t>> Model::tokenize(std::string_view text, bool add_special, bool parse_special) const {
  if (!impl_->tokenizer) return fail(ErrorKind::Unsupported, impl_->tokenizer_problem);
  return impl_->tokenizer->encode(text, {add_special, parse_special});
}

std::string Model::detokenize(std::span<const int32_t> ids, bool special) const {
  return impl_->tokenizer ? impl_->tokenizer->decode(ids, special) : std::string();
}

bool Model::is_end_of_generation(int32_t id) const { return impl_->tokenizer && impl_->tokenizer->is_end_of_generation(id); }

Result<std::vector<int32_t>> Model::apply_chat_template(std::span<const Message> messages, bool add_generation_prompt,
                                                        std::string_view tools_json) const {
  const Impl& m = *impl_;
  if (!m.tokenizer) return fail(ErrorKind::Unsupported, m.tokenizer_problem);
  if (!m.chat_template) return fail_f(ErrorKind::Unsupported, "{}: no chat template: use --raw", m.file->name());
  text::TemplateInput input;
  for (const Message& message : messages) {
    if (message.json.empty()) {
      input.messages.push_back({{"role", message.role}, {"content", message.content}});
      continue;
    }
    auto parsed = text::Json::parse(message.json, nullptr, false);
    if (parsed.is_discarded()) return fail(ErrorKind::InvalidArgument, "a message is not valid JSON");
    input.messages.push_back(std::move(parsed));
  }
  if (!tools_json.empty()) {
    input.tools = text::Json::parse(tools_json, nullptr, false);
    if (input.tools.is_discarded()) return fail(ErrorKind::InvalidArgument, "the tools are not valid JSON");
  }
  input.add_generation_prompt = add_generation_prompt;
  const auto spell = [&](int32_t id) { return id >= 0 ? std::string(m.tokenizer->token_text(id)) : std::string(); };
  input.bos_token = spell(m.tokenizer->bos());
  input.eos_token = spell(m.tokenizer->eos());
  auto rendered = m.chat_template->render_spans(input);
  if (!rendered) return fail_f(rendered.error().kind, "{}: chat template: {}", m.file->name(), rendered.error().message);
  std::vector<text::Span> spans;
  for (const text::RenderedSpan& span : *rendered) spans.push_back({span.text, span.trusted});
  // Most templates write the BOS themselves; it must be neither doubled nor lost.
  auto ids = m.tokenizer->encode_spans(spans, m.tokenizer->add_bos());
  if (ids && ids->size() >= 2 && m.tokenizer->bos() >= 0 && (*ids)[0] == m.tokenizer->bos() && (*ids)[1] == m.tokenizer->bos())
    ids->erase(ids->begin());
  return ids;
}

Stats Model::stats() const {
  Stats s;
  const auto pipelines = impl_->pipelines->stats();
  const auto weights = impl_->weights->counters();
  s.pipeline_builds = pipelines.builds, s.pipeline_hits = pipelines.hits;
  s.dispatches = impl_->dispatches;
  s.submissions = impl_->device->submissions();
  s.weight_hits = weights.hits, s.weight_misses = weights.misses, s.weight_uploads = weights.uploads;
  s.weight_upload_bytes = weights.upload_bytes, s.weight_evictions = weights.evictions, s.weight_stalls = weights.stalls;
  s.memory = impl_->device->ledger().use();
  return s;
}

}  // namespace gull
