// Tensor operations without a model: a small layer, y = relu(x · w + b), and the mean of each of its columns.
#include <gull/compute.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

template <class T>
T need(gull::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "compute: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *result;
}

int main() {
  gull::ComputeBackend gpu;
  need(gpu.init());
  std::printf("on %s\n", need(gpu.capabilities()).device.name.c_str());

  const uint32_t rows = 1000, in = 300, out = 4;
  const auto tensor = [&](size_t n, auto value) {
    std::vector<float> data(n);
    for (size_t i = 0; i < n; ++i) data[i] = value(i);
    const gull::Handle handle = need(gpu.alloc(4 * n));
    need(gpu.copy_to_device(handle, std::span<const float>(data)));
    return handle;
  };
  const auto x = tensor(rows * in, [](size_t i) { return static_cast<float>(i % 7) / 7; });
  const auto w = tensor(in * out, [](size_t i) { return static_cast<float>(i % 5) / 5 - 0.4f; });
  const auto b = tensor(out, [](size_t i) { return static_cast<float>(i); });
  const auto y = need(gpu.alloc(4 * rows * out)), means = need(gpu.alloc(4 * out));

  need(gpu.gemm({.m = rows, .n = out, .k = in, .a = x, .b = w, .c = y}));
  need(gpu.binary(gull::BinaryOp::Add, y, gull::Shape{rows, out}, b, gull::Shape{out}, y));
  need(gpu.unary(gull::UnaryOp::Relu, y, y, uint64_t{rows} * out));
  const uint32_t over_rows[] = {0};
  need(gpu.reduce(gull::ReduceOp::Mean, y, {rows, out}, over_rows, means));

  std::vector<float> result(out);
  need(gpu.copy_to_host(means, std::span<float>(result)));   // the only wait
  for (float mean : result) std::printf("%8.4f", mean);
  std::printf("\n");
}
