// What must hold whatever the numbers: sizes, errors, aliasing, empty tensors, NaN, and all that the original got wrong.
#include <gmock/gmock.h>

#include <limits>

#include "compute/support.h"

namespace gull::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Behaviour : public testing::Test {
 protected:
  static void SetUpTestSuite() { backend_ = open_backend(); }
  static void TearDownTestSuite() { backend_.reset(); }
  ComputeBackend& gpu() { return *backend_; }
  Handle memory(const std::vector<float>& data) { return upload(gpu(), data); }
  std::vector<float> read(Handle handle, size_t n) { return download(gpu(), handle, n); }
  static std::unique_ptr<ComputeBackend> backend_;
};
std::unique_ptr<ComputeBackend> Behaviour::backend_;

void expect_error(const Result<void>& result, ErrorKind kind, const std::string& message) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(message));
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
}

TEST(Uninitialised, EveryCallSaysSo) {
  ComputeBackend gpu;
  EXPECT_FALSE(gpu.is_initialized());
  expect_error(gpu.gemm({}), ErrorKind::NotInitialised, "init()");
  expect_error(gpu.unary(UnaryOp::Abs, 1, 1, 1), ErrorKind::NotInitialised, "init()");
  expect_error(gpu.free(1), ErrorKind::NotInitialised, "init()");
  expect_error(gpu.synchronize(), ErrorKind::NotInitialised, "init()");
  EXPECT_EQ(gpu.alloc(4).error().kind, ErrorKind::NotInitialised);
  EXPECT_EQ(gpu.capabilities().error().kind, ErrorKind::NotInitialised);
  EXPECT_TRUE(gpu.available_devices());   // needs no device opened
  EXPECT_EQ(gpu.stats().dispatches, 0u);
}

TEST(Uninitialised, ADeviceThatIsNotThereIsAnError) {
  ComputeOptions options;
  options.device.device = "no such adapter";
  ComputeBackend gpu(options);
  expect_error(gpu.init(), ErrorKind::NotFound, "no such adapter");
  EXPECT_FALSE(gpu.is_initialized());
}

TEST_F(Behaviour, CapabilitiesTellTheTruth) {
  const auto caps = gpu().capabilities();
  ASSERT_TRUE(caps);
  const bool listed = std::ranges::find(caps->device.features, "shader-f16") != caps->device.features.end();
  EXPECT_EQ(caps->f16, listed);   // was wrong: no f16 claimed on a device with f16
  const Handle x = upload(gpu(), std::vector<uint16_t>(8, to_half(-2.0f)));
  const auto done = gpu().unary(UnaryOp::Abs, x, x, 8, ElementType::F16);
  if (caps->f16) {
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_THAT(download<uint16_t>(gpu(), x, 8), Each(to_half(2.0f)));
  } else {
    expect_error(done, ErrorKind::Unsupported, "shader-f16");
  }
  ComputeOptions without;
  without.device.baseline_limits = true;
  const auto baseline = open_backend(without);
  const auto less = baseline->capabilities();
  ASSERT_TRUE(less);
  EXPECT_FALSE(less->f16);
  EXPECT_FALSE(less->immediates);
  EXPECT_EQ(less->max_binding, 128u << 20);
  EXPECT_EQ(less->max_bindings, 8u);
  const Handle y = upload(*baseline, std::vector<uint16_t>(8, 0));
  expect_error(baseline->gemm_f16({.m = 1, .n = 1, .k = 1, .a = y, .b = {y, 2}, .c = {y, 4}}), ErrorKind::Unsupported, "shader-f16");
}

