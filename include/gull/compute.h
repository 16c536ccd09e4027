// Tensor operations on the GPU, without any model: a small BLAS over WebGPU.
//
//   gull::ComputeBackend gpu;
//   if (auto ok = gpu.init(); !ok) …
//   auto a = gpu.alloc(4 * 512 * 512);   // a handle
//   gpu.copy_to_device(*a, bytes);
//   gpu.gemm({.m = 512, .n = 512, .k = 512, .a = *a, .b = *b, .c = *c});
//   gpu.copy_to_host(*c, out);           // waits
//
// Everything is row-major float32 unless said. Operations are queued and return at once; `synchronize` and
// `copy_to_host` wait. All functions are safe from several threads; operations run in the order of their calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gull/device.h"
#include "gull/error.h"

namespace gull {

/// Names memory on the GPU. Never used again after `free`; 0 names nothing.
using Handle = uint64_t;

/// Where an operand starts: `offset` elements of its type behind the start of the memory.
struct View {
  Handle handle = 0;
  uint64_t offset = 0;
  View() = default;
  View(Handle h, uint64_t o = 0) : handle(h), offset(o) {}
};

/// How elements are stored. Whatever the storage, arithmetic and accumulation are float32.
enum class ElementType : uint8_t { F32, F16 };

/// Sizes of a tensor's axes, outermost first; at most 8.
struct Shape {
  static constexpr uint32_t kMaxRank = 8;
  std::array<uint32_t, kMaxRank> dims{};
  uint32_t rank = 0;                 ///< more than kMaxRank: more axes were given, and each operation refuses it
  Shape() = default;
  Shape(std::initializer_list<uint32_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const uint32_t> sizes) {
    for (uint32_t size : sizes) {
      if (rank < kMaxRank) dims[rank] = size;
      ++rank;
    }
  }
};

/// C = alpha · op(A) · op(B) + beta · C, where op(A) is m×k, op(B) is k×n and C is m×n.
/// With beta = 0 the old C is never read; with k = 0 or alpha = 0, A and B are not. C must not overlap A or B.
struct Gemm {
  uint32_t m = 0, n = 0, k = 0;
  View a, b, c;
  bool transpose_a = false;          ///< A is stored k×m
  bool transpose_b = false;          ///< B is stored n×k
  float alpha = 1, beta = 0;
  uint32_t lda = 0, ldb = 0, ldc = 0;   ///< elements from one stored row to the next; 0: rows follow each other
};

/// The same for `batch` matrices. A stride of 0 uses one matrix for the whole batch (not for C).
struct BatchedGemm : Gemm {
  uint32_t batch = 1;
  std::optional<uint64_t> stride_a, stride_b, stride_c;   ///< elements between matrices; none: they follow each other
};

/// A 2-D convolution over NCHW tensors (cross-correlation, as everywhere):
///   y[b, o, i, j] = bias[o] + Σ over c, u, v of x[b, c', i·stride + u·dilation − pad, j·…] · w[o, c, u, v]
/// with w of out_channels × in_channels/groups × kernel_h × kernel_w, and zeros outside x.
struct Conv2d {
  uint32_t batch = 1, in_channels = 1, height = 1, width = 1;
  uint32_t out_channels = 1, kernel_h = 1, kernel_w = 1;
  uint32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;
  ElementType type = ElementType::F32;
  uint32_t out_height() const { return extent(height, kernel_h, stride_h, pad_h, dilation_h); }
  uint32_t out_width() const { return extent(width, kernel_w, stride_w, pad_w, dilation_w); }

