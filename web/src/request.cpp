#include "request.h"

#include "base/log.h"

namespace gull::web {

const Json& member(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

std::string text_of(const Json& object, const char* key, std::string fallback) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::move(fallback);
}

double number_of(const Json& object, const char* key, double fallback) {
  const Json& value = member(object, key);
  return value.is_number() ? value.get<double>() : fallback;
}

bool flag_of(const Json& object, const char* key, bool fallback) {
  const Json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : fallback;
}

std::vector<int32_t> ids_of(const Json& object, const char* key) {
  std::vector<int32_t> ids;
  const Json& list = member(object, key);
  if (!list.is_array()) return ids;
  for (const Json& id : list)
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  return ids;
}

namespace {

uint64_t count_of(const Json& object, const char* key, uint64_t fallback) {
  const double value = number_of(object, key, static_cast<double>(fallback));
  return value >= 0 && value < 9e15 ? static_cast<uint64_t>(value) : fallback;
}

/// A number of bytes, or text such as "2GiB".
Result<uint64_t> bytes_of(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? parse_bytes(value.get<std::string>()) : Result<uint64_t>(count_of(object, key, 0));
}

}  // namespace

Result<LoadOptions> load_options(const Json& options) {
  LoadOptions out;
  out.device.baseline_limits = flag_of(options, "baselineLimits");
  out.device.no_f16 = flag_of(options, "noF16");
  out.device.no_subgroups = flag_of(options, "noSubgroups");
  out.device.no_immediates = flag_of(options, "noImmediates");
  out.memory_tight = flag_of(options, "memoryTight");
  const std::string precision = text_of(options, "precision", "fast");
  if (precision != "fast" && precision != "f32")
    return fail_f(ErrorKind::InvalidArgument, "precision '{}' is unknown: fast or f32", precision);
  out.precision = precision == "f32" ? Precision::F32 : Precision::Fast;
  const std::pair<const char*, KvType> types[] = {
      {"auto", KvType::Auto}, {"f32", KvType::F32}, {"f16", KvType::F16}, {"q8_0", KvType::Q8_0}, {"q4_0", KvType::Q4_0}};
  const std::string kv = text_of(options, "kvType", "auto");
  const auto* type = std::find_if(std::begin(types), std::end(types), [&](const auto& t) { return kv == t.first; });
  if (type == std::end(types)) return fail_f(ErrorKind::InvalidArgument, "kvType '{}' is unknown: auto, f32, f16, q8_0 or q4_0", kv);
  out.kv_type = type->second;
  out.context = static_cast<uint32_t>(count_of(options, "context", 0));
  auto budget = bytes_of(options, "gpuBudget");
  if (!budget) return fail_f(budget.error().kind, "gpuBudget: {}", budget.error().message);
  out.gpu_budget = *budget;
  return out;
}

GenerateOptions generate_options(const Json& options) {
  GenerateOptions out;
  SamplingOptions& s = out.sampling;
  const auto real = [&](const char* key, float& value) { value = static_cast<float>(number_of(options, key, value)); };
  const auto natural = [&](const char* key, uint32_t& value) { value = static_cast<uint32_t>(count_of(options, key, value)); };
  real("temperature", s.temperature);
  natural("topK", s.top_k);
  real("topP", s.top_p);
  real("minP", s.min_p);
  real("typicalP", s.typical_p);
  real("repeatPenalty", s.repeat_penalty);
  real("presencePenalty", s.presence_penalty);
  real("frequencyPenalty", s.frequency_penalty);
  natural("repeatLast", s.repeat_last);
  real("dryMultiplier", s.dry_multiplier);
  real("dryBase", s.dry_base);
  natural("dryAllowedLength", s.dry_allowed_length);
  real("mirostatTau", s.mirostat_tau);
  real("mirostatEta", s.mirostat_eta);
  s.seed = count_of(options, "seed", 0);
  if (const Json& bias = member(options, "logitBias"); bias.is_object())
    for (const auto& [id, value] : bias.items())
      if (value.is_number()) s.logit_bias.emplace_back(static_cast<int32_t>(std::strtol(id.c_str(), nullptr, 10)), value.get<float>());
  out.max_tokens = static_cast<int32_t>(number_of(options, "maxTokens", -1));
  if (const Json& stop = member(options, "stop"); stop.is_string()) {
    out.stop.push_back(stop.get<std::string>());
  } else if (stop.is_array()) {
    for (const Json& one : stop)
      if (one.is_string()) out.stop.push_back(one.get<std::string>());
  }
  out.ignore_eog = flag_of(options, "ignoreEog");
  natural("logprobs", out.logprobs);
  out.grammar = text_of(options, "grammar");
  if (const Json& schema = member(options, "jsonSchema"); !schema.is_null()) out.json_schema = schema.is_string() ? schema.get<std::string>() : dump(schema);
  return out;
}

std::vector<Message> messages_of(const Json& messages) {
  std::vector<Message> out;
  if (!messages.is_array()) return out;
  for (const Json& message : messages) {
    Message m{text_of(message, "role"), text_of(message, "content"), {}};
    // More than a role and a text (tool calls, parts): the template sees the message as it was given.
    if (message.size() != 2 || !member(message, "role").is_string() || !member(message, "content").is_string()) m.json = dump(message);
    out.push_back(std::move(m));
  }
  return out;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json to_json(const Error& error) { return {{"kind", to_string(error.kind)}, {"message", error.message}}; }

Json to_json(const Stats& s) {
  return {{"pipelineBuilds", s.pipeline_builds}, {"pipelineHits", s.pipeline_hits}, {"bindGroupBuilds", s.bind_group_builds},
          {"bindGroupHits", s.bind_group_hits}, {"bindGroupEvictions", s.bind_group_evictions}, {"dispatches", s.dispatches},
          {"submissions", s.submissions}, {"weightHits", s.weight_hits}, {"weightMisses", s.weight_misses},
          {"weightUploads", s.weight_uploads}, {"weightUploadBytes", s.weight_upload_bytes}, {"weightEvictions", s.weight_evictions},
          {"weightStalls", s.weight_stalls},
          {"memory", {{"weights", s.memory.weights}, {"kv", s.memory.kv}, {"activations", s.memory.activations},
                      {"parameters", s.memory.parameters}, {"staging", s.memory.staging}, {"total", s.memory.total}, {"peak", s.memory.peak}}}};
}

Json to_json(const GenerateResult& r) {
  return {{"ids", r.ids}, {"text", r.text}, {"stop", to_string(r.stop)}, {"stopString", r.stop_string},
          {"timings", {{"loadSeconds", r.timings.load_s}, {"promptSeconds", r.timings.prompt_s}, {"generateSeconds", r.timings.generate_s},
                       {"promptTokens", r.timings.prompt_tokens}, {"cachedTokens", r.timings.cached_tokens},
                       {"generatedTokens", r.timings.generated_tokens}}}};
}

Json to_json(const Piece& piece) {
  Json json = {{"id", piece.id}, {"text", piece.text}};
  for (const TokenLogprob& p : piece.logprobs) json["logprobs"].push_back({{"id", p.id}, {"logprob", p.logprob}});
  return json;
}

Json describe(const Model& model) {
  const gguf::File& file = model.file();
  const DeviceInfo& device = model.device();
  const std::string* name = file.get_string("general.name");
  Json limits = Json::object();
  for (const auto& [key, value] : device.limits) limits[key] = value;
  return {{"name", name ? *name : file.name()}, {"architecture", file.architecture()}, {"bytes", file.total_bytes()},
          {"tensors", file.tensors().size()}, {"vocabulary", model.vocabulary()}, {"context", model.context()},
          {"embedding", model.is_embedding_model()}, {"chat", model.has_chat_template()},
          {"device", {{"name", device.name}, {"vendor", device.vendor}, {"type", device.type}, {"features", device.features}, {"limits", limits}}}};
}

}  // namespace gull::web
