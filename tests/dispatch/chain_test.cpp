// Steps joined into one dispatch: what is handed on arrives whole, replay after replay, and waiting ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "dispatch/chain.h"
#include "dispatch/opened.h"
#include "dispatch/wgsl.h"

namespace gull::dispatch {
namespace {

constexpr uint32_t kThreads = 32;

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
const y_kept = true;
var<workgroup> held: array<u32, 4 * 8>;
fn changed(value: u32) -> Pair { return Pair(value * 3u + 1u, 0u); }
@compute @workgroup_size(32u)
fn main(@builtin(workgroup_id) g: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  held[t] = changed(x[g.x * 32u + t]).value;
  workgroupBarrier();
  let i = g.x * 32u + (31u - t);
  if (y_kept) { y[i] = held[31u - t]; }
  put($TO$ + i, held[31u - t]);
}
)", {{"TO", to}}), {gpu::BindingKind::ReadStorage, gpu::BindingKind::Storage}, 0, false};
}

/// z[i] = the sum over k of word `from` + i + k·stride below `count`, and put at word `to` + i.
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
  for (var k = i; k < i + $N$; k += $STRIDE$) { sum += changed(take($FROM$ + k % $N$, look($FROM$ + k % $N$))); }
  held[t] = sum;
  z[i] = held[t];
  put($TO$ + i, sum);
}
)", {{"FROM", from}, {"TO", to}, {"N", count}, {"STRIDE", stride}}), {gpu::BindingKind::Storage}, 0, false};
}

StepDesc step(const std::string& key, gpu::PipelineDesc desc, std::vector<Operand> operands, uint32_t workgroups, Takes takes, std::vector<size_t> reads = {}) {
  auto link = make_link(key, std::move(desc), takes, std::move(reads));
  EXPECT_TRUE(link);
  return {nullptr, std::move(operands), {workgroups}, {}, {}, {}, link};
}

void replay(Plan& plan) {
  auto commands = device()->begin();
  ASSERT_TRUE(commands);
  auto ok = plan.run(*commands, {1, 1, 1});
  ASSERT_TRUE(ok) << ok.error().message;
  ASSERT_TRUE(device()->submit(std::move(*commands)));
}

/// Three chains that share memory, each in three steps, the last of which writes what the first has read.
TEST(Chain, HandsOnWhatWasPutReplayAfterReplay) {
  constexpr uint32_t kFirst = 40, kSecond = 30, kCount = kFirst * kThreads, kSums = kSecond * kThreads;
  constexpr uint32_t kY = kAreaHead, kZ = kY + kCount, kEnd = kZ + 2 * kSums;
  const auto x = buffer(kCount), y = buffer(kCount), z = buffer(kCount);
  PipelineCache pipelines(device());
  Plan plan(device());
  for (int chain = 0; chain < 3; ++chain) {
    plan.begin_segment();
    plan.add(step("first", first(kY), {x, y}, kFirst, Takes::Nothing, {0}));
    plan.add(step("second", second(kY, kZ, kCount, 1), {z}, kSecond, Takes::All));
    plan.add(step("third", second(kZ, kZ + kSums, kSums, kSums), {x}, kSecond, Takes::Part));   // x = z in its first words
  }
  auto joined = chained(plan, pipelines, kEnd, make_area);
  ASSERT_TRUE(joined) << joined.error().message;
  ASSERT_TRUE(*joined);
  EXPECT_EQ((*joined)->steps(), 3u);
  EXPECT_EQ(pipelines.stats().builds, 1u);   // three equal chains are one pipeline

  std::vector<uint32_t> model(kCount);
  for (uint32_t turn = 0; turn < 5; ++turn) {
    for (uint32_t i = 0; i < kCount; ++i) model[i] = i * 7 + turn;
    ASSERT_TRUE(device()->write(*x, 0, std::span<const uint32_t>(model)));
    replay(**joined);
    for (int chain = 0; chain < 3; ++chain) {
      uint32_t sum = 0;
      for (uint32_t value : model) sum += 3 * value + 1;
      std::fill_n(model.begin(), kSums, sum);
    }
    ASSERT_EQ(read(x, kCount), model) << "turn " << turn;
  }
}

/// More workgroups than a device runs at once, each waiting for some of the step before.
TEST(Chain, MoreWorkgroupsThanRunAtOnce) {
  constexpr uint32_t kGroups = 6000, kCount = kGroups * kThreads;
  constexpr uint32_t kY = kAreaHead, kZ = kY + kCount, kEnd = kZ + kCount;
  const auto x = buffer(kCount), y = buffer(kCount), z = buffer(kCount);
  PipelineCache pipelines(device());
  Plan plan(device());
  for (const auto& [from, to] : {std::pair{x, z}, {z, x}}) {
    plan.begin_segment();
    plan.add(step("first", first(kY), {from, y}, kGroups, Takes::Nothing, {0}));
    plan.add(step("second", second(kY, kZ, kCount, kCount / 2), {to}, kGroups, Takes::Part));
  }
  auto joined = chained(plan, pipelines, kEnd, make_area);
  ASSERT_TRUE(joined) << joined.error().message;
  ASSERT_TRUE(*joined);
  std::vector<uint32_t> model(kCount), next(kCount);
  for (uint32_t i = 0; i < kCount; ++i) model[i] = i * 2654435761u;
  ASSERT_TRUE(device()->write(*x, 0, std::span<const uint32_t>(model)));
  for (uint32_t turn = 0; turn < 3; ++turn) {
    replay(**joined);
    for (int chain = 0; chain < 2; ++chain, model = next)
      for (uint32_t i = 0; i < kCount; ++i) next[i] = 3 * model[i] + 1 + 3 * model[(i + kCount / 2) % kCount] + 1;
    ASSERT_EQ(read(x, kCount), model) << "turn " << turn;
  }
}

