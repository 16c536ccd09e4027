// Reading hyperparameters: keys are prefixed with the architecture's name; what is missing or absurd is an error.
#pragma once

#include <optional>
#include <set>
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
  bool has(std::string_view key) const;
  bool has_tensor(std::string_view name) const { return file_.tensor(name) != nullptr; }
  /// Required unsigned value in [low, high].
  uint32_t u32(std::string_view key, uint32_t low = 1, uint32_t high = 1u << 24);
  /// Optional ones.
  uint32_t u32_or(std::string_view key, uint32_t fallback, uint32_t low = 0, uint32_t high = 1u << 24);
  float f32_or(std::string_view key, float fallback);
  bool bool_or(std::string_view key, bool fallback) const { return has(key) ? file_.get_bool(full(key)).value_or(fallback) : fallback; }
  std::string string_or(std::string_view key, std::string fallback) const;
  /// A value for each layer: a scalar is repeated, an array must have `layers` elements.
  std::vector<uint32_t> per_layer(std::string_view key, uint32_t layers, uint32_t fallback);

  /// Says that a tensor is known to the family, and so part of what it computes.
  void know(std::string_view tensor) { known_.emplace(tensor); }
  /// Tensors whose names begin so may be there, and are left aside.
  void set_aside(std::string prefix) { aside_.push_back(std::move(prefix)); }
  /// Says that a setting may be there although the family leaves it aside, as the reference implementations do.
  void ignore(std::string_view key) { (void)has(key); }
  /// The last word of a family: tensors that it does not know, or settings that change what a model computes and that
  /// it did not read, are an error that names them. So a file is refused rather than run wrong. Notes the tensors in use.
  void finish(Config& config);

  void problem(ErrorKind kind, std::string message);
  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::string full(std::string_view key) const { return arch_ + "." + std::string(key); }
  void refuse_unread_settings();

  const gguf::File& file_;
  std::string arch_;
  mutable std::set<std::string, std::less<>> read_;    ///< keys that the family looked at
  std::set<std::string, std::less<>> known_;           ///< tensors that it uses
  std::vector<std::string> aside_;
  std::optional<Error> error_;
};

/// Reads what all families share: layers, hidden, vocabulary, context.
void read_common(Metadata& meta, Config& config);
/// Which layers have a sliding window: an array of flags, or a number n (else `pattern`) of which the last layer has none.
std::vector<bool> read_windowed_layers(Metadata& meta, uint32_t layers, uint32_t pattern);
/// Reads pooling_type: a model that names one gives vectors.
void read_pooling(Metadata& meta, Config& config);
/// Reads rope.* (base, dimension count, scaling) into a RopeSpec; `head_dim` is the default for the rotated dimensions.
RopeSpec read_rope(Metadata& meta, uint32_t head_dim, float default_base = 10000.0f);
/// Reads the frequency divisors that go with a rotation: rope_freqs (Llama 3), or those of LongRoPE.
void read_rope_factors(Metadata& meta, RopeSpec& rope);
/// A small tensor as floats (rope factors), empty where it is absent.
std::vector<float> read_floats(Metadata& meta, std::string_view tensor);
/// Checks that a weight is there with this shape [matrices, rows, k]; keeps a clear error otherwise.
void expect_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows = 1, uint64_t matrices = 1);
/// The same for a weight that may be absent; says whether it is there.
bool allow_shape(Metadata& meta, std::string_view tensor, uint64_t k, uint64_t rows = 1, uint64_t matrices = 1);

}  // namespace gull::model
