#include "compute/stream.h"

#include <algorithm>
#include <utility>

namespace gull::compute {
namespace {

constexpr uint32_t kSlotBytes = 256;       // what any operation's parameters take at most
constexpr double kWorkOfOneSubmission = 2e10;

}  // namespace

Result<std::unique_ptr<Stream>> Stream::create(std::shared_ptr<gpu::Device> device, uint32_t max_pending) {
  auto stream = std::make_unique<Stream>();
  stream->max_pending_ = std::max(max_pending, 1u);
  auto ring = dispatch::ParamRing::create(*device, std::clamp(max_pending, 64u, 4096u), kSlotBytes);
  if (!ring) return fail(ring.error());
  stream->ring_ = std::move(*ring);
  stream->device_ = std::move(device);
  return stream;
}

Result<void> Stream::begin() {
  if (commands_) return {};
  auto commands = device_->begin();
  if (!commands) return fail(commands.error());
  commands_.emplace(std::move(*commands));
  return {};
}

Result<void> Stream::dispatch(const dispatch::GroupEntry& entry, dispatch::ParamMode mode, std::span<const std::byte> params,
                              gpu::Workgroups n, double work) {
  std::optional<uint32_t> slot;
  if (mode == dispatch::ParamMode::Ring) {
    slot = ring_->push(params);
    if (!slot) {
      if (auto ok = flush(); !ok) return fail(ok.error());
      slot = ring_->push(params);
    }
    param_bytes_ += params.size();
  }
  if (auto ok = begin(); !ok) return ok;
  commands_->dispatch(*entry.pipeline, *entry.group, n, slot ? &*slot : nullptr, slot ? std::span<const std::byte>{} : params);
  ++dispatches_;
  work_ += work;
  if (++pending_ < max_pending_ && work_ < kWorkOfOneSubmission) return {};
  if (auto ok = flush(); !ok) return fail(ok.error());
  return {};
}

Result<void> Stream::copy(const gpu::Buffer& from, uint64_t from_offset, const gpu::Buffer& to, uint64_t to_offset, uint64_t size) {
  if (auto ok = begin(); !ok) return ok;
  commands_->copy(from, from_offset, to, to_offset, size);
  ++pending_;
  return {};
}

Result<gpu::Submission> Stream::flush() {
  if (!commands_ || pending_ == 0) return last_;
  const auto uploaded = ring_->upload(*device_);
  ring_->restart();
  gpu::Commands commands = std::move(*commands_);
  commands_.reset();
  pending_ = 0;
  work_ = 0;
  if (!uploaded) return fail(uploaded.error());
  auto submission = device_->submit(std::move(commands));
  if (!submission) return submission;
  last_ = *submission;
  gpu::Submission& slot = in_flight_[submitted_++ % in_flight_.size()];
  const gpu::Submission oldest = std::exchange(slot, last_);
  if (submitted_ <= in_flight_.size()) return last_;
  if (auto ok = device_->wait(oldest); !ok) return fail(ok.error());
  return last_;
}

Result<void> Stream::synchronize() {
  gpu::Submission last;
  {
    Lock lock(mutex_);
    auto submission = flush();
    if (!submission) return fail(submission.error());
    last = *submission;
    if (submitted_ == 0) return device_->healthy();
  }
  return device_->wait(last);
}

}  // namespace gull::compute
