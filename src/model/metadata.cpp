#include "model/metadata.h"

#include "base/log.h"

namespace gull::model {

void Metadata::problem(ErrorKind kind, std::string message) {
  if (!error_) error_ = Error{kind, file_.name() + ": " + std::move(message)};
}

uint32_t Metadata::u32(std::string_view key, uint32_t low, uint32_t high) {
  const auto value = file_.get_uint(full(key));
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
  const std::string* value = file_.get_string(full(key));
  return value ? *value : fallback;
}

std::vector<uint32_t> Metadata::per_layer(std::string_view key, uint32_t layers, uint32_t fallback) {
  const gguf::Array* array = file_.get_array(full(key));
  if (!array) return std::vector<uint32_t>(layers, u32_or(key, fallback));
  std::vector<uint32_t> out;
  for (uint64_t v : array->unsigneds) out.push_back(static_cast<uint32_t>(std::min<uint64_t>(v, 1u << 24)));
  for (int64_t v : array->signeds) out.push_back(v < 0 ? 0 : static_cast<uint32_t>(std::min<int64_t>(v, 1 << 24)));
  for (uint8_t v : array->bools) out.push_back(v);
  if (out.size() != layers)
    problem(ErrorKind::BadFile, fmt::format("'{}' has {} elements for {} layers", full(key), out.size(), layers)), out.resize(layers);
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
  config.vocabulary = static_cast<uint32_t>(table->rows());
}

std::vector<float> read_floats(Metadata& meta, std::string_view name) {
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
  const std::string type = meta.string_or("rope.scaling.type", "none");
  const float factor = meta.f32_or("rope.scaling.factor", meta.f32_or("rope.scale_linear", 1.0f));
  if (type == "none" || type == "linear") {
    if ((type == "linear" || meta.has("rope.scale_linear")) && factor > 0) rope.scale = factor;
  } else if (type == "yarn") {
    rope.yarn = true;
    rope.scale = factor > 0 ? factor : 1.0f;
    rope.original_context = meta.u32_or("rope.scaling.original_context_length", meta.u32_or("context_length", 4096));
    rope.attention_factor = meta.f32_or("rope.scaling.attn_factor", 1.0f);
    rope.yarn_beta_fast = meta.f32_or("rope.scaling.yarn_beta_fast", 32.0f);
    rope.yarn_beta_slow = meta.f32_or("rope.scaling.yarn_beta_slow", 1.0f);
  } else if (type == "longrope") {
    rope.attention_factor = meta.f32_or("rope.scaling.attn_factor", 1.0f);
    rope.original_context = meta.u32_or("rope.scaling.original_context_length", 0);
  } else {
    meta.problem(ErrorKind::Unsupported, fmt::format("rope scaling '{}' is unknown to gull", type));
  }
  return rope;
}

void expect_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows) {
  const gguf::TensorInfo* info = meta.file().tensor(tensor);
  if (!info) return meta.problem(ErrorKind::BadFile, fmt::format("tensor '{}' is missing", tensor));
  if (info->dims[0] != k || info->rows() != rows)
    meta.problem(ErrorKind::BadFile, fmt::format("tensor '{}' is {}×{}, the metadata asks for {}×{}", tensor, info->rows(), info->dims[0], rows, k));
}

}  // namespace gull::model
