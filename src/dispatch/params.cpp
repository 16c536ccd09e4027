#include "dispatch/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace gull::dispatch {

ParamMode choose_mode(const gpu::Caps& caps, uint32_t bytes, bool force_ring) {
  return !force_ring && bytes <= caps.immediate_bytes ? ParamMode::Immediates : ParamMode::Ring;
}

std::string declare_params(ParamMode mode, uint32_t binding) {
  if (mode == ParamMode::Immediates) return "var<immediate> p: Params;\n";
  return fmt::format("@group(0) @binding({}) var<uniform> p: Params;\n", binding);
}

Result<std::unique_ptr<ParamRing>> ParamRing::create(gpu::Device& device, uint32_t slots, uint32_t slot_bytes) {
  const uint32_t align = std::max(device.caps().uniform_align, 16u);
  auto ring = std::make_unique<ParamRing>();
  ring->slot_bytes_ = (slot_bytes + align - 1) / align * align;
  const uint64_t bytes = uint64_t{ring->slot_bytes_} * std::max(slots, 1u);
  auto buffer = device.create_buffer(bytes, gpu::kUniform | gpu::kCopyDst, gpu::Memory::Parameters, "parameters");
  if (!buffer) return fail(buffer.error());
  ring->buffer_ = std::move(*buffer);
  ring->shadow_.resize(bytes);
  return ring;
}

std::optional<uint32_t> ParamRing::push(std::span<const std::byte> bytes) {
  if (used_ + slot_bytes_ > shadow_.size() || bytes.size() > slot_bytes_) return std::nullopt;
  std::memcpy(shadow_.data() + used_, bytes.data(), bytes.size());
  const uint32_t offset = used_;
  used_ += slot_bytes_;
  return offset;
}

Result<void> ParamRing::upload(gpu::Device& device) {
  if (used_ == 0) return {};
  return device.write(*buffer_, 0, std::span<const std::byte>(shadow_.data(), used_));
}

}  // namespace gull::dispatch