TEST_F(Behaviour, UnknownHandlesAreNamed) {
  const Handle a = memory({1, 2, 3, 4}), b = memory({1, 2, 3, 4});
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = a, .b = b, .c = 987654}), ErrorKind::NotFound, "unknown handle 987654");
  expect_error(gpu().unary(UnaryOp::Neg, 0, a, 4), ErrorKind::NotFound, "unknown handle 0");
  expect_error(gpu().free(987654), ErrorKind::NotFound, "unknown handle 987654");
  std::vector<float> out(4);
  expect_error(gpu().copy_to_host(987654, std::span<float>(out)), ErrorKind::NotFound, "unknown handle 987654");
  // After a free, also where the bind group was cached.
  ASSERT_TRUE(gpu().unary(UnaryOp::Neg, a, b, 4));
  ASSERT_TRUE(gpu().unary(UnaryOp::Neg, a, b, 4));
  ASSERT_TRUE(gpu().free(a));
  expect_error(gpu().unary(UnaryOp::Neg, a, b, 4), ErrorKind::NotFound, "unknown handle " + std::to_string(a));
  expect_error(gpu().free(a), ErrorKind::NotFound, "unknown handle " + std::to_string(a));
}

TEST_F(Behaviour, UndersizedOperandsAreRefusedWithTheFigures) {
  const Handle four = memory({1, 2, 3, 4}), three = memory({1, 2, 3});
  const auto message = [](Handle h, int has, int need) {
    return "gemm: handle " + std::to_string(h) + " holds " + std::to_string(has) + " bytes, need " + std::to_string(need);
  };
  const Handle other = memory({1, 2, 3, 4});
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = four, .b = other, .c = three}), ErrorKind::InvalidArgument, message(three, 12, 16));
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = three, .b = other, .c = four}), ErrorKind::InvalidArgument, message(three, 12, 16));
  // Also on a hit: the cached group says how large its operands are.
  const Handle c = memory({0, 0, 0, 0});
  ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = four, .b = other, .c = c}));
  const uint64_t misses = gpu().stats().group_misses;
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 3, .a = four, .b = other, .c = c, .lda = 3, .ldb = 2}), ErrorKind::InvalidArgument, message(four, 16, 24));
  EXPECT_EQ(gpu().stats().group_misses, misses);
  expect_error(gpu().unary(UnaryOp::Abs, three, four, 4), ErrorKind::InvalidArgument,
               "unary: handle " + std::to_string(three) + " holds 12 bytes, need 16");
}

