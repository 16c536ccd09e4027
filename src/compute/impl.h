// What the operations of a backend share. Private to src/compute.
#pragma once

#include <atomic>
#include <span>
#include <unordered_map>

#include "base/log.h"
#include "compute/scratch.h"
#include "compute/shader.h"
#include "compute/stream.h"
#include "dispatch/bind_group_cache.h"
#include "dispatch/buffer_pool.h"
#include "dispatch/pipeline_cache.h"

namespace gull::compute {

/// Handles and their memory. Thread-safe; its lock is never held together with a cache's.
class BufferTable {
 public:
  struct Entry {
    gpu::BufferRef buffer;
    uint64_t bytes = 0;   ///< as asked for
  };
  Handle add(Entry entry);
  Result<Entry> find(Handle handle) const;     ///< "unknown handle N"
  Result<Entry> remove(Handle handle);
  uint64_t count() const;
  uint64_t bytes() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<Handle, Entry> entries_;
  Handle next_ = 1;
  uint64_t bytes_ = 0;
};

/// What a shader generator sees.
struct ShaderContext {
  const gpu::Caps& caps;
  const Layout& layout;
  std::span<const Operand> operands;
};

/// One dispatch, before it is known whether anything of it exists already.
struct Call {
  const char* op = "";                 ///< "gemm"; starts every message
  uint64_t variant = 0;                ///< identifies the shader text, given the operation and the layout
  uint8_t op_id = 0;                   ///< identifies the operation
  std::array<Operand, kMaxOperands> operands{};
  uint32_t operand_count = 0;
  uint64_t groups = 0;                 ///< workgroups, counted by group_number() in the shader
  double work = 0;                     ///< multiply-adds or element visits, roughly
  /// The body: `struct Params {…}` first, then the functions and `main`.
  std::string (*text)(const ShaderContext& context, const void* spec) = nullptr;
  const void* spec = nullptr;

  void add(Operand operand) { operands[operand_count++] = operand; }
  std::span<const Operand> used() const { return {operands.data(), operand_count}; }
};

/// How many iterations, of all its loops together, an invocation may make. Mesa's llvmpipe ends every loop after 65,535 in
/// all, without a word (measured on Mesa 22.3), so on software adapters long sums are split.
constexpr uint64_t loop_budget(const gpu::Caps& caps) { return caps.software ? 60000 : UINT64_MAX; }

/// Each operation has its own numbers in pipeline keys.
enum OpId : uint8_t { kGemm = 1, kScale, kConv, kAttention, kReduce, kUnary, kBinary, kSoftmax, kGather, kScatter, kFill };

}  // namespace gull::compute

namespace gull {

struct ComputeBackend::Impl {
  ComputeOptions options;
  mutable Mutex init_mutex;
  std::atomic<bool> ready{false};

  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<dispatch::PipelineCache> pipelines;
  std::unique_ptr<dispatch::BindGroupCache> groups;
  std::unique_ptr<dispatch::BufferPool> pool;
  std::unique_ptr<compute::Stream> stream;
  compute::BufferTable table;
  compute::Scratch scratch;

  const gpu::Caps& caps() const { return device->caps(); }
  /// NotInitialised until `init` has succeeded.
  Result<void> initialised() const;
  /// Every operand's handle exists and is large enough; for calls that have nothing to do.
  Result<void> check(const compute::Call& call) const;

  /// Decides the bindings. Errors: overlapping output, more bindings than the device has, too many elements, F16.
  Result<compute::Layout> layout(const compute::Call& call) const;
  /// Runs a call: `params` is a struct whose members are 4 bytes each, multiples of 16 bytes in all.
  template <class P>
  Result<void> run(const compute::Call& call, const compute::Layout& layout, const P& params) {
    static_assert(sizeof(P) % 16 == 0 && sizeof(P) <= 256);
    return launch(call, layout, std::as_bytes(std::span(&params, 1)));
  }
  Result<void> launch(const compute::Call& call, const compute::Layout& layout, std::span<const std::byte> params);
  Result<dispatch::GroupRef> build(const compute::Call& call, const compute::Layout& layout, const dispatch::GroupKey& key,
                                   dispatch::ParamMode mode, uint32_t param_bytes);
  /// Writes one value, given as the bits of a float, to all elements of an operand.
  Result<void> fill(const char* op, const compute::Operand& target, uint32_t value);
  Result<Handle> alloc(uint64_t bytes);
  Result<void> release(Handle handle);
};

}  // namespace gull