/// Of several steps that write a buffer the last one does.
TEST(Chain, TheLastOfSeveralWritesABuffer) {
  const auto x = buffer(64), y = buffer(64);
  PipelineCache pipelines(device());
  Plan plan(device());
  for (int chain = 0; chain < 2; ++chain) {
    plan.begin_segment();
    plan.add(step("first", first(kAreaHead), {x, y}, 2, Takes::Nothing, {0}));
    plan.add(step("second", second(kAreaHead, kAreaHead + 64, 64, 64), {y}, 1, Takes::Part));
  }
  auto joined = chained(plan, pipelines, 200, make_area);
  ASSERT_TRUE(joined && *joined);
  std::vector<uint32_t> values(64, 5), before(64, 99), expected(64, 99);
  std::fill_n(expected.begin(), 32, 16u);
  ASSERT_TRUE(device()->write(*x, 0, std::span<const uint32_t>(values)));
  ASSERT_TRUE(device()->write(*y, 0, std::span<const uint32_t>(before)));
  replay(**joined);
  EXPECT_EQ(read(y, 64), expected);   // the first step's 64 are not written at all
}

/// What a link computes must not depend on whether it stands alone.
TEST(Chain, ALinkAloneIsCompiledAsItIs) {
  const auto x = buffer(64), y = buffer(64);
  PipelineCache pipelines(device());
  auto pipeline = pipelines.get("alone", [&] { return alone(*make_link("a", first(kAreaHead), Takes::Nothing, {0})); });
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
  const auto link = make_link("second", second(kAreaHead, kAreaHead + 32, 32, 32), Takes::All, {});
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
  // The next dispatch's area is ready, and says that it is in vain to wait.
  const auto cleared = read(spare, kWords);
  for (uint32_t i = 0; i < kWords; ++i) EXPECT_EQ(cleared[i], i == 1 ? 1u : i < kAreaHead ? 0u : kUnwritten) << i;
}

/// Whether two equal chains can be made of these steps.
bool fits(const std::vector<StepDesc>& steps) {
  PipelineCache pipelines(device());
  Plan plan(device());
  for (int chain = 0; chain < 2; ++chain) {
    plan.begin_segment();
    for (const StepDesc& s : steps) plan.add(s);
  }
  auto joined = chained(plan, pipelines, 200, make_area);
  EXPECT_TRUE(joined) << joined.error().message;
  return joined && *joined;
}

TEST(Chain, IsNotMadeOfWhatDoesNotFit) {
  const auto x = buffer(64), y = buffer(64), z = buffer(64);
  const StepDesc start = step("first", first(kAreaHead), {x, y}, 2, Takes::Nothing, {0});
  const auto next = [&](const gpu::BufferRef& to, Takes takes, std::vector<size_t> reads = {}) {
    return step("second", second(kAreaHead, kAreaHead + 64, 32, 32), {to}, 1, takes, std::move(reads));
  };
  EXPECT_TRUE(fits({start, next(z, Takes::All)}));
  EXPECT_TRUE(fits({start, next(x, Takes::All)}));           // every workgroup has waited for all that read x
  EXPECT_FALSE(fits({start, next(x, Takes::Part)}));         // another may still read x
  EXPECT_FALSE(fits({start, next(y, Takes::All, {0})}));     // y as it was before, or after?
  EXPECT_FALSE(fits({next(z, Takes::All), start}));          // nothing to take from
  EXPECT_FALSE(fits({start, next(z, Takes::All), step("other", second(kAreaHead, kAreaHead + 64, 32, 32), {z}, 1, Takes::All)}));   // both write z
  gpu::PipelineDesc small = second(kAreaHead, kAreaHead + 64, 32, 32);
  small.wgsl.replace(small.wgsl.find("size(32u)"), 9, "size(16u)");
  EXPECT_FALSE(fits({start, step("small", small, {z}, 1, Takes::All)}));

  PipelineCache pipelines(device());
  Plan single(device());
  single.add(start), single.add(next(z, Takes::All));
  auto joined = chained(single, pipelines, 200, make_area);
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_FALSE(*joined);   // one chain alone has none to clear its area
}

TEST(Chain, TextsOfOtherFormsAreNoLinks) {
  gpu::PipelineDesc unknown = first(kAreaHead);
  unknown.wgsl.replace(unknown.wgsl.find("array<u32, 4 * 8>"), 17, "mat4x4<f32>");
  EXPECT_FALSE(make_link("unknown", unknown, Takes::Nothing, {}));
  gpu::PipelineDesc hidden = first(kAreaHead);
  hidden.wgsl.replace(hidden.wgsl.find("\n@group(0) @binding(1)"), 1, " ");
  EXPECT_FALSE(make_link("hidden", hidden, Takes::Nothing, {}));
}

}  // namespace
}  // namespace gull::dispatch
