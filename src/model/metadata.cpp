#include "model/metadata.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"

namespace gull::model {

namespace {

/// Settings that change what a model computes, and the value with which they change nothing.
struct Setting {
  const char* key;
  double neutral;
};

constexpr Setting kSettings[] = {
    {"attention.causal", 1}, {"attention.clamp_kqv", 0}, {"attention.max_alibi_bias", 0}, {"attention.scale", 0}, {"attention.output_scale", 0},
    {"attention.value_scale", 0}, {"attention.temperature_scale", 0}, {"attention.sliding_window", 0},
    {"attention.sliding_window_pattern", 0}, {"attention.shared_kv_layers", 0}, {"attention.key_length_swa", 0},
    {"attention.key_length_mla", 0}, {"attention.kv_lora_rank", 0}, {"attention.q_lora_rank", 0},
    {"attention.indexer.head_count", 0}, {"attention.rope_pattern", 0}, {"attention.recurrent_layers", 0},
    {"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0}, {"router_logit_softcapping", 0}, {"logit_scale", 1},
    {"residual_scale", 1}, {"embedding_scale", 1}, {"expert_count", 0}, {"expert_shared_count", 0}, {"expert_group_count", 1},
    {"expert_group_scale", 0}, {"expert_weights_scale", 1}, {"expert_weights_norm", 0}, {"expert_gating_func", 1},
    {"leading_dense_block_count", 0}, {"interleave_moe_layer_step", 1}, {"moe_every_n_layers", 0}, {"nextn_predict_layers", 0},
    {"embedding_length_per_layer_input", 0}, {"embedding_length_out", 0}, {"use_parallel_residual", 0}, {"swiglu_clamp_exp", 0},
    {"swiglu_clamp_shexp", 0}, {"full_attention_interval", 0}, {"num_loops", 1}, {"rope.freq_base_swa", 0}, {"rope.scaling.alpha", 0},
    {"rope.scaling.yarn_log_multiplier", 0}, {"rope.dimension_count_swa", 0}, {"ssm.inner_size", 0}, {"ssm.dt_b_c_rms", 0},
    {"shortconv.l_cache", 0}, {"hyper_connection.count", 0}, {"ple.ngram_size", 0}, {"dense_2_feat_in", 0}, {"dense_3_feat_in", 0},
    {"hidden_activation", 0}, {"deepstack_mapping", 0}, {"activation.situ_beta", 0}, {"altup.num_inputs", 0},
};

/// The towers of other modalities, which some files carry beside the text model.
bool of_another_modality(std::string_view tensor) {
  return tensor.starts_with("v.") || tensor.starts_with("a.") || tensor.starts_with("mm.");
}

}  // namespace

bool Metadata::has(std::string_view key) const {
  read_.emplace(key);
  return file_.find(full(key)) != nullptr;
}

void Metadata::finish(Config& config) {
  refuse_unread_settings();
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    const auto begins = [&](const std::string& prefix) { return tensor.name.starts_with(prefix); };
    if (known_.contains(tensor.name)) config.tensors.push_back(tensor.name);
    else if (!of_another_modality(tensor.name) && std::ranges::none_of(aside_, begins))
      return problem(ErrorKind::Unsupported, fmt::format("tensor '{}' has no meaning in the '{}' models that gull knows", tensor.name, arch_));
  }
}

void Metadata::refuse_unread_settings() {
  for (const Setting& setting : kSettings) {
    if (read_.contains(setting.key)) continue;
    const std::string key = full(setting.key);
    if (!file_.find(key)) continue;
    if (const auto flag = file_.get_bool(key); flag && *flag == (setting.neutral != 0)) continue;
    if (const auto value = file_.get_float(key); value && *value == setting.neutral) continue;
    if (const auto value = file_.get_uint(key); value && static_cast<double>(*value) == setting.neutral) continue;
    return problem(ErrorKind::Unsupported, fmt::format("the setting '{}' is unknown to gull for this architecture", key));
  }
}

void Metadata::problem(ErrorKind kind, std::string message) {
  if (!error_) error_ = Error{kind, file_.name() + ": " + std::move(message)};
}

uint32_t Metadata::u32(std::string_view key, uint32_t low, uint32_t high) {
  const auto value = has(key) ? file_.get_uint(full(key)) : std::nullopt;
  if (!value) return problem(ErrorKind::BadFile, fmt::format("metadata key '{}' is missing or not a number", full(key))), low;
  if (*value < low || *value > high)
    return problem(ErrorKind::BadFile, fmt::format("'{}' is {}, outside {}…{}", full(key), *value, low, high)), low;
  return static_cast<uint32_t>(*value);
}

uint32_t Metadata::u32_or(std::string_view key, uint32_t fallback, uint32_t low, uint32_t high) {
  return has(key) ? u32(key, low, high) : fallback;
}

float Metadata::f32_or(std::string_view key, float fallback) {
  if (!has(key)) return fallback;
  const auto value = file_.get_float(full(key));
  if (!value || !(*value > -1e30 && *value < 1e30))
    return problem(ErrorKind::BadFile, fmt::format("'{}' is not a finite number", full(key))), fallback;
  return static_cast<float>(*value);
}

std::string Metadata::string_or(std::string_view key, std::string fallback) const {
  const std::string* value = has(key) ? file_.get_string(full(key)) : nullptr;
  return value ? *value : fallback;
}

std::vector<uint32_t> Metadata::per_layer(std::string_view key, uint32_t layers, uint32_t fallback) {
  const gguf::Array* array = has(key) ? file_.get_array(full(key)) : nullptr;
  if (!array) return std::vector<uint32_t>(layers, u32_or(key, fallback));
  std::vector<uint32_t> out;
  for (uint64_t v : array->unsigneds) out.push_back(static_cast<uint32_t>(std::min<uint64_t>(v, 1u << 24)));
  for (int64_t v : array->signeds) out.push_back(v < 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>(v, 1 << 24)));
  for (uint8_t v : array->bools) out.push_back(v);
  if (out.size() < layers)
    problem(ErrorKind::BadFile, fmt::format("'{}' has {} elements for {} layers", full(key), out.size(), layers));
  out.resize(layers);
  return out;
}