TEST_F(Behaviour, HostileSizesAreErrorsNotOverflows) {
  const Handle h = memory({1, 2, 3, 4}), i = memory({1, 2, 3, 4});
  EXPECT_FALSE(gpu().gemm({.m = UINT32_MAX, .n = UINT32_MAX, .k = UINT32_MAX, .a = h, .b = i, .c = h}));
  BatchedGemm batched;
  batched.m = batched.n = batched.k = 65536;
  batched.batch = UINT32_MAX;
  batched.a = batched.b = h;
  batched.c = i;
  batched.stride_a = batched.stride_b = batched.stride_c = UINT64_MAX;
  EXPECT_FALSE(gpu().batched_gemm(batched));
  EXPECT_FALSE(gpu().unary(UnaryOp::Abs, h, i, UINT64_MAX));
  EXPECT_FALSE(gpu().unary(UnaryOp::Abs, {h, UINT64_MAX}, i, 1));
  EXPECT_FALSE(gpu().softmax(h, i, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, 0));
  EXPECT_FALSE(gpu().softmax(h, i, {2, 2}, 2));
  EXPECT_FALSE(gpu().softmax(h, i, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0));
  const uint32_t twice[] = {0, 0}, outside[] = {5};
  EXPECT_FALSE(gpu().reduce(ReduceOp::Sum, h, {2, 2}, twice, i));
  EXPECT_FALSE(gpu().reduce(ReduceOp::Sum, h, {2, 2}, outside, i));
  EXPECT_FALSE(gpu().binary(BinaryOp::Add, h, Shape{2, 2}, h, Shape{3}, i));
  EXPECT_FALSE(gpu().conv2d_forward({.height = UINT32_MAX, .width = UINT32_MAX, .kernel_h = UINT32_MAX, .dilation_h = UINT32_MAX}, h, i, h));
  EXPECT_FALSE(gpu().conv2d_forward({.height = 2, .width = 2, .kernel_h = 3, .kernel_w = 3}, h, i, h));
  EXPECT_FALSE(gpu().conv2d_forward({.in_channels = 4, .out_channels = 3, .groups = 2}, h, i, h));
  EXPECT_FALSE(gpu().attention({.heads = 3, .kv_heads = 2, .q_len = 1, .kv_len = 1, .head_dim = 1, .q = h, .k = h, .v = h, .out = i}));
  EXPECT_FALSE(gpu().attention({.q_len = 1, .kv_len = 1, .head_dim = 4000, .q = h, .k = h, .v = h, .out = i}));
  Attention vast{.batch = UINT32_MAX, .heads = UINT32_MAX, .kv_heads = UINT32_MAX, .q_len = 1u << 30, .kv_len = 1u << 30, .head_dim = 1024, .q = h, .k = h, .v = h, .out = i};
  EXPECT_FALSE(gpu().attention(vast));
  vast.q_strides = vast.k_strides = vast.v_strides = vast.out_strides = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
  EXPECT_FALSE(gpu().attention(vast));
  vast.batch = 1u << 31, vast.heads = vast.kv_heads = 1u << 31, vast.q_len = vast.kv_len = 1, vast.head_dim = 1;
  vast.q_strides = vast.k_strides = vast.v_strides = vast.out_strides = {0, 0, 1};   // one row for all of them
  EXPECT_FALSE(gpu().attention(vast));
  Attention masked{.batch = 65536, .heads = 65536, .kv_heads = 65536, .q_len = 65536, .kv_len = 65536, .head_dim = 1, .q = h, .k = h, .v = h, .out = i, .mask = h};
  masked.mask_per_batch = masked.mask_per_head = true;
  EXPECT_FALSE(gpu().attention(masked));
  EXPECT_FALSE(gpu().alloc(UINT64_MAX));
  EXPECT_FALSE(gpu().recommended_tile(0, 1, 1));
  std::vector<float> out(4);
  EXPECT_FALSE(gpu().copy_to_host(h, std::span<float>(out), UINT64_MAX - 3));
  EXPECT_FALSE(gpu().copy_to_device(h, std::span<const float>(out), 4));
  EXPECT_THAT(read(h, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(gpu().synchronize());
}

TEST_F(Behaviour, GemmWithKZeroStillAppliesBeta) {
  const Handle c = memory({1, 2, 3, 4, 5, 6}), empty = memory({});
  ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 0, .a = empty, .b = empty, .c = c, .beta = 0.5, .ldc = 3}));
  EXPECT_THAT(read(c, 6), ElementsAre(0.5, 1, 3, 2, 2.5, 6));
  ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 0, .a = empty, .b = empty, .c = c, .beta = 0, .ldc = 3}));
  EXPECT_THAT(read(c, 6), ElementsAre(0, 0, 3, 0, 0, 6));
}

TEST_F(Behaviour, GemmWithAlphaZeroReadsNeitherFactor) {
  const Handle a = memory({kNan, kNan, kNan, kNan}), c = memory({1, 2, 3, 4});
  ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = a, .b = a, .c = c, .alpha = 0, .beta = 2}));
  EXPECT_THAT(read(c, 4), ElementsAre(2, 4, 6, 8));
}

TEST_F(Behaviour, GemmWithBetaZeroNeverReadsC) {
  const Handle a = memory({1, 2, 3, 4}), b = memory({1, 0, 0, 1});
  for (float poison : {kNan, kInf}) {
    const Handle c = memory({poison, poison, poison, poison});
    ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = a, .b = b, .c = c, .beta = 0}));
    EXPECT_THAT(read(c, 4), ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(Behaviour, AnOutputThatOverlapsAnInputIsRefusedAtOnce) {
  const Handle a = memory({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), b = memory({1, 0, 0, 1});
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = a, .b = b, .c = a}), ErrorKind::InvalidArgument, "gemm: output c overlaps input a");
  expect_error(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = b, .b = a, .c = {a, 3}}), ErrorKind::InvalidArgument, "overlaps input b");
  expect_error(gpu().softmax(a, {a, 1}, {2, 2}, 1), ErrorKind::InvalidArgument, "overlaps");
  expect_error(gpu().unary(UnaryOp::Abs, a, {a, 1}, 4), ErrorKind::InvalidArgument, "overlaps");
  // Parts of one allocation that do not overlap are no problem.
  ASSERT_TRUE(gpu().gemm({.m = 2, .n = 2, .k = 2, .a = a, .b = b, .c = {a, 4}}));
  ASSERT_TRUE(gpu().unary(UnaryOp::Neg, a, {a, 8}, 4));
  EXPECT_THAT(read(a, 12), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4, -1, -2, -3, -4));
}

