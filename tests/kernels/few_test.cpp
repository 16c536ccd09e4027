// A few tokens at once: projections of a normed input, an addition, a gated pair and what follows it, against float64.
#include "kernels/dot8/dot8.h"
#include "kernels/projections.h"
#include "kernels/tuning.h"

namespace gull::test {
namespace {

using gguf::Type;
using kernels::Activation;

/// Types of the weights: of two projections of one input (the second also of the gate and of the sum), and of the up
/// projection and the one after it.
struct Types { Type a, b, up; };

struct Few {
  Matrix a, b, c, gate, up, down{};   // down.n is 0 where its type has no rows of that length
  uint32_t k;
  std::vector<float> x, norm, bias, before;
  static constexpr uint32_t kMost = 16;

  Few(Lab& lab, Types types, uint32_t k_, uint32_t rows, uint32_t ffn) : k(k_) {
    Random random(k + rows);
    a = add_matrix(lab, "a", types.a, k, rows), b = add_matrix(lab, "b", types.b, k, rows + 1);
    c = add_matrix(lab, "c", types.b, k, rows + 2);
    gate = add_matrix(lab, "gate", types.b, k, ffn), up = add_matrix(lab, "up", types.up, k, ffn);
    if (takes(types.up, ffn)) down = add_matrix(lab, "down", types.up, ffn, 33);
    x = random.vector(size_t{kMost} * k), norm = random.vector(k), bias = random.vector(a.n), before = random.vector(size_t{kMost} * c.n);
    lab.vector("norm", norm), lab.vector("bias", bias);
  }
  static bool takes(Type type, uint32_t k) { return k % gguf::type_traits(type)->block == 0 && k % 32 == 0; }

  void check(Lab& lab, kernels::Choices choices, uint32_t tokens) const {
    SCOPED_TRACE(testing::Message() << tokens << " tokens, k " << k << ", " << a.n << " rows, " << gate.n << " of the gate");
    const auto in = lab.input("x", k, x), ab = lab.rows("ab", a.n + b.n), sum = lab.input("c", c.n, before), g = lab.rows("g", gate.n), d = lab.rows("d", 33);
    lab.run(tokens, 5, choices, [&](kernels::Recorder& r) {
      const kernels::Norm n{lab.weight("norm"), nullptr, kEps, false};
      kernels::project(r, in, n, {{lab.weight("a"), lab.weight("bias"), ab.columns(0, a.n)}, {lab.weight("b"), nullptr, ab.columns(a.n, b.n)}});
      kernels::project_add(r, in, {lab.weight("c"), nullptr, sum});
      kernels::project_gated(r, in, n, lab.weight("gate"), lab.weight("up"), Activation::Silu, g);
      if (down.n) kernels::project(r, g, {}, {{lab.weight("down"), nullptr, d}});
    }, false);
    const bool fast = choices.precision == Precision::Fast;
    const uint32_t all = std::min(tokens + 1, kMost);
    const auto got_ab = lab.output(ab, all), got_sum = lab.output(sum, all), got_g = lab.output(g, all), got_d = lab.output(d, all);
    std::vector<Expected> want_ab, want_sum, want_g, want_d;
    for (uint32_t t = 0; t < tokens; ++t) token(t, got_g, want_ab, want_sum, want_g, want_d);
    { SCOPED_TRACE("two projections of a normed input"); near(got_ab, want_ab, fast); }
    { SCOPED_TRACE("addition"); near(got_sum, want_sum, fast); }
    { SCOPED_TRACE("gated"); near_uneven(got_g, want_g, fast); }
    if (down.n) { SCOPED_TRACE("after the gated pair"); near_uneven(got_d, want_d, fast); }
    if (tokens == kMost) return;   // there is no row beyond
    for (uint32_t i = 0; i < ab.width; ++i) ASSERT_EQ(got_ab[size_t{tokens} * ab.width + i], 12345.0f) << "beyond the last token";
    for (uint32_t i = 0; i < g.width; ++i) ASSERT_EQ(got_g[size_t{tokens} * g.width + i], 12345.0f) << "beyond the last token";
  }

