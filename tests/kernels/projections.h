// Projections in float64, and how far the kernels may be from them.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/random_blocks.h"

namespace gull::test {

inline constexpr double kUnit = 0x1p-24;
inline constexpr float kEps = 1e-5f;

/// A matrix in the file, and its values.
struct Matrix {
  std::string name;
  uint32_t k, n;
  std::vector<float> values;
};

inline Matrix add_matrix(Lab& lab, const std::string& name, gguf::Type type, uint32_t k, uint32_t n) {
  Random random(k * 1000 + n);
  auto raw = model_blocks(type, size_t{k} / gguf::type_traits(type)->block * n, random);
  Matrix m{name, k, n, dequantized(type, raw)};
  lab.tensor(name, type, {k, n}, std::move(raw));
  return m;
}

/// What an output must be, and how far float32 (or 8-bit activations) may be from it.
struct Expected {
  double value = 0, exact = 0, fast = 0;
  double variance = 0;   ///< of the error that rounding to 8 bits makes
};

/// x·Wᵀ for one row of x. Float32 sums in any order of lanes stay within 32 units of Σ|w·x|; an activation in a block of 32
/// with 8 bits is off by at most half a step, max|x| ÷ 254.
inline std::vector<Expected> reference(const Matrix& m, std::span<const double> x) {
  std::vector<Expected> out(m.n);
  std::vector<double> step(m.k);
  for (size_t b = 0; b < m.k; b += 32) {
    const size_t end = std::min<size_t>(b + 32, m.k);
    double most = 0;
    for (size_t i = b; i < end; ++i) most = std::max(most, std::fabs(x[i]));
    for (size_t i = b; i < end; ++i) step[i] = most / 254;
  }
  for (uint32_t r = 0; r < m.n; ++r) {
    double sum = 0, size = 0, steps = 0, variance = 0;
    for (uint32_t i = 0; i < m.k; ++i) {
      const double w = m.values[size_t{r} * m.k + i];
      sum += w * x[i], size += std::fabs(w * x[i]), steps += std::fabs(w) * step[i], variance += w * w * step[i] * step[i] / 3;
    }
    out[r] = {sum, 32 * kUnit * size, steps + 64 * kUnit * size, variance};
  }
  return out;
}

inline std::vector<double> normed(std::span<const float> x, std::span<const float> weight) {
  double squares = 0;
  for (float v : x) squares += double{v} * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEps);
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * (weight.empty() ? 1.0 : weight[i]);
  return out;
}

inline std::vector<double> doubles(std::span<const float> x) { return {x.begin(), x.end()}; }

inline double silu(double v) { return v / (1 + std::exp(-v)); }

/// silu(g)·u with the errors of both carried through.
inline Expected gated(const Expected& g, const Expected& u) {
  const auto spread = [&](double dg, double du) {
    return 1.1 * dg * (std::fabs(u.value) + du) + std::fabs(silu(g.value)) * du + 32 * kUnit * std::fabs(silu(g.value) * u.value);
  };
  const double sigmoid = 1 / (1 + std::exp(-g.value)), slope = sigmoid * (1 + g.value * (1 - sigmoid)) * u.value;
  return {silu(g.value) * u.value, spread(g.exact, u.exact), spread(g.fast, u.fast),
          slope * slope * g.variance + silu(g.value) * silu(g.value) * u.variance};
}

inline void expect_near(std::span<const float> got, std::span<const Expected> want, bool fast) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(got[i] - want[i].value);
    ASSERT_LE(difference, fast ? want[i].fast : want[i].exact) << "result " << i << ": " << got[i] << ", not " << want[i].value;
    error += difference * difference, size += want[i].value * want[i].value;
  }
  // Half steps are not all taken in one direction.
  if (want.size() < 30) return;
  EXPECT_LE(std::sqrt(error), (fast ? 1e-2 : 2e-6) * std::sqrt(size));
}

}  // namespace gull::test
