// Steps joined into one dispatch: what is handed on arrives whole, replay after replay, and waiting ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "dispatch/chain.h"
#include "dispatch/wgsl.h"

namespace gull::dispatch {
namespace {

constexpr uint32_t kThreads = 32;

std::shared_ptr<gpu::Device> device() {
  static const std::shared_ptr<gpu::Device> opened = [] {
    auto result = gpu::Device::open({});
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or(nullptr);
  }();
  return opened;
}

gpu::BufferRef buffer(uint64_t words) {
  auto made = device()->create_buffer(words * 4, gpu::kStorage | gpu::kCopySrc | gpu::kCopyDst, gpu::Memory::Activations, "test");
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(nullptr);
}

Result<gpu::BufferRef> make_area(uint64_t bytes) { return buffer(bytes / 4); }

std::vector<uint32_t> read(const gpu::BufferRef& from, size_t count) {
  std::vector<uint32_t> out(count);
  auto ok = device()->read(*from, 0, std::span<uint32_t>(out));
  EXPECT_TRUE(ok) << ok.error().message;
  return out;
}

/// y[i] = 3·x[i] + 1, put at word `to` + i.
gpu::PipelineDesc first(uint32_t to) {
  return {"first", expand(R"(
struct Pair { value: u32, other: u32 };
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> held: array<u32, 4 * 8>;
fn changed(value: u32) -> Pair { return Pair(value * 3u + 1u, 0u); }
@compute @workgroup_size(32u)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  held[t] = changed(x[g.x * 32u + t]).value;
  workgroupBarrier();
  let i = g.x * 32u + (31u - t);
  y[i] = held[31u - t];
  put($TO$ + i, held[31u - t]);
}
)", {{"TO", to}}), {gpu::BindingKind::ReadStorage, gpu::BindingKind::Storage}, 0, false};
}

/// z[i] = the sum of y[i], y[i + stride] …, taken from word `from`, and put at word `to` + i.
gpu::PipelineDesc second(uint32_t from, uint32_t to, uint32_t count, uint32_t stride) {
  return {"second", expand(R"(
@group(0) @binding(0) var<storage, read_write> z: array<u32>;
var<workgroup> held: array<u32, 32>;
var<workgroup> more: array<vec4<f32>, 2>;
fn changed(value: u32) -> u32 { return value; }
@compute @workgroup_size(32u)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let i = g.x * 32u + t;
  var sum = n.y - 1u;
  for (var k = i; k < $N$; k += $STRIDE$) { sum += changed(take($FROM$ + k, look($FROM$ + k))); }
  held[t] = sum;
  z[i] = held[t];
  put($TO$ + i, sum);
}
)", {{"FROM", from}, {"TO", to}, {"N", count}, {"STRIDE", stride}}), {gpu::BindingKind::Storage}, 0, false};
}

StepDesc step(const std::string& key, gpu::PipelineDesc desc, std::vector<Operand> operands, uint32_t workgroups, bool takes) {
  auto link = make_link(key, std::move(desc), takes);
  EXPECT_TRUE(link);
  return {nullptr, std::move(operands), {workgroups}, {}, {}, {}, link};
}

/// Many more workgroups than a device runs at once, each waiting for several of the step before; three chains that share memory.
TEST(Chain, HandsOnWhatWasPutReplayAfterReplay) {
  constexpr uint32_t kFirst = 400, kSecond = 100, kCount = kFirst * kThreads, kStride = kSecond * kThreads;
  constexpr uint32_t kY = kAreaHead, kZ = kY + kCount, kEnd = kZ + kStride;
  const auto x = buffer(kCount), y = buffer(kCount), z = buffer(kStride), sums = buffer(kStride);
  PipelineCache pipelines(device());
  Plan plan(device());
  for (int chain = 0; chain < 3; ++chain) {
    plan.begin_segment();
    plan.add(step("first", first(kY), {x, y}, kFirst, false));
    plan.add(step("second", second(kY, kZ, kCount, kStride), {z}, kSecond, true));
    plan.add(step("third", second(kZ, kZ, kStride, kStride), {sums}, kSecond, true));
    plan.add(step("fourth", first(kY), {sums, x}, kSecond, false));   // the next chain's x: 3·sums + 1 in its first words
  }
  auto joined = chained(plan, pipelines, kEnd, make_area);
  ASSERT_TRUE(joined) << joined.error().message;
  ASSERT_TRUE(*joined);
  EXPECT_EQ((*joined)->steps(), 3u);
  EXPECT_EQ(pipelines.stats().builds, 1u);   // three equal chains are one pipeline

  std::vector<uint32_t> model(kCount);
  for (uint32_t replay = 0; replay < 5; ++replay) {
    for (uint32_t i = 0; i < kCount; ++i) model[i] = i * 7 + replay;
    ASSERT_TRUE(device()->write(*x, 0, std::span<const uint32_t>(model)));
    auto commands = device()->begin();
    ASSERT_TRUE(commands);
    ASSERT_TRUE((*joined)->run(*commands, {1, 1, 1}));
    ASSERT_TRUE(device()->submit(std::move(*commands)));
    std::vector<uint32_t> expected(kStride);
    for (int chain = 0; chain < 3; ++chain) {
      std::fill(expected.begin(), expected.end(), 0);
      for (uint32_t i = 0; i < kCount; ++i) expected[i % kStride] += 3 * model[i] + 1;
      for (uint32_t i = 0; i < kStride; ++i) model[i] = 3 * expected[i] + 1;
    }
    ASSERT_EQ(read(sums, kStride), expected) << "replay " << replay;
  }
}

/// What a link computes must not depend on whether it stands alone.
TEST(Chain, ALinkAloneIsCompiledAsItIs) {
  const auto x = buffer(64), y = buffer(64);
  PipelineCache pipelines(device());
  auto pipeline = pipelines.get("alone", [&] { return alone(*make_link("a", first(kAreaHead), false)); });
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  std::vector<uint32_t> values(64, 5);
  ASSERT_TRUE(device()->write(*x, 0, std::span<const uint32_t>(values)));
  Plan plan(device());
  plan.add({*pipeline, {x, y}, {2}});
  auto commands = device()->begin();
  ASSERT_TRUE(plan.run(*commands, {1, 1, 1}));
  ASSERT_TRUE(device()->submit(std::move(*commands)));
  EXPECT_EQ(read(y, 64), std::vector<uint32_t>(64, 16));
}

/// A word that nobody puts: the dispatch ends, and what was waited for is NaN.
TEST(Chain, WaitingEndsWithNan) {
  constexpr uint32_t kWords = 64;
  const auto z = buffer(32), area = buffer(kWords), spare = buffer(kWords);
  std::vector<uint32_t> blank(kWords, kUnwritten);
  std::fill_n(blank.begin(), kAreaHead, 0u);
  ASSERT_TRUE(device()->write(*area, 0, std::span<const uint32_t>(blank)));
  const auto link = make_link("second", second(kAreaHead, kAreaHead + 32, 32, 32), true);
  ASSERT_TRUE(link);
  Waiting how = waiting(device()->caps());
  how.most = 1000;
  const std::string declarations = "@group(0) @binding(0) var<storage, read_write> b: array<u32>;\n@group(0) @binding(1) var<storage, read_write> chain: array<atomic<u32>>;\n"
                                   "@group(0) @binding(2) var<storage, read_write> spare: array<u32>;\n";
  auto text = join({{link.get(), {"b"}, 1}}, declarations, kWords, how);
  ASSERT_TRUE(text) << text.error().message;
  PipelineCache pipelines(device());
  const auto storage = gpu::BindingKind::Storage;
  auto pipeline = pipelines.get("waits", [&] { return gpu::PipelineDesc{"waits", *text, {storage, storage, storage}, 0, false}; });
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  Plan plan(device());
  plan.add({*pipeline, {z, area, spare}, {1}});
  auto commands = device()->begin();
  ASSERT_TRUE(plan.run(*commands, {1, 1, 1}));
  ASSERT_TRUE(device()->submit(std::move(*commands)));
  for (uint32_t word : read(z, 32)) EXPECT_EQ(word, 0x7fc00000u);
  const auto cleared = read(spare, kWords);   // and the next dispatch's area is ready
  for (uint32_t i = 0; i < kWords; ++i) EXPECT_EQ(cleared[i], i < kAreaHead ? 0u : kUnwritten) << i;
}

TEST(Chain, IsNotMadeOfWhatDoesNotFit) {
  const auto x = buffer(64), y = buffer(64), z = buffer(64);
  PipelineCache pipelines(device());
  gpu::PipelineDesc other = second(kAreaHead, kAreaHead + 64, 32, 32);
  other.wgsl.replace(other.wgsl.find("size(32u)"), 9, "size(16u)");
  Plan sizes(device()), single(device());
  for (int i = 0; i < 2; ++i) {   // a step that takes, of another workgroup size: it cannot stand alone
    sizes.begin_segment();
    sizes.add(step("first", first(kAreaHead), {x, y}, 2, false));
    sizes.add(step("other", other, {z}, 1, true));
  }
  single.add(step("first", first(kAreaHead), {x, y}, 2, false));
  single.add(step("second", second(kAreaHead, kAreaHead + 64, 32, 32), {z}, 1, true));
  for (const Plan* plan : {&sizes, &single}) {   // one chain alone has nobody to clear its area
    auto joined = chained(*plan, pipelines, 200, make_area);
    ASSERT_TRUE(joined) << joined.error().message;
    EXPECT_FALSE(*joined);
  }
  gpu::PipelineDesc unknown = first(kAreaHead);
  unknown.wgsl.replace(unknown.wgsl.find("array<u32, 4 * 8>"), 17, "mat4x4<f32>");
  EXPECT_FALSE(make_link("unknown", unknown, false));
  gpu::PipelineDesc hidden = first(kAreaHead);
  hidden.wgsl.replace(hidden.wgsl.find("\n@group(0) @binding(1)"), 1, " ");
  EXPECT_FALSE(make_link("hidden", hidden, false));
}

}  // namespace
}  // namespace gull::dispatch