TEST_F(Behaviour, ElementwiseOperationsWorkInPlaceAndStopAtN) {
  const Handle x = memory({-1, -2, -3, -4, -5, -6}), y = memory({10, 20, 30, 40, 50, 60});
  ASSERT_TRUE(gpu().unary(UnaryOp::Abs, x, x, 4));   // was wrong: n was ignored
  EXPECT_THAT(read(x, 6), ElementsAre(1, 2, 3, 4, -5, -6));
  ASSERT_TRUE(gpu().binary(BinaryOp::Add, x, y, y, 3));
  EXPECT_THAT(read(y, 6), ElementsAre(11, 22, 33, 40, 50, 60));
  ASSERT_TRUE(gpu().binary(BinaryOp::Mul, y, y, y, 2));
  EXPECT_THAT(read(y, 6), ElementsAre(121, 484, 33, 40, 50, 60));
  ASSERT_TRUE(gpu().binary(BinaryOp::Sub, y, Shape{2, 3}, x, Shape{3}, y));
  EXPECT_THAT(read(y, 6), ElementsAre(120, 482, 30, 39, 48, 57));
  ASSERT_TRUE(gpu().softmax(x, x, {1, 2}, 1));
  EXPECT_NEAR(read(x, 1)[0], 0.2689414, 1e-6);
}

TEST_F(Behaviour, EmptyTensorsAreNoError) {
  const Handle a = memory({}), c = memory({7, 7});
  EXPECT_TRUE(gpu().gemm({.m = 0, .n = 5, .k = 3, .a = a, .b = memory(std::vector<float>(15)), .c = a}));
  EXPECT_TRUE(gpu().unary(UnaryOp::Exp, a, a, 0));
  EXPECT_TRUE(gpu().binary(BinaryOp::Add, a, Shape{0, 4}, memory({1, 2, 3, 4}), Shape{4}, a));
  EXPECT_TRUE(gpu().softmax(a, a, {0, 3}, 1));
  EXPECT_TRUE(gpu().gather({{3, 4}, 0, 0, a}, memory(std::vector<float>(12)), a));
  EXPECT_TRUE(gpu().scatter(ScatterMode::Add, {{2}, 0, 0, a}, a, c));
  EXPECT_TRUE(gpu().attention({.q_len = 0, .kv_len = 0, .head_dim = 8, .q = a, .k = a, .v = a, .out = a}));
  EXPECT_TRUE(gpu().conv2d_forward({.batch = 0, .height = 4, .width = 4}, a, memory({1}), a));
  EXPECT_THAT(read(c, 2), ElementsAre(7, 7));
  expect_error(gpu().unary(UnaryOp::Exp, 123456, a, 0), ErrorKind::NotFound, "unknown handle 123456");
}

TEST_F(Behaviour, ReductionsOfNothingAreWhatNumPySays) {
  const Handle none = memory({}), y = memory({7, 7});
  const uint32_t first[] = {0};
  ASSERT_TRUE(gpu().reduce(ReduceOp::Sum, none, {0, 2}, first, y));
  EXPECT_THAT(read(y, 2), ElementsAre(0, 0));
  ASSERT_TRUE(gpu().reduce(ReduceOp::Mean, none, {0, 2}, first, y));
  EXPECT_TRUE(std::isnan(read(y, 2)[1]));
  expect_error(gpu().reduce(ReduceOp::Max, none, {0, 2}, first, y), ErrorKind::InvalidArgument, "no largest");
  const Handle dw = memory({5, 5});
  ASSERT_TRUE(gpu().conv2d_backward_filter({.batch = 0, .in_channels = 2, .height = 3, .width = 3}, none, none, dw));
  EXPECT_THAT(read(dw, 2), ElementsAre(0, 0));
}

