// Parameters of dispatches: immediates where the device has room for them, else slots of one uniform buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device.h"

namespace gull::dispatch {

/// How a pipeline takes its parameters.
enum class ParamMode : uint8_t { Immediates, Ring };

/// Immediates where `bytes` fit the device's limit and they are not switched off.
ParamMode choose_mode(const gpu::Caps& caps, uint32_t bytes, bool force_ring);

/// The declaration of `p` in a shader, of the WGSL struct `Params`, at `binding` of group 0 where it is a uniform.
std::string declare_params(ParamMode mode, uint32_t binding);

/// Slots for the parameters of one submission, in one uniform buffer that is bound with dynamic offsets.
/// A slot is written once and never again before `restart`: queue writes run before the whole command buffer, so a slot
/// written twice would give both dispatches the second value. Not thread-safe: belongs to whoever encodes.
class ParamRing {
 public:
  /// `slots` of `slot_bytes` (rounded up to the device's alignment).
  static Result<std::unique_ptr<ParamRing>> create(gpu::Device& device, uint32_t slots, uint32_t slot_bytes);

  /// The dynamic offset of a fresh slot that holds these bytes; none when all are taken: submit, then `restart`.
  std::optional<uint32_t> push(std::span<const std::byte> bytes);
  /// Queues the bytes of all slots taken: to be called right before the submission that reads them.
  Result<void> upload(gpu::Device& device);
  /// After that submission: every slot is free again, since later writes are queued behind it.
  void restart() { used_ = 0; }

  const gpu::BufferRef& buffer() const { return buffer_; }
  uint32_t slot_bytes() const { return slot_bytes_; }
  uint32_t used() const { return used_ / slot_bytes_; }
  uint32_t capacity() const { return static_cast<uint32_t>(shadow_.size()) / slot_bytes_; }

 private:
  gpu::BufferRef buffer_;
  std::vector<std::byte> shadow_;
  uint32_t slot_bytes_ = 0, used_ = 0;   ///< used_ in bytes
};

}  // namespace gull::dispatch