 private:
  static uint32_t extent(uint64_t in, uint64_t kernel, uint64_t stride, uint64_t pad, uint64_t dilation) {
    const uint64_t reach = kernel ? dilation * (kernel - 1) + 1 : 0, padded = in + 2 * pad;
    return reach == 0 || stride == 0 || padded < reach ? 0 : static_cast<uint32_t>((padded - reach) / stride + 1);
  }
};

/// Strides of a 4-D tensor [batch, head, row, head_dim] in elements; all 0: its axes follow each other.
struct HeadStrides { uint32_t batch = 0, head = 0, row = 0; };

/// out = softmax(mask(softcap(scale · Q Kᵀ) + bias)) · V for each head.
/// Q and out are [batch, heads, q_len, head_dim]; K and V are [batch, kv_heads, kv_len, head_dim], and query heads share
/// them in groups. A query that sees no key gives zeros. One compiled shader serves every length.
struct Attention {
  uint32_t batch = 1, heads = 1, kv_heads = 1, q_len = 0, kv_len = 0, head_dim = 0;   ///< head_dim at most 1024
  View q, k, v, out;
  HeadStrides q_strides, k_strides, v_strides, out_strides;   ///< a KV cache has room for more rows than kv_len
  float scale = 0;                   ///< 0: 1/√head_dim
  bool causal = false;               ///< query i sees key j when j ≤ i + kv_offset
  uint32_t kv_offset = 0;            ///< keys that stand before the first query: the position of query 0
  uint32_t window = 0;               ///< query i sees only its last `window` keys: j > i + kv_offset − window; 0: all
  float softcap = 0;                 ///< s ← softcap · tanh(s / softcap); 0: off
  View mask;                         ///< added to the scores (−inf hides); [batch|1, heads|1, q_len, kv_len]; handle 0: none
  bool mask_per_batch = false, mask_per_head = false;   ///< whether the mask has its first two axes
  View alibi_slopes;                 ///< float32 [heads]: adds slope · (j − (i + kv_offset)); handle 0: none
  ElementType type = ElementType::F32;   ///< of Q, K, V and out; the mask is float32
};

enum class UnaryOp : uint8_t { Relu, Sigmoid, Tanh, Exp, Log, Sqrt, Abs, Neg };
enum class BinaryOp : uint8_t { Add, Sub, Mul, Div, Max, Min, Pow };
enum class ReduceOp : uint8_t { Sum, Max, Min, Mean };
enum class ScatterMode : uint8_t {
  Set,   ///< where several updates meet, one of them wins
  Add,   ///< in no fixed order
};

/// Indices into one axis of a tensor. Indices are int32; negative ones count from the end; those outside the axis read
/// zeros and write nothing.
struct Indexing {
  Shape shape;                       ///< of the indexed tensor
  uint32_t axis = 0;
  uint32_t count = 0;                ///< how many indices along the axis
  View indices;                      ///< int32 [count], or per element: int32 of `shape` with `count` in place of the axis
  bool per_element = false;          ///< false: whole slices, as numpy.take; true: as numpy.take_along_axis
  ElementType type = ElementType::F32;
};

/// What the opened device and this backend can do; true of this device, not of GPUs in general.
struct ComputeCapabilities {
  DeviceInfo device;
  bool f16 = false;                  ///< F16 tensors may be written (shader-f16); without, `gemm_mixed` still reads them
  bool subgroups = false;            ///< the device has them (no operation needs them)
  bool immediates = false;           ///< parameters travel as immediates; else in a uniform ring
  bool software = false;             ///< the "GPU" is this computer's CPU
  uint64_t max_alloc = 0;            ///< bytes of one allocation
  uint64_t max_binding = 0;          ///< bytes that one binding covers; larger operands take several
  uint32_t max_bindings = 0;         ///< storage bindings of one dispatch
  uint32_t workgroup_memory = 0, workgroup_invocations = 0;
  uint64_t max_elements = 0;         ///< of one operand
};

struct Tile { uint32_t m = 0, n = 0, k = 0; };

/// Counters since `init`.
struct ComputeStats {
  uint64_t pipeline_hits = 0, pipeline_builds = 0, pipeline_failures = 0, pipelines_live = 0;
  uint64_t group_hits = 0, group_misses = 0, group_builds = 0;
  uint64_t group_rebuilds = 0;       ///< because the parameters' size differed
  uint64_t group_evictions = 0;      ///< pushed out by newer ones
  uint64_t group_freed = 0;          ///< dropped because an operand was freed
  uint64_t groups_live = 0, group_order_length = 0;
  uint64_t dispatches = 0, submissions = 0;
  uint64_t param_bytes = 0;          ///< written to the uniform ring
  uint64_t handles_live = 0, handle_bytes = 0;
  uint64_t pool_reused = 0, pool_created = 0, pool_idle_bytes = 0, pool_trimmed_bytes = 0;
  MemoryUse memory;
};

enum class ParamTransport : uint8_t { Auto, Immediates, Ring };

struct ComputeOptions {
  DeviceOptions device;
  ParamTransport params = ParamTransport::Auto;   ///< Immediates: an error where the device has none
  uint32_t cached_groups = 64;       ///< bind groups kept
  uint32_t max_pending = 128;        ///< operations recorded before they are submitted by themselves; 1: each at once
  uint64_t max_idle_bytes = uint64_t{256} << 20;  ///< freed memory kept for the next allocations
  Tile gemm_tile;                    ///< forces a tile (one of `gemm_tiles`); zeros: by size and device
  /// Sees each shader before it is compiled: its key, and its WGSL. Called from whichever thread compiles it.
  std::function<void(const std::string& key, const std::string& wgsl)> on_shader;
};

/// See the top of this file. Errors of every operation:
///   NotInitialised   `init` was not called, or failed
///   NotFound         "unknown handle N"
///   InvalidArgument  "gemm: handle N holds X bytes, need Y"; sizes that make no sense; outputs that overlap inputs
///   Unsupported      F16 results without shader-f16; operands of more elements than `max_elements`
///   OutOfMemory, Device
/// Where a tensor has no elements, nothing is done, successfully.
class ComputeBackend {
 public:
  explicit ComputeBackend(ComputeOptions options = {});
  ~ComputeBackend();
  ComputeBackend(const ComputeBackend&) = delete;
  ComputeBackend& operator=(const ComputeBackend&) = delete;

