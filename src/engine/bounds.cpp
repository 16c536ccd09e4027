// What a device can do at most, as simple loops measure it: profiles are held against that.
#include <algorithm>
#include <chrono>

#include "engine/impl.h"
#include "kernels/wgsl.h"

namespace gull {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kWorkgroups = 2048, kGroup = 256;

/// Each thread reads 16 bytes of every 8 MiB; neighbours read neighbours.
constexpr std::string_view kRead = R"(
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> sink: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  var sum = vec4<u32>(0u);
  for (var i = g.x; i < $N$; i += $STEP$) { sum ^= source[i]; }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u) { sink[0] = sum.z; }
}
)";

/// Eight independent sums a thread.
constexpr std::string_view kMultiply = R"(
@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> sink: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  let p = source[g.x % 64u];
  $DECLARE$
  for (var i = 0u; i < $N$; i++) { $STEP$ }
  if ($SUM$ == $T$(1234567)) { sink[0] = 1u; }
}
)";

std::string multiply_text(bool packed, uint32_t turns) {
  std::string declare, step, sum;
  for (int i = 0; i < 8; ++i) {
    declare += packed ? fmt::format("var s{0} = i32(p.x) + {0}; ", i) : fmt::format("var s{0} = f32(p.x) + {0}.5; ", i);
    step += packed ? fmt::format("s{0} += dot4I8Packed(u32(s{0}), p.{1}); ", i, "xyzw"[i % 4]) : fmt::format("s{0} = s{0} * f32(p.{1}) + {0}.25; ", i, "xyzw"[i % 4]);
    sum += fmt::format("{}s{}", i ? " + " : "", i);
  }
  return kernels::expand(kMultiply, {{"DECLARE", declare}, {"STEP", step}, {"SUM", sum}, {"N", turns}, {"T", packed ? "i32" : "f32"}});
}

/// Seconds that one dispatch takes, when enough of them follow each other to fill a tenth of a second.
Result<double> seconds_of(gpu::Device& device, const gpu::PipelineDesc& desc, const gpu::BufferRef& from, const gpu::BufferRef& to, uint32_t workgroups) {
  auto pipeline = device.create_pipeline(desc);
  if (!pipeline) return fail(pipeline.error());
  auto group = device.create_bind_group(**pipeline, std::vector<gpu::Binding>{{from}, {to}});
  if (!group) return fail(group.error());
  for (uint32_t count = 1;; count *= 4) {
    auto commands = device.begin();
    if (!commands) return fail(commands.error());
    for (uint32_t i = 0; i < count; ++i) commands->dispatch(**pipeline, **group, {workgroups, 1, 1});
    const auto start = Clock::now();
    if (auto ok = device.submit(std::move(*commands)); !ok) return fail(ok.error());
    if (auto ok = device.wait_idle(); !ok) return fail(ok.error());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds > 0.1 || count >= 4096) return seconds / count;
  }
}

}  // namespace

Result<DeviceBounds> Session::device_bounds() {
  Model::Impl& model = impl_->m();
  gpu::Device& device = *model.device;
  const gpu::Caps& caps = device.caps();
  const uint32_t workgroups = caps.software ? 16 : kWorkgroups, threads = workgroups * kGroup, turns = caps.software ? 256 : 1024;
  const uint64_t bytes = std::min<uint64_t>({caps.max_binding, caps.max_buffer, uint64_t{caps.software ? 32u << 20 : 1u << 30}}) & ~uint64_t{255};
  auto from = device.create_buffer(bytes, gpu::kStorage, gpu::Memory::Activations, "bounds");
  if (!from) return fail(from.error());
  auto to = device.create_buffer(256, gpu::kStorage, gpu::Memory::Activations, "bounds");
  if (!to) return fail(to.error());
  const bool packed = model.choices.packed_dot;
  DeviceBounds out;
  const std::vector<gpu::BindingKind> kinds = {gpu::BindingKind::ReadStorage, gpu::BindingKind::Storage};
  const std::string read_text = kernels::expand(kRead, {{"N", static_cast<uint32_t>(bytes / 16)}, {"STEP", threads}});
  auto read = seconds_of(device, {"bounds: read", read_text, kinds}, *from, *to, workgroups);
  if (!read) return fail(read.error());
  auto multiply = seconds_of(device, {"bounds: multiply", multiply_text(packed, turns), kinds}, *from, *to, workgroups);
  if (!multiply) return fail(multiply.error());
  out.bytes_per_second = static_cast<double>(bytes) / *read;
  out.operations_per_second = 8.0 * (packed ? 8 : 2) * turns * threads / *multiply;
  return out;
}

}  // namespace gull