void read_common(Metadata& meta, Config& config) {
  config.arch = meta.arch();
  config.layers = meta.u32("block_count", 1, 1024);
  config.hidden = meta.u32("embedding_length", 1, 1u << 20);
  config.context = meta.u32_or("context_length", 4096, 1, 1u << 28);
  const gguf::TensorInfo* table = meta.file().tensor("token_embd.weight");
  if (!table) return meta.problem(ErrorKind::BadFile, "tensor 'token_embd.weight' is missing");
  if (table->dims[0] != config.hidden || table->rows() == 0 || table->rows() > (1u << 24))
    return meta.problem(ErrorKind::BadFile, fmt::format("'token_embd.weight' is {}×{}, embedding_length says {}", table->rows(), table->dims[0], config.hidden));
  meta.know("token_embd.weight");
  config.vocabulary = static_cast<uint32_t>(table->rows());
}

std::vector<bool> read_windowed_layers(Metadata& meta, uint32_t layers, uint32_t pattern) {
  const std::vector<uint32_t> values = meta.per_layer("attention.sliding_window_pattern", layers, pattern);
  const bool flags = meta.file().get_array(meta.arch() + ".attention.sliding_window_pattern") != nullptr;
  std::vector<bool> out(layers);
  for (uint32_t l = 0; l < layers; ++l) out[l] = flags ? values[l] != 0 : values[l] == 0 || (l + 1) % values[l] != 0;
  return out;
}

void read_pooling(Metadata& meta, Config& config) {
  const uint32_t type = meta.u32_or("pooling_type", 0);
  if (type > 3) meta.problem(ErrorKind::Unsupported, fmt::format("pooling type {} is unknown to gull", type));
  config.embedding = type != 0;
}

