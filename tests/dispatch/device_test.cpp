// Pipelines, parameter slots and pooled memory on a real device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "dispatch/buffer_pool.h"
#include "dispatch/opened.h"
#include "dispatch/params.h"
#include "dispatch/pipeline_cache.h"
#include "gpu/commands.h"

namespace gull::dispatch {
namespace {

gpu::PipelineDesc describe(const std::string& wgsl) {
  return {"test", wgsl, {gpu::BindingKind::Storage}, 0, false};
}

constexpr const char* kGood = "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n@compute @workgroup_size(1) fn main() { y[0] = 1u; }";

TEST(PipelineCache, BuildsOnceAndReturnsTheSame) {
  PipelineCache cache(device());
  int described = 0;
  const auto make = [&] { return ++described, describe(kGood); };
  const auto first = cache.get("a", make), second = cache.get("a", make);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(described, 1);
  EXPECT_EQ(cache.stats().builds, 1u);
  EXPECT_EQ(cache.stats().hits, 1u);
}

TEST(PipelineCache, AFailedBuildCarriesTheCompilersMessageAndIsNotKept) {
  PipelineCache cache(device());
  const auto broken = cache.get("a", [] { return describe("@compute @workgroup_size(1) fn main() { nonsense_name = 1u; }"); });
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, testing::HasSubstr("nonsense_name"));
  EXPECT_EQ(cache.stats().live, 0u);
  const auto good = cache.get("a", [] { return describe(kGood); });
  EXPECT_TRUE(good) << good.error().message;
  EXPECT_EQ(cache.stats().failures, 1u);
}

TEST(PipelineCache, TwoThreadsOnOneColdKeyCompileOnce) {
  PipelineCache cache(device());
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> described{0};
    std::atomic<bool> go{false};
    gpu::PipelineRef got[2];
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        while (!go) std::this_thread::yield();
        auto pipeline = cache.get("cold" + std::to_string(round), [&] { return ++described, describe(kGood); });
        if (pipeline) got[t] = *pipeline;
      });
    go = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(got[0]);
    EXPECT_EQ(got[0], got[1]);
    EXPECT_EQ(described, 1);
  }
}

TEST(Buffers, SizesBeyondTheDeviceAreRefusedAndNeverWrap) {
  const uint64_t before = device()->ledger().use().total;
  const uint64_t most = device()->caps().max_buffer;
  for (const uint64_t size : {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2, UINT64_MAX - 3, UINT64_MAX / 2 + 1}) {
    const auto buffer = device()->create_buffer(size, gpu::kStorage, gpu::Memory::Weights, "huge");
    ASSERT_FALSE(buffer) << size;
    EXPECT_EQ(buffer.error().kind, ErrorKind::OutOfMemory);
    EXPECT_THAT(buffer.error().message, testing::StartsWith("huge: "));
  }
  if (most < UINT64_MAX) {
    EXPECT_FALSE(device()->create_buffer(most + 1, gpu::kStorage, gpu::Memory::Weights, "huge"));
  }
  EXPECT_EQ(device()->ledger().use().total, before);
  const auto small = device()->create_buffer(1, gpu::kStorage, gpu::Memory::Weights, "small");
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)->size(), 4u);
}

TEST(ParamRing, GivesAlignedSlotsUntilAllAreTaken) {
  auto ring = ParamRing::create(*device(), 4, 20);
  ASSERT_TRUE(ring) << ring.error().message;
  const std::vector<std::byte> bytes(20);
  for (uint32_t i = 0; i < 4; ++i) {
    const auto slot = (*ring)->push(bytes);
    ASSERT_TRUE(slot);
    EXPECT_EQ(*slot % device()->caps().uniform_align, 0u);
    EXPECT_EQ(*slot, i * (*ring)->slot_bytes());
  }
  EXPECT_FALSE((*ring)->push(bytes));
  (*ring)->restart();
  EXPECT_TRUE((*ring)->push(bytes));
  EXPECT_FALSE((*ring)->push(std::vector<std::byte>((*ring)->slot_bytes() + 1)));   // never more than a slot
}

