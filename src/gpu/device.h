// A GPU: adapter choice, device, limits, buffers, pipelines, command encoding, read-back and the memory ledger.
// Nothing here names WebGPU's own types, so that the rooms above need no webgpu.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "gull/device.h"
#include "gull/error.h"

struct WGPUBufferImpl;
struct WGPUComputePipelineImpl;
struct WGPUBindGroupLayoutImpl;
struct WGPUBindGroupImpl;

namespace gull::gpu {

class Device;
class Commands;
struct DeviceState;

/// What the opened device can do, after the options that switch things off.
struct Caps {
  bool f16 = false;              ///< `enable f16` works in shaders
  bool subgroups = false;        ///< subgroup built-ins work
  bool linear_subgroups = false; ///< seen here: lane i of a subgroup is invocation i of a run of a 1-D workgroup
  bool timestamps = false, pass_timestamps = false;   ///< queries; also between the dispatches of a pass
  uint32_t immediate_bytes = 0;  ///< 0: no immediates
  bool packed_dot = false;       ///< dot4I8Packed
  bool trusted = false;          ///< shader modules without run-time checks
  bool naga = false;             ///< the shader dialect: naga's, else Tint's
  bool software = false;         ///< runs on the CPU
  bool chains = false;           ///< workgroups that have started go on while others wait for what they write
  uint32_t subgroup_min = 0, subgroup_max = 0;
  uint64_t max_buffer = 0, max_binding = 0, max_uniform = 0;
  uint32_t max_storage_buffers = 8, max_workgroup_memory = 16384, max_invocations = 256, max_workgroup_x = 256;
  uint32_t max_workgroups = 65535, storage_align = 256, uniform_align = 256;
};

/// What memory is for; the ledger counts by it.
enum class Memory { Weights, Kv, Activations, Parameters, Staging };

/// Bytes on the GPU by category, and the peak of their sum. Thread-safe.
class Ledger {
 public:
  void add(Memory kind, uint64_t bytes);
  void remove(Memory kind, uint64_t bytes);
  MemoryUse use() const;
  /// The most that one category ever held.
  uint64_t peak(Memory kind) const;

 private:
  mutable Mutex mutex_;
  std::array<uint64_t, 5> bytes_{}, peaks_{};
  uint64_t peak_ = 0;
};

enum Usage : uint32_t { kStorage = 1, kUniform = 2, kCopySrc = 4, kCopyDst = 8, kMapRead = 16, kQueryResolve = 32 };

/// GPU memory. Its id is never used again, so no cache entry can ever point at another buffer.
class Buffer {
 public:
  Buffer(std::shared_ptr<DeviceState> state, WGPUBufferImpl* handle, uint64_t id, uint64_t size, Memory kind);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint64_t id() const { return id_; }
  uint64_t size() const { return size_; }
  Memory kind() const { return kind_; }
  WGPUBufferImpl* handle() const { return handle_; }
  /// Gives the memory back now. Only when the GPU is idle and no bind group names the buffer (rule 4).
  void destroy();

 private:
  std::shared_ptr<DeviceState> state_;
  WGPUBufferImpl* handle_;
  uint64_t id_, size_;
  Memory kind_;
  bool destroyed_ = false;
};
using BufferRef = std::shared_ptr<Buffer>;

enum class BindingKind : uint8_t { ReadStorage, Storage, Uniform, DynamicUniform };

struct PipelineDesc {
  std::string label;
  std::string wgsl;                       ///< complete source, entry point `main`
  std::vector<BindingKind> bindings;      ///< of group 0, from binding 0
  uint32_t immediate_bytes = 0;
  bool trusted = true;                    ///< proven in bounds: checks may be left out where the device allows
};

class Pipeline {
 public:
  Pipeline(std::shared_ptr<DeviceState> state, WGPUComputePipelineImpl* handle, WGPUBindGroupLayoutImpl* layout,
           uint64_t id, std::vector<BindingKind> bindings, std::string label);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  uint64_t id() const { return id_; }
  const std::string& label() const { return label_; }
  const std::vector<BindingKind>& bindings() const { return bindings_; }
  WGPUComputePipelineImpl* handle() const { return handle_; }
  WGPUBindGroupLayoutImpl* layout() const { return layout_; }