 private:
  void token(uint32_t t, const std::vector<float>& got_g, std::vector<Expected>& ab, std::vector<Expected>& sum, std::vector<Expected>& g,
             std::vector<Expected>& d) const {
    const auto row = std::span(x).subspan(size_t{t} * k, k);
    const auto in = normed(row, norm);
    const auto append = [](std::vector<Expected>& to, const std::vector<Expected>& from) { to.insert(to.end(), from.begin(), from.end()); };
    auto first = reference(a, in);
    for (uint32_t i = 0; i < a.n; ++i) first[i].value += bias[i];
    append(ab, first), append(ab, reference(b, in));
    auto added = reference(c, doubles(row));
    for (uint32_t i = 0; i < c.n; ++i) {
      const double old = before[size_t{t} * c.n + i];
      added[i].value += old, added[i].exact += kUnit * std::fabs(old), added[i].fast += kUnit * std::fabs(old);
    }
    append(sum, added);
    const auto gates = reference(gate, in), ups = reference(up, in);
    for (uint32_t i = 0; i < gate.n; ++i) g.push_back(gated(gates[i], ups[i]));
    if (down.n) append(d, reference(down, doubles(std::span(got_g).subspan(size_t{t} * gate.n, gate.n))));   // of what the GPU itself made
  }
  static void near(const std::vector<float>& got, const std::vector<Expected>& want, bool fast) {
    expect_near(std::span(got).first(want.size()), want, fast);
  }
  /// Gated results are uneven: a few decide the sum of squares, and 8 bits in blocks of 32 lose more of them. How much is to be
  /// expected follows from the values.
  static void near_uneven(const std::vector<float>& got, const std::vector<Expected>& want, bool fast) {
    double error = 0, variance = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double difference = std::fabs(got[i] - want[i].value);
      ASSERT_LE(difference, fast ? want[i].fast : want[i].exact) << "result " << i << ": " << got[i] << ", not " << want[i].value;
      error += difference * difference, variance += want[i].variance;
    }
    if (fast) {
      EXPECT_LE(std::sqrt(error), 1.5 * std::sqrt(variance));
    }
  }
};

void check(Mode mode, Types types, uint32_t k, uint32_t rows, uint32_t ffn, std::vector<uint32_t> counts, bool exact = true) {
  SCOPED_TRACE(testing::Message() << name(mode) << " " << gguf::type_traits(types.a)->name << " " << gguf::type_traits(types.b)->name);
  Lab lab(mode, Few::kMost);
  const Few test(lab, types, k, rows, ffn);
  for (const uint32_t tokens : counts) {
    if (exact) test.check(lab, exact_choices(mode), tokens);
    test.check(lab, fast_choices(mode), tokens);
  }
}

TEST(FewTokens, EveryCount) {
  check(Mode::Plain, {Type::Q4_0, Type::Q4_0, Type::Q4_0}, 256, 70, 96, {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16});
}

TEST(FewTokens, EveryKindOfType) {
  for (const Type type : {Type::F32, Type::BF16, Type::Q8_0, Type::Q2_K, Type::Q6_K, Type::IQ1_M, Type::IQ2_XS, Type::MXFP4})
    check(Mode::Plain, {type, type, type}, 768, 33, 256, {2, 16});
}

TEST(FewTokens, MixedTypes) {
  check(Mode::Plain, {Type::Q4_K, Type::Q6_K, Type::Q4_K}, 768, 40, 256, {3, 11});
  check(Mode::Plain, {Type::F16, Type::Q8_0, Type::F16}, 320, 40, 64, {3, 11});
}

/// Fewer units than threads of a row, as many, more; rows that fill no workgroup.
TEST(FewTokens, EveryDepth) {
  for (const uint32_t k : {32u, 64u, 288u, 640u, 1280u, 2304u})
    check(Mode::Plain, {Type::Q4_1, Type::Q5_1, Type::Q4_1}, k, 1 + k % 67, 32 + k % 90 / 32 * 32, {5, 16});
  check(Mode::Plain, {Type::F32, Type::F32, Type::F32}, 60, 5, 20, {2, 9});
}

TEST(FewTokens, EveryWayOfOpeningTheDevice) {
  for (const Mode mode : kModes)
    for (const uint32_t k : {256u, 2304u}) check(mode, {Type::Q4_K, Type::Q4_K, Type::Q6_K}, k, 35, 256, {2, 9, 16});
}

TEST(FewTokens, EveryShapeThatTuningMayChoose) {
  for (const Mode mode : {Mode::Plain, Mode::Bare, Mode::Baseline})
    for (const auto& split : kernels::tuning_choices(gpu(mode).device->caps()).few) {
      SCOPED_TRACE(testing::Message() << name(mode) << ", " << split.threads << " threads, " << split.per_row << " a row");
      auto choices = fast_choices(mode);
      choices.tuning.few = split;
      Lab lab(mode, Few::kMost);
      const Few test(lab, {Type::Q4_K, Type::Q4_K, Type::Q4_K}, 2304, 35, 256);
      for (const uint32_t tokens : {2u, 13u}) test.check(lab, choices, tokens);
    }
}

TEST(FewTokens, CutWeights) {
  const auto layout = must(gguf::row_layout(Type::Q4_K, 512));
  for (const auto& choices : {exact_choices(Mode::Plain), fast_choices(Mode::Plain)}) {
    Lab lab(Mode::Plain, Few::kMost, uint64_t{50} * layout.row_bytes);
    const Few test(lab, {Type::Q4_K, Type::Q4_K, Type::Q4_K}, 512, 130, 256);
    EXPECT_GT(lab.weight("a")->tiles.size(), 1u);
    test.check(lab, choices, 7);
  }
}

}  // namespace
}  // namespace gull::test
