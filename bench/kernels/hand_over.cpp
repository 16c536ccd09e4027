// How long it takes a workgroup to hand something to another that waits for it, within one dispatch: a chain of hops, each of which waits
// for the one before. That is what joined steps (dispatch/chain.h) are made of.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "gpu/commands.h"
#include "gpu/device.h"

using namespace gull;

namespace {

constexpr uint32_t kWords = 256;   // of a hop

struct Bench {
  gpu::Device& device;
  gpu::BufferRef words, plain;
  uint32_t hops;

  /// `body`: WGSL of hop `i` for thread `t`; word k of hop i is w[i * 256 + k], 0 until it is written.
  void run(const char* name, uint32_t groups, uint32_t threads, const std::string& body) {
    const std::string text = fmt::format(R"(
@group(0) @binding(0) var<storage, read_write> w: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read_write> o: array<u32>;
var<workgroup> shared_: array<u32, 256>;
fn hop(i: u32, t: u32) {{
{}
}}
@compute @workgroup_size({})
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {{
  for (var i = g.x; i < {}u; i += {}u) {{ hop(i, t); }}
}}
)", body, threads, hops, groups);
    auto pipeline = device.create_pipeline({name, text, {gpu::BindingKind::Storage, gpu::BindingKind::Storage}});
    if (!pipeline) return fmt::print("{}: {}\n", name, pipeline.error().message);
    auto group = device.create_bind_group(**pipeline, std::vector<gpu::Binding>{{words}, {plain}});
    if (!group) return fmt::print("{}: {}\n", name, group.error().message);
    const std::vector<uint32_t> zeros(words->size() / 4, 0);
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      if (!device.write(*words, 0, std::span<const uint32_t>(zeros)) || !device.wait_idle()) return fmt::print("{}: the device failed\n", name);
      const auto start = std::chrono::steady_clock::now();
      auto commands = device.begin();
      if (!commands) return fmt::print("{}: {}\n", name, commands.error().message);
      commands->dispatch(**pipeline, **group, {groups});
      if (!device.submit(std::move(*commands)) || !device.wait_idle()) return fmt::print("{}: the device failed\n", name);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    fmt::print("{:<46} {:4} groups of {:3}: {:.3f} us a hop\n", name, groups, threads, best * 1e6 / hops);
  }
};

}  // namespace

int main() {
  auto device = gpu::Device::open({});
  if (!device) return fmt::print(stderr, "{}\n", device.error().message), 1;
  const bool software = (*device)->caps().software;   // LLVM takes an atomic load out of a loop
  const uint32_t hops = software ? 200 : 4000;
  constexpr uint32_t usage = gpu::kStorage | gpu::kCopyDst;
  auto words = (*device)->create_buffer(uint64_t{hops} * kWords * 4, usage, gpu::Memory::Activations, "words");
  auto plain = (*device)->create_buffer(kWords * 4, usage, gpu::Memory::Activations, "plain");
  if (!words || !plain) return fmt::print(stderr, "no memory\n"), 1;
  Bench bench{**device, *words, *plain, hops};
  fmt::print("{}\n", (*device)->info().name);
  const auto look = [&](const char* at) { return software ? fmt::format("atomicOr(&w[{}], 0u)", at) : fmt::format("atomicLoad(&w[{}])", at); };
  const std::string one = "  if (t == 0u) { if (i > 0u) { while (" + look("(i - 1u) * 256u") + " == 0u) {} } atomicStore(&w[i * 256u], i + 1u); }\n  workgroupBarrier();";
  const std::string all = "  var v = 1u;\n  if (i > 0u) { loop { v = " + look("(i - 1u) * 256u + t") + "; if (v != 0u) { break; } } }\n  shared_[t] = v;\n  workgroupBarrier();\n"
                          "  atomicStore(&w[i * 256u + t], shared_[255u - t] + 1u);\n  workgroupBarrier();";
  const std::string flag = "  if (i > 0u) { if (t == 0u) { while (" + look("(i - 1u) * 256u") + " == 0u) {} } storageBarrier(); }\n  shared_[t] = o[t] + 1u;\n  workgroupBarrier();\n"
                           "  o[t] = shared_[255u - t];\n  storageBarrier();\n  if (t == 0u) { atomicStore(&w[i * 256u], 1u); }";
  for (const uint32_t groups : software ? std::vector<uint32_t>{2} : std::vector<uint32_t>{2, 16, 128}) {
    bench.run("one word", groups, 32, one);
    bench.run("256 words that say whether they are written", groups, 256, all);
    bench.run("256 plain words, a flag and device barriers", groups, 256, flag);
  }
}
