// What a model needs, from its header alone.
#include "base/log.h"
#include "gguf/row_layout.h"
#include "gull/engine.h"
#include "kernels/decode/decode.h"
#include "model/family.h"

namespace gull {
namespace {

/// Bytes of a tensor as the kernels want it; vectors become F32.
Result<uint64_t> gpu_bytes(const gguf::File& file, const gguf::TensorInfo& tensor) {
  const gguf::Type type = tensor.n_dims == 1 ? gguf::Type::F32 : tensor.type;
  if (!kernels::has_decoder(type)) {
    const gguf::TypeTraits* traits = gguf::type_traits(type);
    return fail_f(ErrorKind::Unsupported, "{}: tensor '{}' has the type {}, which no kernel reads", file.name(), tensor.name, traits ? traits->name : "unknown");
  }
  auto layout = gguf::row_layout(type, tensor.dims[0]);
  if (!layout) return fail_f(layout.error().kind, "{}: tensor '{}': {}", file.name(), tensor.name, layout.error().message);
  return tensor.rows() * layout->row_bytes;
}

}  // namespace

Result<ModelCheck> check_model(const gguf::File& file) {
  auto family = model::make_family(file);
  if (!family) return fail(family.error());
  const model::Config& config = (*family)->config();
  ModelCheck check;
  check.architecture = config.arch;
  check.layers = config.layers;
  check.context = config.context;
  check.embedding = config.embedding;
  for (const std::string& name : config.tensors) {
    auto bytes = gpu_bytes(file, *file.tensor(name));
    if (!bytes) return fail(bytes.error());
    check.weights += *bytes;
  }
  for (const model::LayerKv& kv : config.kv)
    if (kv.shares < 0) check.kv_per_token_f16 += uint64_t{kv.keys_only ? 1u : 2u} * kv.heads * kv.head_dim * 2;
  check.kv_per_token_f32 = 2 * check.kv_per_token_f16;
  for (const model::StateSpec& state : config.states) check.states += state.floats * sizeof(float);
  return check;
}

}  // namespace gull
