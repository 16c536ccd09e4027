// Reading hyperparameters: keys are prefixed with the architecture's name; what is missing or absurd is an error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gull/gguf.h"
#include "model/family.h"

namespace gull::model {

/// Keeps the first failure, so that a family reads its settings line by line and checks once.
class Metadata {
 public:
  explicit Metadata(const gguf::File& file) : file_(file), arch_(file.architecture()) {}

  const std::string& arch() const { return arch_; }
  const gguf::File& file() const { return file_; }
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }
  /// Required unsigned value in [low, high].
  uint32_t u32(std::string_view key, uint32_t low = 1, uint32_t high = 1u << 24);
  /// Optional ones.
  uint32_t u32_or(std::string_view key, uint32_t fallback, uint32_t low = 0, uint32_t high = 1u << 24);
  float f32_or(std::string_view key, float fallback);
  bool bool_or(std::string_view key, bool fallback) const { return file_.get_bool(full(key)).value_or(fallback); }
  std::string string_or(std::string_view key, std::string fallback) const;
  /// A value for each layer: a scalar is repeated, an array must have `layers` elements.
  std::vector<uint32_t> per_layer(std::string_view key, uint32_t layers, uint32_t fallback);

  void problem(ErrorKind kind, std::string message);
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::string full(std::string_view key) const { return arch_ + "." + std::string(key); }
  const gguf::File& file_;
  std::string arch_;
  std::optional<Error> error_;
};

/// Reads what all families share: layers, hidden, vocabulary, context.
void read_common(Metadata& meta, Config& config);
/// Reads rope.* (base, dimension count, scaling) into a RopeSpec; `head_dim` is the default for the rotated dimensions.
RopeSpec read_rope(Metadata& meta, uint32_t head_dim, float default_base = 10000.0f);
/// A small tensor as floats (rope factors), empty where it is absent.
std::vector<float> read_floats(Metadata& meta, std::string_view tensor);
/// Checks that a weight is there with this shape [rows, k]; keeps a clear error otherwise.
void expect_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows);

}  // namespace gull::model