TEST(ParamRing, EachDispatchOfASubmissionSeesItsOwnSlot) {
  constexpr uint32_t kCalls = 100;
  auto ring = ParamRing::create(*device(), kCalls, 16);
  ASSERT_TRUE(ring);
  gpu::PipelineDesc desc{"slots",
                         "struct Params { place: u32, value: u32, pad0: u32, pad1: u32 };\n" + declare_params(ParamMode::Ring, 1) +
                             "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n"
                             "@compute @workgroup_size(1) fn main() { y[p.place] = p.value; }",
                         {gpu::BindingKind::Storage, gpu::BindingKind::DynamicUniform}, 0, false};
  const auto pipeline = device()->create_pipeline(desc);
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  const auto out = device()->create_buffer(kCalls * 4, gpu::kStorage | gpu::kCopySrc, gpu::Memory::Activations, "out");
  ASSERT_TRUE(out);
  const gpu::Binding bindings[] = {{*out}, {(*ring)->buffer(), 0, 16}};
  const auto group = device()->create_bind_group(**pipeline, bindings);
  ASSERT_TRUE(group) << group.error().message;
  for (uint32_t round = 1; round <= 3; ++round) {   // and across submissions that reuse the slots
    auto commands = device()->begin();
    ASSERT_TRUE(commands);
    for (uint32_t i = 0; i < kCalls; ++i) {
      const uint32_t params[4] = {i, i * 7 + round};
      const auto slot = (*ring)->push(std::as_bytes(std::span(params)));
      ASSERT_TRUE(slot);
      commands->dispatch(**pipeline, **group, {1, 1, 1}, &*slot);
    }
    ASSERT_TRUE((*ring)->upload(*device()));
    ASSERT_TRUE(device()->submit(std::move(*commands)));
    (*ring)->restart();
    std::vector<uint32_t> got(kCalls);
    ASSERT_TRUE(device()->read(**out, 0, std::span<uint32_t>(got)));
    for (uint32_t i = 0; i < kCalls; ++i) ASSERT_EQ(got[i], i * 7 + round);
  }
}

TEST(Params, ImmediatesOnlyWhereTheyFit) {
  gpu::Caps caps;
  EXPECT_EQ(choose_mode(caps, 16, false), ParamMode::Ring);
  caps.immediate_bytes = 64;
  EXPECT_EQ(choose_mode(caps, 64, false), ParamMode::Immediates);
  EXPECT_EQ(choose_mode(caps, 80, false), ParamMode::Ring);
  EXPECT_EQ(choose_mode(caps, 16, true), ParamMode::Ring);
}

TEST(BufferPool, SizeClassesWasteAtMostAQuarter) {
  for (uint64_t bytes : {0ull, 1ull, 255ull, 256ull, 257ull, 1000ull, 1025ull, 5000ull, 65537ull, 1000000ull, 50000001ull, 67108865ull, 300000000ull}) {
    const uint64_t size = BufferPool::size_class(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 256, 0u) << bytes;
    EXPECT_LE(size, std::max<uint64_t>(bytes + bytes / 4 + 256, 256)) << bytes;
    EXPECT_EQ(BufferPool::size_class(size), size) << bytes;
  }
}

TEST(BufferPool, ReusesBySizeClassTrimsTheLongestIdleAndKeepsTheLedger) {
  auto fresh = gpu::Device::open({});
  ASSERT_TRUE(fresh);
  gpu::Ledger& ledger = (*fresh)->ledger();
  const uint64_t before = ledger.use().total;
  {
    BufferPool pool(*fresh, gpu::Memory::Activations, 8192);
    auto a = pool.take(1000), b = pool.take(3000);
    ASSERT_TRUE(a && b);
    const gpu::Buffer* first = a->get();
    const uint64_t id = first->id();
    pool.give(std::move(*a));
    auto again = pool.take(900);   // the same class
    ASSERT_TRUE(again);
    EXPECT_EQ(again->get(), first);
    EXPECT_EQ((*again)->id(), id);
    EXPECT_EQ(pool.stats().reused, 1u);
    pool.give(std::move(*again));
    pool.give(std::move(*b));
    EXPECT_EQ(pool.stats().idle_bytes, 1024u + 3072u);
    EXPECT_EQ(ledger.use().total - before, 1024u + 3072u);
    EXPECT_EQ(pool.trim(3500), 1024u);   // the one that came back first
    EXPECT_EQ(pool.stats().idle_buffers, 1u);
    for (int i = 0; i < 10; ++i) {
      auto large = pool.take(6000);
      auto other = pool.take(6000);
      ASSERT_TRUE(large && other);
      pool.give(std::move(*large));
      pool.give(std::move(*other));
      EXPECT_LE(pool.stats().idle_bytes, 8192u);
    }
    EXPECT_EQ(pool.trim(), 6144u);   // the class of 6000; of two that came back only one fits 8192 bytes
    EXPECT_EQ(pool.stats().idle_bytes, 0u);
  }
  EXPECT_EQ(ledger.use().total, before);
  EXPECT_FALSE((BufferPool(*fresh, gpu::Memory::Activations, 0).take(uint64_t{1} << 50)));
}

}  // namespace
}  // namespace gull::dispatch
