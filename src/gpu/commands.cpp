#include "gpu/commands.h"

#include "base/log.h"
#include "gpu/state.h"

namespace gull::gpu {

Result<Commands> Device::begin() {
  if (auto ok = healthy(); !ok) return fail(ok.error());
  Commands commands;
  commands.state_ = state_;
  commands.max_workgroups_ = caps_.max_workgroups;
  commands.encoder_ = state_->procs->DeviceCreateCommandEncoder(state_->device, nullptr);
  return commands;
}

Commands::Commands() = default;

Commands::Commands(Commands&& other) noexcept
    : state_(std::move(other.state_)), encoder_(std::exchange(other.encoder_, nullptr)), pass_(std::exchange(other.pass_, nullptr)),
      last_pipeline_(other.last_pipeline_), profiler_(other.profiler_), dispatches_(other.dispatches_),
      max_workgroups_(other.max_workgroups_), problem_(std::move(other.problem_)), gathered_(std::move(other.gathered_)) {}

Commands::~Commands() {
  close_pass();
  if (encoder_) state_->procs->CommandEncoderRelease(encoder_);
}

void Commands::problem(std::string message) {
  if (problem_.empty()) problem_ = std::move(message);
}

void Commands::open_pass() {
  if (pass_) return;
  WGPUComputePassDescriptor desc{};
  WGPUPassTimestampWrites writes{};
  if (profiler_ && !profiler_->inside_) {
    writes.querySet = profiler_->queries_;
    writes.beginningOfPassWriteIndex = 2 * profiler_->used_;
    writes.endOfPassWriteIndex = 2 * profiler_->used_ + 1;
    desc.timestampWrites = &writes;
    ++profiler_->used_;
  }
  pass_ = state_->procs->CommandEncoderBeginComputePass(encoder_, &desc);
  if (profiler_ && profiler_->inside_ && profiler_->used_ == 0) profiler_->stamp(pass_, 0);
  last_pipeline_ = nullptr;
}

void Commands::close_pass() {
  if (!pass_) return;
  encode_gathered();
  state_->procs->ComputePassEncoderEnd(pass_);
  state_->procs->ComputePassEncoderRelease(pass_);
  pass_ = nullptr;
}

/// A call into JavaScript costs more than a dispatch, so a pass's dispatches cross over together.
void Commands::encode_gathered() {
  if (gathered_.empty()) return;
  state_->procs->ext.replay(pass_, gathered_.data(), gathered_.size());
  gathered_.clear();
  last_pipeline_ = nullptr;
}

void Commands::dispatch(const Pipeline& pipeline, const BindGroup& group, Workgroups n, const uint32_t* dynamic_offset,
                        std::span<const std::byte> immediates) {
  if (n.x == 0 || n.y == 0 || n.z == 0) return;
  if (n.x > max_workgroups_ || n.y > max_workgroups_ || n.z > max_workgroups_)
    return problem(fmt::format("{}: {}×{}×{} workgroups, the device allows {} a dimension", pipeline.label(), n.x, n.y, n.z, max_workgroups_));
  if (profiler_) {
    if (!profiler_->inside_) close_pass();
    if (profiler_->used_ >= profiler_->capacity_) return problem("more dispatches than the profiler can time");
    profiler_->labels_.push_back(pipeline.label());
  }
  open_pass();
  ++dispatches_;
  const Procs& procs = *state_->procs;
  if (procs.ext.replay && immediates.empty()) {
    gathered_.push_back({pipeline.handle(), group.handle(), n.x, n.y, n.z, dynamic_offset ? *dynamic_offset : 0, dynamic_offset != nullptr});
    return;
  }
  encode_gathered();
  if (last_pipeline_ != &pipeline) procs.ComputePassEncoderSetPipeline(pass_, pipeline.handle());
  last_pipeline_ = &pipeline;
  procs.ComputePassEncoderSetBindGroup(pass_, 0, group.handle(), dynamic_offset ? 1 : 0, dynamic_offset);
  if (!immediates.empty()) procs.ext.set_immediates(pass_, 0, immediates.data(), immediates.size());
  procs.ComputePassEncoderDispatchWorkgroups(pass_, n.x, n.y, n.z);
  if (profiler_ && profiler_->inside_) profiler_->stamp(pass_, ++profiler_->used_);
}

void Commands::copy(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset, uint64_t size) {
  const auto outside = [size](const Buffer& b, uint64_t offset) { return size > b.size() || offset > b.size() - size; };
  if (size % 4 || from_offset % 4 || to_offset % 4 || outside(from, from_offset) || outside(to, to_offset))
    return problem("a copy between buffers is outside them, or not a multiple of 4 bytes");
  close_pass();
  state_->procs->CommandEncoderCopyBufferToBuffer(encoder_, from.handle(), from_offset, to.handle(), to_offset, size);
}

Result<std::unique_ptr<Profiler>> Profiler::create(Device& device, uint32_t max_dispatches) {
  if (!device.caps().timestamps) return fail(ErrorKind::Unsupported, "this device has no timestamp queries: --profile needs them");
  auto profiler = std::unique_ptr<Profiler>(new Profiler());
  profiler->state_ = device.state();
  profiler->device_ = &device;
  profiler->capacity_ = std::min<uint32_t>(max_dispatches, 2048);
  WGPUQuerySetDescriptor desc{};
  desc.type = WGPUQueryType_Timestamp;
  desc.count = 2 * profiler->capacity_;
  profiler->inside_ = device.caps().pass_timestamps;
  auto ok = checked(*profiler->state_, "timestamp queries",
                    [&] { profiler->queries_ = profiler->state_->procs->DeviceCreateQuerySet(profiler->state_->device, &desc); });
  if (!ok) return fail(ok.error());
  auto buffer = device.create_buffer(desc.count * 8, kQueryResolve | kCopySrc, Memory::Staging, "timestamps");
  if (!buffer) return fail(buffer.error());
  profiler->resolved_ = *buffer;
  return profiler;
}

Profiler::~Profiler() {
  if (queries_) state_->procs->QuerySetRelease(queries_);
}

void Profiler::stamp(WGPUComputePassEncoderImpl* pass, uint32_t index) { state_->procs->ext.write_timestamp(pass, queries_, index); }

void Profiler::attach(Commands& commands) { commands.profiler_ = this; }

void Profiler::resolve(Commands& commands) {
  commands.close_pass();
  commands.profiler_ = nullptr;
  if (used_) state_->procs->CommandEncoderResolveQuerySet(commands.encoder_, queries_, 0, stamps(), resolved_->handle(), 0);
}

Result<std::vector<ProfileEntry>> Profiler::collect() {
  if (used_ == 0) return std::vector<ProfileEntry>{};
  std::vector<uint64_t> times(stamps());
  if (auto ok = device_->read(*resolved_, 0, std::span<uint64_t>(times)); !ok) return fail(ok.error());
  const auto period = state_->procs->ext.timestamp_period;
  const double tick = period ? period(state_->queue) : 1.0;
  std::vector<ProfileEntry> out;
  for (uint32_t i = 0; i < used_; ++i) {
    const uint64_t begin = times[inside_ ? i : 2 * i], end = times[inside_ ? i + 1 : 2 * i + 1];
    out.push_back({labels_[i], static_cast<uint64_t>(static_cast<double>(end - begin) * tick)});
  }
  return out;
}

}  // namespace gull::gpu