TEST_F(Behaviour, AttentionWithoutKeysGivesZeros) {
  const Handle q = memory({1, 2, 3, 4}), none = memory({}), out = memory({9, 9, 9, 9});
  ASSERT_TRUE(gpu().attention({.heads = 2, .kv_heads = 2, .q_len = 1, .kv_len = 0, .head_dim = 2, .q = q, .k = none, .v = none, .out = out}));
  EXPECT_THAT(read(out, 4), ElementsAre(0, 0, 0, 0));
}

TEST_F(Behaviour, NaNAndInfinitiesGoThroughAsInNumPy) {
  const Handle x = memory({kNan, kInf, -kInf, 0}), y = memory({0, 0, 0, 0});
  const auto unary = [&](UnaryOp op) {
    EXPECT_TRUE(gpu().unary(op, x, y, 4));
    return read(y, 4);
  };
  using testing::IsNan;
  EXPECT_THAT(unary(UnaryOp::Relu), ElementsAre(IsNan(), kInf, 0, 0));
  EXPECT_THAT(unary(UnaryOp::Sigmoid), ElementsAre(IsNan(), 1, testing::FloatNear(0, 1e-37), 0.5));
  EXPECT_THAT(unary(UnaryOp::Tanh), ElementsAre(IsNan(), testing::FloatEq(1), testing::FloatEq(-1), 0));
  EXPECT_THAT(unary(UnaryOp::Abs), ElementsAre(IsNan(), kInf, kInf, 0));
  const Handle b = memory({1, kNan, 3, -4});
  ASSERT_TRUE(gpu().binary(BinaryOp::Max, x, b, y, 4));
  EXPECT_THAT(read(y, 4), ElementsAre(IsNan(), IsNan(), 3, 0));
  ASSERT_TRUE(gpu().reduce(ReduceOp::Max, x, {4}, {}, y));
  EXPECT_TRUE(std::isnan(read(y, 1)[0]));
  ASSERT_TRUE(gpu().reduce(ReduceOp::Min, {x, 1}, {3}, {}, y));
  EXPECT_EQ(read(y, 1)[0], -kInf);
}

TEST_F(Behaviour, PowersOfNegativeNumbers) {
  const Handle a = memory({-2, -2, -2, -8, 0, 0, -1, 2, -2}), b = memory({3, 2, -1, 0.5, 0, 2, 101, -30, 31}), y = memory(std::vector<float>(9));
  ASSERT_TRUE(gpu().binary(BinaryOp::Pow, a, b, y, 9));
  using testing::FloatEq;
  EXPECT_THAT(read(y, 9), ElementsAre(-8, 4, -0.5, testing::IsNan(), 1, 0, -1, testing::FloatNear(9.313226e-10, 1e-14), testing::FloatNear(-2147483648.0f, 30000)));
}

TEST_F(Behaviour, SoftmaxIsStableAndHidesMinusInfinity) {
  const Handle x = memory({1000, 1001, -kInf, 1000}), y = memory({0, 0, 0, 0});
  ASSERT_TRUE(gpu().softmax(x, y, {4}, 0));
  const auto got = read(y, 4);
  EXPECT_NEAR(got[1], 0.5761169, 1e-6);
  EXPECT_EQ(got[2], 0);
}

TEST_F(Behaviour, IndicesOutsideTheAxisReadZerosAndWriteNothing) {
  const Handle x = memory({1, 2, 3}), y = memory({9, 9, 9, 9, 9}), indices = upload(gpu(), std::vector<int32_t>{0, 3, -3, -4, INT32_MIN});
  ASSERT_TRUE(gpu().gather({{3}, 0, 5, indices}, x, y));
  EXPECT_THAT(read(y, 5), ElementsAre(1, 0, 1, 0, 0));
  ASSERT_TRUE(gpu().scatter(ScatterMode::Add, {{3}, 0, 5, indices}, memory({10, 20, 30, 40, 50}), x));
  EXPECT_THAT(read(x, 3), ElementsAre(41, 2, 3));
}

TEST_F(Behaviour, ScatterAddOfManyUpdatesLosesNone) {
  const size_t n = 20000;
  const Handle y = memory({0, 0}), updates = memory(std::vector<float>(n, 1.0f));
  std::vector<int32_t> indices(n);
  for (size_t i = 0; i < n; ++i) indices[i] = static_cast<int32_t>(i % 2);
  ASSERT_TRUE(gpu().scatter(ScatterMode::Add, {{2}, 0, static_cast<uint32_t>(n), upload(gpu(), indices)}, updates, y));
  EXPECT_THAT(read(y, 2), ElementsAre(n / 2, n / 2));
}