 private:
  std::shared_ptr<DeviceState> state_;
  WGPUComputePipelineImpl* handle_;
  WGPUBindGroupLayoutImpl* layout_;
  uint64_t id_;
  std::vector<BindingKind> bindings_;
  std::string label_;
};
using PipelineRef = std::shared_ptr<Pipeline>;

/// A range of a buffer. Size 0 means to the end.
struct Binding {
  BufferRef buffer;
  uint64_t offset = 0, size = 0;
};

class BindGroup {
 public:
  BindGroup(std::shared_ptr<DeviceState> state, WGPUBindGroupImpl* handle);
  ~BindGroup();
  BindGroup(const BindGroup&) = delete;
  BindGroup& operator=(const BindGroup&) = delete;
  WGPUBindGroupImpl* handle() const { return handle_; }

 private:
  std::shared_ptr<DeviceState> state_;
  WGPUBindGroupImpl* handle_;
};
using BindGroupRef = std::shared_ptr<BindGroup>;

/// Names a submission, to wait for it.
struct Submission { uint64_t index = 0; };

/// A read-back under way.
struct MapAnswer;
struct Mapping {
  BufferRef buffer;
  uint64_t size = 0;
  std::shared_ptr<MapAnswer> answer;
};

/// An adapter opened for use. All functions are safe from several threads.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// Opens the adapter that the options ask for. Errors: none usable (says what to install), no match, creation failed.
  static Result<std::shared_ptr<Device>> open(const DeviceOptions& options);
  /// A device that has these capabilities and no GPU: it creates and counts everything and computes nothing, to tell what
  /// something takes before it is done. Reading back fails.
  static std::shared_ptr<Device> imaginary(const Caps& caps);
  ~Device();

  const Caps& caps() const { return caps_; }
  const DeviceInfo& info() const { return info_; }
  const DeviceOptions& options() const { return options_; }
  Ledger& ledger();

  /// Zero-filled memory; sizes are rounded up to 4 bytes. Errors: larger than the device's limit, out of memory.
  Result<BufferRef> create_buffer(uint64_t size, uint32_t usage, Memory kind, std::string_view label);
  /// Queued before every later submission. The length is padded with zeros to 4 bytes; offset must be a multiple of 4.
  Result<void> write(const Buffer& buffer, uint64_t offset, std::span<const std::byte> bytes);
  template <class T>
  Result<void> write(const Buffer& buffer, uint64_t offset, std::span<const T> values) {
    return write(buffer, offset, std::as_bytes(values));
  }
  /// Copies back and waits. `offset` and the length must be multiples of 4.
  Result<void> read(const Buffer& buffer, uint64_t offset, std::span<std::byte> out);
  template <class T>
  Result<void> read(const Buffer& buffer, uint64_t offset, std::span<T> out) {
    return read(buffer, offset, std::as_writable_bytes(out));
  }

  /// Errors carry the shader compiler's message.
  Result<PipelineRef> create_pipeline(const PipelineDesc& desc);
  Result<BindGroupRef> create_bind_group(const Pipeline& pipeline, std::span<const Binding> bindings);

  Result<Commands> begin();
  /// Errors: anything wrong in what was encoded (nothing is submitted then), device lost.
  Result<Submission> submit(Commands commands);
  Result<void> wait(Submission submission);
  Result<void> wait_idle();

  /// Starts to map the first `size` bytes of a kMapRead buffer, to be called after the submission that fills it.
  Mapping start_map(BufferRef buffer, uint64_t size);
  /// Waits for the mapping (and so for its submission, not for later ones), copies it out and unmaps.
  Result<void> finish_map(const Mapping& mapping, Submission submission, std::span<std::byte> out);

  /// The reason, once the device is lost or an error nobody caught was reported; else success.
  Result<void> healthy() const;
  uint64_t submissions() const { return submissions_; }
  /// Gives the device up: every later call fails with one clear message (also used to test device loss).
  void destroy();
  const std::shared_ptr<DeviceState>& state() const { return state_; }

 private:
  friend class Commands;
  Device() = default;
  Result<bool> probe_subgroups();
  std::shared_ptr<DeviceState> state_;
  Caps caps_;
  DeviceInfo info_;
  DeviceOptions options_;
  std::atomic<uint64_t> submissions_{0};
};

}  // namespace gull::gpu