  static const char* name() { return "gull-webgpu"; }
  /// Opens the device. Calling it again does nothing. Errors: no adapter (says what to install), device refused.
  Result<void> init();
  bool is_initialized() const;
  Result<ComputeCapabilities> capabilities() const;
  /// All adapters, the one that `init` opens marked. Needs no `init`.
  Result<std::vector<DeviceInfo>> available_devices() const;
  /// The tile that `gemm` works in for this size on this device.
  Result<Tile> recommended_tile(uint32_t m, uint32_t n, uint32_t k) const;
  /// All tiles that can be forced.
  static std::span<const Tile> gemm_tiles();

  Result<void> gemm(const Gemm& call);
  Result<void> batched_gemm(const BatchedGemm& call);
  /// A, B and C are F16; sums are float32. Errors: no shader-f16.
  Result<void> gemm_f16(const Gemm& call);
  /// A and B are F16, C is F32. On every device.
  Result<void> gemm_mixed(const Gemm& call);

  /// `bias` of out_channels is optional (handle 0: none).
  Result<void> conv2d_forward(const Conv2d& conv, View x, View weight, View y, View bias = {});
  /// dx = the gradient of x, from dy and the weight. All of dx is written.
  Result<void> conv2d_backward_data(const Conv2d& conv, View dy, View weight, View dx);
  /// dw = the gradient of the weight, from x and dy. All of dw is written.
  Result<void> conv2d_backward_filter(const Conv2d& conv, View x, View dy, View dw);

  Result<void> attention(const Attention& call);

  /// Over the listed axes (none: over all); y has the other axes. Max, min of nothing: an error; sum 0; mean NaN.
  /// NaN in, NaN out.
  Result<void> reduce(ReduceOp op, View x, const Shape& shape, std::span<const uint32_t> axes, View y,
                      ElementType type = ElementType::F32);
  /// y = op(x) for n elements; y may be x.
  Result<void> unary(UnaryOp op, View x, View y, uint64_t n, ElementType type = ElementType::F32);
  /// y = a op b with NumPy's broadcasting; y has the broadcast shape and may be one of the operands of that shape.
  Result<void> binary(BinaryOp op, View a, const Shape& a_shape, View b, const Shape& b_shape, View y,
                      ElementType type = ElementType::F32);
  /// The same for n elements each.
  Result<void> binary(BinaryOp op, View a, View b, View y, uint64_t n, ElementType type = ElementType::F32);
  /// Along one axis; y may be x.
  Result<void> softmax(View x, View y, const Shape& shape, uint32_t axis, ElementType type = ElementType::F32);
  /// y = x at the indices: `x` has indexing.shape, y has `count` in place of its axis.
  Result<void> gather(const Indexing& indexing, View x, View y);
  /// y at the indices is set to, or grows by, the updates: `y` has indexing.shape, updates `count` in place of its axis.
  Result<void> scatter(ScatterMode mode, const Indexing& indexing, View updates, View y);

  /// Waits until everything that was called has run. Errors: also of operations that failed on the device.
  Result<void> synchronize();
  /// Contents are unspecified. 0 bytes are allowed. Errors: larger than the device allows, no room.
  Result<Handle> alloc(uint64_t bytes);
  /// Errors: unknown handle. Operations already called still see the memory.
  Result<void> free(Handle handle);
  Result<uint64_t> size(Handle handle) const;
  /// Copies into the memory, `offset` bytes behind its start. Operations already called see the old contents.
  Result<void> copy_to_device(Handle to, std::span<const std::byte> bytes, uint64_t offset = 0);
  template <class T>
  Result<void> copy_to_device(Handle to, std::span<const T> values, uint64_t offset = 0) {
    return copy_to_device(to, std::as_bytes(values), offset);
  }
  /// Waits for what was called, and copies out.
  Result<void> copy_to_host(Handle from, std::span<std::byte> bytes, uint64_t offset = 0);
  template <class T>
  Result<void> copy_to_host(Handle from, std::span<T> values, uint64_t offset = 0) {
    return copy_to_host(from, std::as_writable_bytes(values), offset);
  }

  /// Gives freed memory back to the device; returns how many bytes.
  Result<uint64_t> trim();
  ComputeStats stats() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gull