TEST_F(Behaviour, ScatterAddOnHalves) {
  if (!gpu().capabilities()->f16) GTEST_SKIP();
  const Handle y = upload(gpu(), to_half(std::vector<float>{1, 2, 3})), u = upload(gpu(), to_half(std::vector<float>{10, 20, 30, 40}));
  ASSERT_TRUE(gpu().scatter(ScatterMode::Add, {{3}, 0, 4, upload(gpu(), std::vector<int32_t>{1, 1, 2, 1}), false, ElementType::F16}, u, y));
  EXPECT_THAT(download_as(gpu(), y, 3, true), ElementsAre(1, 72, 33));
}

TEST_F(Behaviour, CopiesOfAnyLengthAndOffsetLeaveTheRestAlone) {
  std::vector<uint8_t> want(41);
  for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<uint8_t>(i * 37 + 1);
  const Handle h = upload(gpu(), want);
  EXPECT_EQ(*gpu().size(h), 41u);
  EXPECT_EQ(download<uint8_t>(gpu(), h, 41), want);
  for (auto [offset, length] : {std::pair<size_t, size_t>{1, 1}, {3, 6}, {0, 5}, {38, 3}, {7, 1}, {4, 8}, {13, 28}, {40, 1}, {2, 2}}) {
    std::vector<uint8_t> part(length);
    for (size_t i = 0; i < length; ++i) part[i] = want[offset + i] = static_cast<uint8_t>(offset * 5 + i + length);
    ASSERT_TRUE(gpu().copy_to_device(h, std::span<const uint8_t>(part), offset));
    EXPECT_EQ(download<uint8_t>(gpu(), h, 41), want) << offset << " " << length;
    EXPECT_EQ(download<uint8_t>(gpu(), h, length, offset), part);
  }
}

TEST_F(Behaviour, ACopyComesBehindTheOperationsThatWereCalledBefore) {
  const Handle x = memory({1, 1, 1, 1}), y = memory({0, 0, 0, 0});
  ASSERT_TRUE(gpu().unary(UnaryOp::Neg, x, y, 4));
  const std::vector<float> other{5, 5, 5, 5};
  ASSERT_TRUE(gpu().copy_to_device(x, std::span<const float>(other)));   // while the operation is only recorded
  EXPECT_THAT(read(y, 4), Each(-1));
  EXPECT_THAT(read(x, 4), Each(5));
}

TEST_F(Behaviour, MemoryFreedAndGivenOutAgainDoesNotReachOperationsCalledBefore) {
  const Handle y = memory({0, 0, 0, 0}), x = memory({3, 3, 3, 3});
  ASSERT_TRUE(gpu().unary(UnaryOp::Neg, x, y, 4));
  ASSERT_TRUE(gpu().free(x));
  const Handle z = memory({8, 8, 8, 8});   // very likely the same memory
  EXPECT_NE(z, x);
  EXPECT_THAT(read(y, 4), Each(-3));
  EXPECT_THAT(read(z, 4), Each(8));
  EXPECT_GT(gpu().stats().pool_reused, 0u);   // was wrong: the advertised pool did not exist
}

TEST_F(Behaviour, AOneDimensionalMeanDoesNotWait) {
  ComputeOptions options;
  options.max_pending = 4096;
  const auto lazy = open_backend(options);
  const size_t n = 100000;
  const Handle x = upload(*lazy, std::vector<float>(n, 2.0f)), y = upload(*lazy, std::vector<float>{0});
  const uint64_t before = lazy->stats().submissions;
  ASSERT_TRUE(lazy->reduce(ReduceOp::Mean, x, {n}, {}, y));
  EXPECT_EQ(lazy->stats().submissions, before);   // not even submitted
  EXPECT_FLOAT_EQ(download(*lazy, y, 1)[0], 2.0f);
}

}  // namespace
}  // namespace gull::test
