// Eight threads on one backend. Meant to be run under ThreadSanitizer too (see README.md here).
#include <atomic>
#include <thread>

#include "compute/support.h"

namespace gull::test {
namespace {

constexpr int kThreads = 8;

/// Runs one function in eight threads that start together.
void together(const auto& body) {
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      while (!go) std::this_thread::yield();
      body(t);
    });
  go = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, EachGetsItsOwnResults) {
  const auto gpu = open_backend();
  const Handle shared = upload(*gpu, std::vector<float>(64, 2.0f));
  together([&](int t) {
    const auto mine = static_cast<float>(t + 1);
    for (int round = 0; round < 25; ++round) {
      const Handle x = upload(*gpu, std::vector<float>(64, mine)), y = upload(*gpu, std::vector<float>(64));
      EXPECT_TRUE(gpu->gemm({.m = 8, .n = 8, .k = 8, .a = shared, .b = x, .c = y, .alpha = mine}));
      EXPECT_TRUE(gpu->binary(BinaryOp::Add, y, x, y, 64));
      EXPECT_TRUE(gpu->reduce(ReduceOp::Max, y, {8, 8}, {}, x));
      EXPECT_EQ(download(*gpu, y, 64)[t], 16 * mine * mine + mine);
      EXPECT_EQ(download(*gpu, x, 1)[0], 16 * mine * mine + mine);
      EXPECT_TRUE(gpu->free(x));
      EXPECT_TRUE(gpu->free(y));
    }
  });
  EXPECT_EQ(gpu->stats().handles_live, 1u);
}

TEST(Threads, LargeReductionsShareTheirScratchMemoryInTurn) {
  const auto gpu = open_backend();
  together([&](int t) {
    const uint32_t n = 70000 + 5000 * static_cast<uint32_t>(t);
    const Handle x = upload(*gpu, std::vector<float>(n, 1.0f)), y = upload(*gpu, std::vector<float>{0});
    for (int round = 0; round < 10; ++round) {
      EXPECT_TRUE(gpu->reduce(ReduceOp::Sum, x, {n}, {}, y));
      EXPECT_EQ(download(*gpu, y, 1)[0], static_cast<float>(n));
    }
  });
}

TEST(Threads, OneColdShaderIsCompiledOnce) {
  const auto gpu = open_backend();
  const Handle x = upload(*gpu, std::vector<float>(16, 1.0f));
  std::vector<Handle> out;
  for (int t = 0; t < kThreads; ++t) out.push_back(upload(*gpu, std::vector<float>(16)));
  together([&](int t) { EXPECT_TRUE(gpu->unary(UnaryOp::Exp, x, out[static_cast<size_t>(t)], 16)); });
  EXPECT_EQ(gpu->stats().pipeline_builds, 1u);
  for (Handle y : out) EXPECT_NEAR(download(*gpu, y, 1)[0], 2.718282f, 1e-5f);
}

TEST(Threads, AHandleFreedInUseIsUnknownAndNothingWorse) {
  const auto gpu = open_backend();
  const Handle x = upload(*gpu, std::vector<float>(64, 3.0f));
  for (int round = 0; round < 30; ++round) {
    const Handle victim = upload(*gpu, std::vector<float>(64));
    std::atomic<int> unknown{0};
    together([&](int t) {
      if (t == 0) {
        EXPECT_TRUE(gpu->free(victim));
        return;
      }
      if (t == 1) {   // takes what comes back to the pool, and must be the only one to write to it
        for (int i = 0; i < 5; ++i) {
          const Handle other = upload(*gpu, std::vector<float>(64, 7.0f));
          EXPECT_TRUE(gpu->synchronize());
          for (float f : download(*gpu, other, 64)) EXPECT_EQ(f, 7.0f);
          EXPECT_TRUE(gpu->free(other));
        }
        return;
      }
      for (int i = 0; i < 20; ++i) {
        const auto done = gpu->unary(UnaryOp::Neg, x, victim, 64);
        if (done) continue;
        EXPECT_EQ(done.error().message, "unknown handle " + std::to_string(victim));
        ++unknown;
      }
    });
    EXPECT_FALSE(gpu->unary(UnaryOp::Neg, x, victim, 64));
  }
  EXPECT_EQ(gpu->stats().handles_live, 1u);
  EXPECT_TRUE(gpu->synchronize());
}

TEST(Threads, AllMayInitialiseAndAskAtOnce) {
  ComputeBackend gpu;
  together([&](int) {
    EXPECT_TRUE(gpu.init());
    EXPECT_TRUE(gpu.capabilities());
    const auto h = gpu.alloc(16);
    EXPECT_TRUE(h);
    (void)gpu.stats();
    EXPECT_TRUE(gpu.free(*h));
    (void)gpu.trim();
  });
}

}  // namespace
}  // namespace gull::test
