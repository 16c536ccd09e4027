// A bench for kernels: a GGUF file in memory with the weights, a Plan of the operations under test, and their results.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "kernels/ops.h"

namespace gull::test {

/// The value, or an exception (which fails the test) with the error's message.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// How the device is opened.
enum class Mode {
  Plain,      ///< as it is; shader modules without checks where the device has them
  Checked,    ///< the same with the checks
  Bare,       ///< no subgroups, no shader-f16, no immediates
  Baseline,   ///< WebGPU's default limits and no optional feature
};
inline constexpr Mode kModes[] = {Mode::Plain, Mode::Checked, Mode::Bare, Mode::Baseline};
const char* name(Mode mode);

/// Opened once a mode, with its compiled pipelines.
struct Gpu {
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<dispatch::PipelineCache> pipelines;
};
Gpu& gpu(Mode mode);

/// What the device of a mode offers, as the engine would choose in float32 precision.
kernels::Choices exact_choices(Mode mode);
/// With 8-bit activations, where the device has them.
kernels::Choices fast_choices(Mode mode);

/// Numbers that are the same everywhere: uniform in [−1, 1).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  uint32_t bits() { return static_cast<uint32_t>((state_ = state_ * 6364136223846793005u + 1442695040888963407u) >> 32); }
  float next() { return static_cast<float>(static_cast<int32_t>(bits()) >> 8) * 0x1p-23f; }
  std::vector<float> vector(size_t n, float scale = 1.0f) {
    std::vector<float> out(n);
    for (float& v : out) v = next() * scale;
    return out;
  }

 private:
  uint64_t state_;
};

/// One file, one arena, one Plan at a time.
class Lab {
 public:
  explicit Lab(Mode mode, uint32_t max_tokens, uint64_t max_tile = 0);

  /// Weights, before the first `weight`.
  void tensor(const std::string& name, gguf::Type type, std::vector<uint64_t> dims, std::vector<std::byte> raw);
  void vector(const std::string& name, const std::vector<float>& values);
  weights::TensorRef weight(const std::string& name);

  gpu::Device& device() { return *gpu_.device; }
  /// Rows filled with `values` ([tokens, width]), the padding with a number that would be noticed.
  kernels::Rows input(const std::string& name, uint32_t width, std::span<const float> values);
  kernels::Rows rows(const std::string& name, uint32_t width) { return input(name, width, {}); }
  gpu::BufferRef ids(const std::vector<uint32_t>& values);
  gpu::BufferRef buffer(uint64_t bytes, std::span<const std::byte> bytes_or_none = {});

  /// Records with `record(Recorder&)` and runs it for `tokens` tokens from position `pos`. `decode`: the kernels for one token.
  template <class F>
  void run(uint32_t tokens, uint32_t pos, kernels::Choices choices, F&& record, bool decode) {
    auto plan = std::make_unique<dispatch::Plan>(gpu_.device);
    kernels::Recorder r{*gpu_.pipelines, weights(), *plan, arena_, state_, decode ? 1u : std::max(max_tokens_, 2u), choices, {}};
    record(r);
    if (r.failed()) throw std::runtime_error(r.error->message);
    replay(std::move(plan), tokens, pos);
  }
  /// The first `tokens` rows, without padding.
  std::vector<float> output(const kernels::Rows& rows, uint32_t tokens);
  template <class T>
  std::vector<T> read(const gpu::BufferRef& buffer, size_t count) {
    std::vector<T> out(count);
    must(gpu_.device->read(*buffer, 0, std::span<T>(out)));
    return out;
  }

 private:
  weights::WeightCache& weights();
  void replay(std::unique_ptr<dispatch::Plan> plan, uint32_t tokens, uint32_t pos);

  Gpu& gpu_;
  uint32_t max_tokens_;
  uint64_t max_tile_;
  gguf::Writer writer_;
  std::deque<std::vector<std::byte>> data_;
  std::unique_ptr<weights::WeightCache> weights_;
  kernels::Arena arena_;
  gpu::BufferRef state_;
};

}  // namespace gull::test
