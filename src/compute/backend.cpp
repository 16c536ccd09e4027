// The backend itself: opening the device, memory, copies, counters.
#include <algorithm>
#include <cstring>

#include "compute/impl.h"

namespace gull {

using namespace compute;

ComputeBackend::ComputeBackend(ComputeOptions options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
ComputeBackend::~ComputeBackend() = default;

Result<void> ComputeBackend::init() {
  Impl& impl = *impl_;
  Lock lock(impl.init_mutex);
  if (impl.ready) return {};
  auto device = gpu::Device::open(impl.options.device);
  if (!device) return fail(device.error());
  if (impl.options.params == ParamTransport::Immediates && (*device)->caps().immediate_bytes == 0)
    return fail_f(ErrorKind::Unsupported, "{} has no immediates: ask for ParamTransport::Auto", (*device)->info().name);
  auto stream = Stream::create(*device, impl.options.max_pending);
  if (!stream) return fail(stream.error());
  impl.device = *device;
  impl.stream = std::move(*stream);
  impl.pipelines = std::make_unique<dispatch::PipelineCache>(*device);
  impl.groups = std::make_unique<dispatch::BindGroupCache>(impl.options.cached_groups);
  impl.pool = std::make_unique<dispatch::BufferPool>(*device, gpu::Memory::Activations, impl.options.max_idle_bytes);
  impl.ready.store(true, std::memory_order_release);
  return {};
}

bool ComputeBackend::is_initialized() const { return impl_->ready.load(std::memory_order_acquire); }

Result<ComputeCapabilities> ComputeBackend::capabilities() const {
  if (auto ok = impl_->initialised(); !ok) return fail(ok.error());
  const gpu::Caps& caps = impl_->caps();
  ComputeCapabilities out;
  out.device = impl_->device->info();
  out.f16 = caps.f16;
  out.subgroups = caps.subgroups;
  out.immediates = caps.immediate_bytes > 0 && impl_->options.params != ParamTransport::Ring;
  out.software = caps.software;
  out.max_alloc = caps.max_buffer;
  out.max_binding = caps.max_binding;
  out.max_bindings = caps.max_storage_buffers;
  out.workgroup_memory = caps.max_workgroup_memory;
  out.workgroup_invocations = caps.max_invocations;
  out.max_elements = kMaxElements;
  return out;
}

Result<std::vector<DeviceInfo>> ComputeBackend::available_devices() const { return list_devices(impl_->options.device); }

Result<void> ComputeBackend::synchronize() {
  if (auto ok = impl_->initialised(); !ok) return ok;
  return impl_->stream->synchronize();
}

Result<Handle> ComputeBackend::alloc(uint64_t bytes) {
  if (auto ok = impl_->initialised(); !ok) return fail(ok.error());
  return impl_->alloc(bytes);
}

Result<void> ComputeBackend::free(Handle handle) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  return impl_->release(handle);
}

Result<uint64_t> ComputeBackend::size(Handle handle) const {
  if (auto ok = impl_->initialised(); !ok) return fail(ok.error());
  auto entry = impl_->table.find(handle);
  if (!entry) return fail(entry.error());
  return entry->bytes;
}

namespace {

Result<BufferTable::Entry> find_range(const BufferTable& table, const char* op, Handle handle, uint64_t offset, uint64_t size) {
  auto entry = table.find(handle);
  if (!entry) return entry;
  if (size <= entry->bytes && offset <= entry->bytes - size) return entry;
  return fail_f(ErrorKind::InvalidArgument, "{}: handle {} holds {} bytes, need {}", op, handle, entry->bytes,
                size > UINT64_MAX - offset ? UINT64_MAX : offset + size);
}

/// Copies out whole words around a range: [from, from + bytes.size()), multiples of 4. Waits. The stream must not be locked.
Result<void> read_words(ComputeBackend::Impl& impl, Handle handle, uint64_t from, std::span<std::byte> bytes) {
  auto staging = impl.device->create_buffer(bytes.size(), gpu::kMapRead | gpu::kCopyDst, gpu::Memory::Staging, "copy_to_host");
  if (!staging) return fail(staging.error());
  gpu::Submission submission;
  {
    Lock lock(impl.stream->mutex());
    auto entry = impl.table.find(handle);
    if (!entry) return fail(entry.error());
    if (auto ok = impl.stream->copy(*entry->buffer, from, **staging, 0, bytes.size()); !ok) return ok;
    auto made = impl.stream->flush();
    if (!made) return fail(made.error());
    submission = *made;
  }
  return impl.device->finish_map(impl.device->start_map(*staging, bytes.size()), submission, bytes);
}

/// Bytes that start or end within a word: the rest of the word is read first, and written back unchanged.
Result<void> write_ragged(ComputeBackend::Impl& impl, Handle handle, uint64_t offset, std::span<const std::byte> bytes) {
  const uint64_t from = offset & ~uint64_t{3}, to = (offset + bytes.size() + 3) & ~uint64_t{3};
  std::vector<std::byte> words(to - from);
  if (auto ok = read_words(impl, handle, from, std::span(words).first(4)); !ok) return ok;
  if (words.size() > 4)
    if (auto ok = read_words(impl, handle, to - 4, std::span(words).last(4)); !ok) return ok;
  std::memcpy(words.data() + (offset - from), bytes.data(), bytes.size());
  Lock lock(impl.stream->mutex());
  auto entry = impl.table.find(handle);
  if (!entry) return fail(entry.error());
  if (auto flushed = impl.stream->flush(); !flushed) return fail(flushed.error());
  return impl.device->write(*entry->buffer, from, std::span<const std::byte>(words));
}

}  // namespace

Result<void> ComputeBackend::copy_to_device(Handle to, std::span<const std::byte> bytes, uint64_t offset) {
  Impl& impl = *impl_;
  if (auto ok = impl.initialised(); !ok) return ok;
  {
    // Under the stream's lock, so that the memory cannot be freed and given to somebody else in between.
    Lock lock(impl.stream->mutex());
    auto entry = find_range(impl.table, "copy_to_device", to, offset, bytes.size());
    if (!entry) return fail(entry.error());
    if (bytes.empty()) return {};
    const bool to_end = offset + bytes.size() == entry->bytes;
    if (offset % 4 == 0 && (bytes.size() % 4 == 0 || to_end)) {
      // A queue write comes before everything that is recorded and not yet submitted.
      if (auto flushed = impl.stream->flush(); !flushed) return fail(flushed.error());
      return impl.device->write(*entry->buffer, offset, bytes);
    }
  }
  return write_ragged(impl, to, offset, bytes);
}

Result<void> ComputeBackend::copy_to_host(Handle from, std::span<std::byte> bytes, uint64_t offset) {
  Impl& impl = *impl_;
  if (auto ok = impl.initialised(); !ok) return ok;
  auto entry = find_range(impl.table, "copy_to_host", from, offset, bytes.size());
  if (!entry) return fail(entry.error());
  if (bytes.empty()) return {};
  if (offset % 4 == 0 && bytes.size() % 4 == 0) return read_words(impl, from, offset, bytes);
  const uint64_t first = offset & ~uint64_t{3}, last = (offset + bytes.size() + 3) & ~uint64_t{3};
  std::vector<std::byte> words(last - first);
  if (auto ok = read_words(impl, from, first, words); !ok) return ok;
  std::memcpy(bytes.data(), words.data() + (offset - first), bytes.size());
  return {};
}

Result<uint64_t> ComputeBackend::trim() {
  if (auto ok = impl_->initialised(); !ok) return fail(ok.error());
  return impl_->pool->trim();
}

ComputeStats ComputeBackend::stats() const {
  ComputeStats out;
  if (!is_initialized()) return out;
  const dispatch::PipelineStats pipelines = impl_->pipelines->stats();
  out.pipeline_hits = pipelines.hits;
  out.pipeline_builds = pipelines.builds;
  out.pipeline_failures = pipelines.failures;
  out.pipelines_live = pipelines.live;
  const dispatch::GroupStats groups = impl_->groups->stats();
  out.group_hits = groups.hits;
  out.group_misses = groups.misses;
  out.group_builds = groups.builds;
  out.group_rebuilds = groups.rebuilds;
  out.group_evictions = groups.evictions;
  out.group_freed = groups.freed;
  out.groups_live = groups.live;
  out.group_order_length = groups.order_length;
  out.dispatches = impl_->stream->dispatches();
  out.param_bytes = impl_->stream->param_bytes();
  out.submissions = impl_->device->submissions();
  out.handles_live = impl_->table.count();
  out.handle_bytes = impl_->table.bytes();
  const dispatch::PoolStats pool = impl_->pool->stats();
  out.pool_created = pool.created;
  out.pool_reused = pool.reused;
  out.pool_idle_bytes = pool.idle_bytes;
  out.pool_trimmed_bytes = pool.trimmed_bytes;
  out.memory = impl_->device->ledger().use();
  return out;
}

}  // namespace gull
