// Encoding of one submission: dispatches and copies, in order.
#pragma once

#include "gpu/device.h"

struct WGPUCommandEncoderImpl;
struct WGPUComputePassEncoderImpl;
struct WGPUQuerySetImpl;

namespace gull::gpu {

struct ReplayStep;
struct Workgroups { uint32_t x = 1, y = 1, z = 1; };

/// GPU time of labelled dispatches, by timestamp queries.
struct ProfileEntry { std::string label; uint64_t nanoseconds = 0; };

class Commands {
 public:
  Commands(Commands&& other) noexcept;
  Commands& operator=(Commands&&) = delete;
  ~Commands();

  /// Records a dispatch. Zero workgroups records nothing; beyond the device's count is an error at submit.
  /// The pipeline and the group must live until the submission.
  void dispatch(const Pipeline& pipeline, const BindGroup& group, Workgroups n, const uint32_t* dynamic_offset = nullptr,
                std::span<const std::byte> immediates = {});
  void copy(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset, uint64_t size);
  uint64_t dispatches() const { return dispatches_; }

 private:
  friend class Device;
  friend class Profiler;
  Commands();
  void open_pass();
  void close_pass();
  void encode_gathered();
  void problem(std::string message);

  std::shared_ptr<DeviceState> state_;
  WGPUCommandEncoderImpl* encoder_ = nullptr;
  WGPUComputePassEncoderImpl* pass_ = nullptr;
  const void* last_pipeline_ = nullptr;
  class Profiler* profiler_ = nullptr;
  uint64_t dispatches_ = 0;
  uint32_t max_workgroups_ = 65535;
  std::string problem_;
  std::vector<ReplayStep> gathered_;   ///< where an implementation encodes a list in one call (browsers)
};

/// Wraps Commands so that each dispatch is timed. One use: attach, encode, submit, collect. Where timestamps can be written
/// inside a pass, a dispatch's time runs from the end of the one before, its wait for that one included; elsewhere each
/// dispatch gets a pass of its own.
class Profiler {
 public:
  static Result<std::unique_ptr<Profiler>> create(Device& device, uint32_t max_dispatches);
  ~Profiler();
  void attach(Commands& commands);
  /// Resolves into the commands; call last before submit.
  void resolve(Commands& commands);
  /// After the submission: the times, in order of dispatch.
  Result<std::vector<ProfileEntry>> collect();

 private:
  friend class Commands;
  Profiler() = default;
  std::shared_ptr<DeviceState> state_;
  Device* device_ = nullptr;
  WGPUQuerySetImpl* queries_ = nullptr;
  BufferRef resolved_;
  uint32_t capacity_ = 0, used_ = 0;
  bool inside_ = false;   ///< timestamps 0…used: before the first dispatch, and after each; else two a dispatch
  std::vector<std::string> labels_;
  void stamp(WGPUComputePassEncoderImpl* pass, uint32_t index);
  uint32_t stamps() const { return inside_ ? used_ + 1 : 2 * used_; }
};

}  // namespace gull::gpu