std::vector<float> read_floats(Metadata& meta, std::string_view name) {
  meta.know(name);
  const gguf::TensorInfo* info = meta.file().tensor(name);
  if (!info) return {};
  if (info->elements() > (1u << 20)) return meta.problem(ErrorKind::BadFile, fmt::format("'{}' is too large", name)), std::vector<float>{};
  std::vector<std::byte> raw(info->bytes);
  std::vector<float> values(info->elements());
  auto ok = meta.file().read(*info, 0, raw);
  if (ok) ok = gguf::dequantize(info->type, raw, values);
  if (!ok) return meta.problem(ok.error().kind, ok.error().message), std::vector<float>{};
  return values;
}

RopeSpec read_rope(Metadata& meta, uint32_t head_dim, float default_base) {
  RopeSpec rope;
  rope.base = meta.f32_or("rope.freq_base", default_base);
  rope.dims = meta.u32_or("rope.dimension_count", head_dim, 1, head_dim);
  if (rope.dims % 2) meta.problem(ErrorKind::BadFile, "rope.dimension_count is odd");
  rope.original_context = meta.u32_or("rope.scaling.original_context_length", meta.u32_or("context_length", 4096, 1, 1u << 28), 1, 1u << 28);
  rope.attention_factor = meta.f32_or("rope.scaling.attn_factor", 1.0f);
  const std::string type = meta.string_or("rope.scaling.type", "linear");
  const float factor = meta.f32_or("rope.scaling.factor", meta.f32_or("rope.scale_linear", 0.0f));
  if (factor < 0) meta.problem(ErrorKind::BadFile, "rope.scaling.factor is negative");
  if (type == "linear" || type == "yarn") {
    rope.scale = factor > 0 ? factor : 1.0f;
  } else if (type != "none" && type != "longrope") {
    meta.problem(ErrorKind::Unsupported, fmt::format("rope scaling '{}' is unknown to gull", type));
  }
  if (type == "yarn") {
    rope.yarn_mix = meta.f32_or("rope.scaling.yarn_ext_factor", 1.0f);
    rope.yarn_beta_fast = meta.f32_or("rope.scaling.yarn_beta_fast", 32.0f);
    rope.yarn_beta_slow = meta.f32_or("rope.scaling.yarn_beta_slow", 1.0f);
    // The magnitude of YaRN's section 3.4, unless the model was trained with another.
    const float magnitude = rope.scale > 1 ? 1.0f + 0.1f * std::log(rope.scale) : 1.0f;
    if (rope.yarn_mix != 0) rope.attention_factor *= meta.f32_or("rope.scaling.yarn_attn_factor", magnitude);
  }
  return rope;
}

void read_rope_factors(Metadata& meta, RopeSpec& rope) {
  rope.factors = read_floats(meta, "rope_freqs.weight");
  if (rope.factors.empty()) {
    rope.factors = read_floats(meta, "rope_factors_short.weight");
    rope.long_factors = read_floats(meta, "rope_factors_long.weight");
  }
  for (const auto* factors : {&rope.factors, &rope.long_factors}) {
    if (!factors->empty() && factors->size() != rope.dims / 2)
      meta.problem(ErrorKind::BadFile, fmt::format("{} rotary factors for {} pairs", factors->size(), rope.dims / 2));
    for (float f : *factors)
      if (!(f > 0)) meta.problem(ErrorKind::BadFile, "a rotary factor is not above 0");
  }
}

bool allow_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows, uint64_t matrices) {
  meta.know(tensor);
  const gguf::TensorInfo* info = meta.file().tensor(tensor);
  if (!info) return false;
  if (info->dims[0] != k || info->dims[1] != rows || info->dims[2] != matrices || info->dims[3] != 1)
    meta.problem(ErrorKind::BadFile, fmt::format("tensor '{}' is {}×{}×{}, the metadata asks for {}×{}×{}", tensor, info->dims[2] * info->dims[3],
                                                 info->dims[1], info->dims[0], matrices, rows, k));
  return true;
}

void expect_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows, uint64_t matrices) {
  if (!allow_shape(meta, tensor, k, rows, matrices)) meta.problem(ErrorKind::BadFile, fmt::format("tensor '{}' is missing", tensor));
}

}  // namespace gull::model
