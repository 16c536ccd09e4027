// The dispatch cache at work: chained calls, cached calls that allocate nothing, loops that leave everything flat.
#include <gmock/gmock.h>

#include <array>

#include "compute/allocations.h"
#include "compute/support.h"

namespace gull::test {
namespace {

class Transport : public testing::TestWithParam<ParamTransport> {
 protected:
  std::unique_ptr<ComputeBackend> open(uint32_t max_pending) {
    ComputeOptions options;
    options.params = GetParam();
    options.max_pending = max_pending;
    ComputeBackend probe(options);
    if (const auto ok = probe.init(); !ok && ok.error().kind == ErrorKind::Unsupported) return nullptr;   // no immediates here
    return open_backend(options);
  }
};
INSTANTIATE_TEST_SUITE_P(Both, Transport, testing::Values(ParamTransport::Immediates, ParamTransport::Ring),
                         [](const auto& info) { return info.param == ParamTransport::Ring ? "Ring" : "Immediates"; });

/// 1,000 calls on the same operands: call i writes alpha_i · 1 to place i.
void chain(ComputeBackend& gpu, float scale) {
  constexpr uint32_t n = 1000;
  const Handle one = upload(gpu, std::vector<float>{1}), two = upload(gpu, std::vector<float>{1}), y = upload(gpu, std::vector<float>(n));
  const ComputeStats before = gpu.stats();
  for (uint32_t i = 0; i < n; ++i)
    ASSERT_TRUE(gpu.gemm({.m = 1, .n = 1, .k = 1, .a = one, .b = two, .c = {y, i}, .alpha = scale * static_cast<float>(i) + 0.5f}));
  const ComputeStats after = gpu.stats();
  const auto got = download(gpu, y, n);
  for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(got[i], scale * static_cast<float>(i) + 0.5f) << i;
  EXPECT_LE(after.group_misses - before.group_misses, 4u);   // places are parameters: at most vectors of four or not
  EXPECT_GE(after.group_hits - before.group_hits, n - 4);
  for (Handle h : {one, two, y}) ASSERT_TRUE(gpu.free(h));
}

TEST_P(Transport, AThousandChainedCallsInOneSubmissionSeeTheirOwnParameters) {
  const auto gpu = open(4096);
  if (!gpu) GTEST_SKIP() << "no immediates";
  const uint64_t before = gpu->stats().submissions;
  chain(*gpu, 3);
  EXPECT_EQ(gpu->stats().submissions - before, 1u);   // with the read-back
}

TEST_P(Transport, AndAcrossSubmissions) {
  for (uint32_t pending : {1u, 7u, 128u}) {
    const auto gpu = open(pending);
    if (!gpu) GTEST_SKIP() << "no immediates";
    chain(*gpu, static_cast<float>(pending));
    EXPECT_GE(gpu->stats().submissions, 1000 / pending);
  }
}

TEST_P(Transport, MoreCallsThanTheRingHasSlots) {
  const auto gpu = open(100000);
  if (!gpu) GTEST_SKIP() << "no immediates";
  const Handle x = upload(*gpu, std::vector<float>{1}), one = upload(*gpu, std::vector<float>{1}), y = upload(*gpu, std::vector<float>{0});
  float want = 0;
  for (int i = 0; i < 9000; ++i) {
    ASSERT_TRUE(gpu->gemm({.m = 1, .n = 1, .k = 1, .a = x, .b = one, .c = y, .alpha = static_cast<float>(i % 7), .beta = 1}));
    want += static_cast<float>(i % 7);
  }
  EXPECT_EQ(download(*gpu, y, 1)[0], want);
}

TEST_P(Transport, ACachedCallAllocatesNothing) {
  const auto gpu = open(64);   // so that whole submissions are counted too
  if (!gpu) GTEST_SKIP() << "no immediates";
  const std::vector<float> data(4096, 0.5f);
  const Handle a = upload(*gpu, data), b = upload(*gpu, data), c = upload(*gpu, data);
  const auto calls = [&] {
    bool ok = gpu->gemm({.m = 16, .n = 16, .k = 16, .a = a, .b = b, .c = c}).has_value();
    ok = ok && gpu->unary(UnaryOp::Tanh, a, c, 1000);
    ok = ok && gpu->binary(BinaryOp::Add, a, Shape{8, 16}, b, Shape{16}, c);
    const std::array<uint32_t, 1> axes{0};
    ok = ok && gpu->reduce(ReduceOp::Sum, a, {16, 16}, axes, c);
    ok = ok && gpu->softmax(a, c, {16, 16}, 1);
    ok = ok && gpu->attention({.heads = 2, .kv_heads = 1, .q_len = 4, .kv_len = 8, .head_dim = 16, .q = a, .k = b, .v = b, .out = c});
    ok = ok && gpu->conv2d_forward({.in_channels = 2, .height = 8, .width = 8, .out_channels = 2, .kernel_h = 3, .kernel_w = 3}, a, b, c);
    return ok;
  };
  ASSERT_TRUE(calls());
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(calls());   // every slot of the submissions under way has been used
  const uint64_t before = allocations();
  bool ok = true;
  for (int i = 0; i < 500; ++i) ok = ok && calls();
  const uint64_t made = allocations() - before;
  EXPECT_TRUE(ok);
  EXPECT_EQ(made, 0u);
  EXPECT_GT(gpu->stats().submissions, 3500u / 64);
  EXPECT_EQ(gpu->stats().groups_live, gpu->stats().group_order_length);
}

TEST(Cache, AttentionCompilesNothingNewAsTheCacheGrows) {
  const auto gpu = open_backend();
  constexpr uint32_t kHeads = 4, kKvHeads = 2, kDim = 32, kRoom = 4096;
  const Handle q = upload(*gpu, values(kHeads * kDim, 1)), k = upload(*gpu, values(size_t{kKvHeads} * kRoom * kDim, 2)),
               v = upload(*gpu, values(size_t{kKvHeads} * kRoom * kDim, 3)), out = upload(*gpu, std::vector<float>(kHeads * kDim));
  Attention call{.heads = kHeads, .kv_heads = kKvHeads, .q_len = 1, .head_dim = kDim, .q = q, .k = k, .v = v, .out = out, .causal = true};
  call.k_strides = call.v_strides = {kKvHeads * kRoom * kDim, kRoom * kDim, kDim};
  const auto step = [&](uint32_t length) {
    call.kv_len = length;
    call.kv_offset = length - 1;
    ASSERT_TRUE(gpu->attention(call));
  };
  step(1);
  const ComputeStats first = gpu->stats();
  for (uint32_t length : {2u, 3u, 17u, 63u, 64u, 65u, 100u, 511u, 512u, 1000u, 2047u, 3000u, 4095u, 4096u}) step(length);
  const ComputeStats last = gpu->stats();
  EXPECT_EQ(last.pipeline_builds, first.pipeline_builds);
  EXPECT_EQ(last.group_builds, first.group_builds);   // nor a bind group
  // And it is right: the last step against sums in double.
  const auto got = download(*gpu, out, kHeads * kDim);
  const auto qs = values(kHeads * kDim, 1), ks = values(size_t{kKvHeads} * kRoom * kDim, 2), vs = values(size_t{kKvHeads} * kRoom * kDim, 3);
  for (uint32_t h = 0; h < kHeads; ++h) {
    const size_t base = size_t{h / 2} * kRoom * kDim;
    std::vector<double> sum(kDim);
    double total = 0;
    for (uint32_t j = 0; j < kRoom; ++j) {
      double s = 0;
      for (uint32_t d = 0; d < kDim; ++d) s += double(qs[h * kDim + d]) * ks[base + j * kDim + d];
      const double w = std::exp(s / std::sqrt(double(kDim)));
      total += w;
      for (uint32_t d = 0; d < kDim; ++d) sum[d] += w * vs[base + j * kDim + d];
    }
    for (uint32_t d = 0; d < kDim; ++d) ASSERT_NEAR(got[h * kDim + d], sum[d] / total, 1e-5);
  }
}

TEST(Cache, TheSixtyFifthOperandEvictsTheFirstAndAFreeItsOwn) {
  const auto gpu = open_backend();
  const Handle x = upload(*gpu, std::vector<float>{1});
  std::vector<Handle> out;
  for (int i = 0; i < 65; ++i) out.push_back(upload(*gpu, std::vector<float>{0}));
  for (Handle y : out) ASSERT_TRUE(gpu->unary(UnaryOp::Neg, x, y, 1));
  ComputeStats stats = gpu->stats();
  EXPECT_EQ(stats.groups_live, 64u);
  EXPECT_EQ(stats.group_evictions, 1u);
  ASSERT_TRUE(gpu->unary(UnaryOp::Neg, x, out[1], 1));
  EXPECT_EQ(gpu->stats().group_hits, stats.group_hits + 1);
  ASSERT_TRUE(gpu->free(out[5]));
  EXPECT_EQ(gpu->stats().groups_live, 63u);
  EXPECT_EQ(gpu->stats().group_freed, 1u);
  ASSERT_TRUE(gpu->unary(UnaryOp::Neg, x, out[0], 1));   // gone since the 65th: built again
  EXPECT_EQ(gpu->stats().group_builds, stats.group_builds + 1);
  ASSERT_TRUE(gpu->free(x));
  EXPECT_EQ(gpu->stats().groups_live, 0u);
}

TEST(Cache, AHundredThousandAllocateDispatchFreeLeaveEverythingFlat) {
  const auto gpu = open_backend();
  const Handle x = upload(*gpu, std::vector<float>(64, 1.0f));
  MemoryUse settled;
  for (int i = 0; i < 100000; ++i) {
    const auto y = gpu->alloc(256);
    ASSERT_TRUE(y) << y.error().message;
    const auto done = gpu->unary(UnaryOp::Neg, x, *y, 64);
    ASSERT_TRUE(done) << done.error().message;
    if (i % 9999 == 0) { ASSERT_EQ(download(*gpu, *y, 1)[0], -1.0f); }
    ASSERT_TRUE(gpu->free(*y));
    if (i == 1000) settled = gpu->stats().memory;
  }
  const ComputeStats stats = gpu->stats();
  EXPECT_EQ(stats.memory.total, settled.total);
  EXPECT_EQ(stats.memory.peak, settled.peak);
  EXPECT_EQ(stats.handles_live, 1u);
  EXPECT_EQ(stats.groups_live, 0u);
  EXPECT_EQ(stats.group_order_length, 0u);
  EXPECT_EQ(stats.pipelines_live, 1u);
  EXPECT_LE(stats.pool_created, 4u);
}

}  // namespace
}  // namespace gull::test
