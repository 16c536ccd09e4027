// Sizes beyond WebGPU's default limits: more than 65,535 workgroups, operands beyond one binding of 128 MiB.
#include <numeric>

#include "compute/support.h"

namespace gull::test {
namespace {

std::unique_ptr<ComputeBackend> open_baseline() {
  ComputeOptions options;
  options.device.baseline_limits = true;
  options.max_idle_bytes = 0;   // memory of this size goes back at once
  return open_backend(options);
}

constexpr uint32_t kMany = 70000;   // workgroups

TEST(ManyWorkgroups, Softmax) {
  const auto gpu = open_baseline();
  const Handle x = upload(*gpu, values(size_t{kMany} * 17, 1)), y = *gpu->alloc(size_t{kMany} * 17 * 4);
  ASSERT_TRUE(gpu->softmax(x, y, {kMany, 17}, 1));
  const auto got = download(*gpu, y, size_t{kMany} * 17), in = values(size_t{kMany} * 17, 1);
  for (size_t line = 0; line < kMany; line += 97) {
    double sum = 0;
    for (size_t i = 0; i < 17; ++i) sum += std::exp(double(in[line * 17 + i]));
    ASSERT_NEAR(got[line * 17 + 3], std::exp(double(in[line * 17 + 3])) / sum, 1e-6) << line;
  }
}

TEST(ManyWorkgroups, ReduceAndBatchedGemmAndAttention) {
  const auto gpu = open_baseline();
  const auto in = values(size_t{kMany} * 33, 2);
  const Handle x = upload(*gpu, in), y = *gpu->alloc(size_t{kMany} * 4), w = upload(*gpu, values(33, 3));
  const uint32_t last[] = {1};
  ASSERT_TRUE(gpu->reduce(ReduceOp::Sum, x, {kMany, 33}, last, y));
  auto got = download(*gpu, y, kMany);
  for (size_t line = 0; line < kMany; line += 101)
    ASSERT_NEAR(got[line], std::accumulate(in.begin() + line * 33, in.begin() + (line + 1) * 33, 0.0), 1e-5) << line;

  BatchedGemm gemm;
  gemm.m = gemm.n = 1, gemm.k = 33, gemm.batch = kMany, gemm.stride_b = 0;
  gemm.a = x, gemm.b = w, gemm.c = y;
  ASSERT_TRUE(gpu->batched_gemm(gemm));
  got = download(*gpu, y, kMany);
  const auto weights = values(33, 3);
  for (size_t line = 0; line < kMany; line += 103)
    ASSERT_NEAR(got[line], std::inner_product(weights.begin(), weights.end(), in.begin() + line * 33, 0.0), 1e-5) << line;

  // One key each: its value comes out.
  const Handle out = *gpu->alloc(size_t{kMany} * 4 * 4);
  ASSERT_TRUE(gpu->attention({.batch = kMany, .q_len = 1, .kv_len = 1, .head_dim = 4, .q = x, .k = {x, 8}, .v = {x, 4}, .out = out}));
  got = download(*gpu, out, size_t{kMany} * 4);
  for (size_t i = 0; i < got.size(); i += 89) ASSERT_EQ(got[i], in[i + 4]) << i;
}

/// A tensor of 132 MiB: 33 rows, of which the last one lies beyond the first binding.
class BeyondOneBinding : public testing::Test {
 protected:
  static constexpr uint32_t kRows = 33, kWidth = 1048576 + 64;
  static void SetUpTestSuite() {
    gpu_ = open_baseline();
    host_.resize(size_t{kRows} * kWidth);
    for (size_t i = 0; i < host_.size(); ++i) host_[i] = static_cast<float>((i * 2654435761u >> 20 & 255)) / 256 - 0.5f;
    x_ = upload(*gpu_, host_);
    ASSERT_GT(host_.size() * 4, gpu_->capabilities()->max_binding);
  }
  static void TearDownTestSuite() {
    gpu_.reset();
    host_ = {};
  }
  static float at(size_t row, size_t col) { return host_[row * kWidth + col]; }
  static std::unique_ptr<ComputeBackend> gpu_;
  static std::vector<float> host_;
  static Handle x_;
};
std::unique_ptr<ComputeBackend> BeyondOneBinding::gpu_;
std::vector<float> BeyondOneBinding::host_;
Handle BeyondOneBinding::x_ = 0;

TEST_F(BeyondOneBinding, ReduceOverBothAxes) {
  const Handle rows = *gpu_->alloc(kRows * 4), cols = *gpu_->alloc(size_t{kWidth} * 4);
  const uint32_t first[] = {0}, last[] = {1};
  ASSERT_TRUE(gpu_->reduce(ReduceOp::Sum, x_, {kRows, kWidth}, last, rows));
  const auto by_row = download(*gpu_, rows, kRows);
  for (size_t r : {0u, 31u, 32u})
    EXPECT_NEAR(by_row[r], std::accumulate(host_.begin() + r * kWidth, host_.begin() + (r + 1) * kWidth, 0.0), 0.05) << r;
  ASSERT_TRUE(gpu_->reduce(ReduceOp::Mean, x_, {kRows, kWidth}, first, cols));
  const auto by_col = download(*gpu_, cols, kWidth);
  for (size_t c = 0; c < kWidth; c += 9973) {
    double sum = 0;
    for (size_t r = 0; r < kRows; ++r) sum += at(r, c);
    ASSERT_NEAR(by_col[c], sum / kRows, 1e-6) << c;
  }
  ASSERT_TRUE(gpu_->free(rows));
  ASSERT_TRUE(gpu_->free(cols));
}

TEST_F(BeyondOneBinding, GemmWithALargeFactor) {
  const auto v = values(kWidth, 5);
  const Handle b = upload(*gpu_, v), c = *gpu_->alloc(kRows * 4);
  ASSERT_TRUE(gpu_->gemm({.m = kRows, .n = 1, .k = kWidth, .a = x_, .b = b, .c = c}));
  const auto got = download(*gpu_, c, kRows);
  for (size_t r : {0u, 16u, 32u}) {
    double sum = 0;
    for (size_t i = 0; i < kWidth; ++i) sum += double(at(r, i)) * v[i];
    EXPECT_NEAR(got[r], sum, 0.05) << r;
  }
  ASSERT_TRUE(gpu_->free(b));
  ASSERT_TRUE(gpu_->free(c));
}

TEST_F(BeyondOneBinding, GatherReadsBothSidesOfTheSeam) {
  const Handle indices = upload(*gpu_, std::vector<int32_t>{32, -1, 31, 0}), y = *gpu_->alloc(size_t{4} * kWidth * 4);
  ASSERT_TRUE(gpu_->gather({{kRows, kWidth}, 0, 4, indices}, x_, y));
  const auto got = download(*gpu_, y, size_t{4} * kWidth);
  const size_t rows[] = {32, 32, 31, 0};
  for (size_t j = 0; j < 4; ++j)
    for (size_t c = 0; c < kWidth; c += 997) ASSERT_EQ(got[j * kWidth + c], at(rows[j], c));
  ASSERT_TRUE(gpu_->free(y));
}

TEST_F(BeyondOneBinding, OperationsInPlace) {
  const uint64_t n = uint64_t{kRows} * kWidth;   // more than 65,535 × 256 as well
  ASSERT_TRUE(gpu_->unary(UnaryOp::Neg, x_, x_, n));
  const auto shift = values(kWidth, 7);
  const Handle b = upload(*gpu_, shift);
  ASSERT_TRUE(gpu_->binary(BinaryOp::Add, x_, Shape{kRows, kWidth}, b, Shape{kWidth}, x_));   // broadcast across the seam
  ASSERT_TRUE(gpu_->binary(BinaryOp::Mul, x_, x_, x_, n));
  const Handle one = upload(*gpu_, std::vector<int32_t>{32});
  ASSERT_TRUE(gpu_->scatter(ScatterMode::Add, {{kRows, kWidth}, 0, 1, one}, b, x_));
  const auto got = download(*gpu_, x_, n);
  for (size_t i = 0; i < n; i += 9973) {
    const float moved = -host_[i] + shift[i % kWidth];
    ASSERT_NEAR(got[i], moved * moved + (i / kWidth == 32 ? shift[i % kWidth] : 0), 1e-6) << i;
  }
  ASSERT_TRUE(gpu_->softmax(x_, x_, {kRows, kWidth}, 0));
  const auto soft = download(*gpu_, x_, n);
  for (size_t c = 0; c < kWidth; c += 99991) {
    double sum = 0;
    for (size_t r = 0; r < kRows; ++r) sum += soft[r * kWidth + c];
    ASSERT_NEAR(sum, 1, 1e-5) << c;
  }
}

}  // namespace
}  // namespace gull::test
