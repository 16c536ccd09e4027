// Projections against float64 on the CPU, from weights that the CPU decoded: every type, one token to 1025, every variant.
#include <array>

#include "kernels/dot8/dot8.h"
#include "kernels/tuning.h"
#include "kernels/projections.h"

namespace gull::test {
namespace {

using kernels::Activation;

/// Odd numbers of blocks and of rows, another pair for each type.
struct Shape { uint32_t k, n; };
Shape shape_for(gguf::Type type, uint32_t salt = 0) {
  static constexpr uint32_t kPlain[] = {4, 20, 100, 576, 32, 60}, kSmall[] = {32, 96, 160, 576, 288}, kLarge[] = {256, 768};
  static constexpr uint32_t kRows[] = {65, 31, 257, 3, 64, 1, 130};
  const uint32_t i = static_cast<uint32_t>(std::find(std::begin(kTypes), std::end(kTypes), type) - std::begin(kTypes)) + salt;
  const uint32_t block = gguf::type_traits(type)->block;
  return {block == 1 ? kPlain[i % 6] : block == 32 ? kSmall[i % 5] : kLarge[i % 2], kRows[i % 7]};
}

/// For the types that have kernels with 8-bit activations, depths that these take: multiples of 64.
Shape fast_shape_for(gguf::Type type, uint32_t salt = 0) {
  static constexpr uint32_t kDepths[] = {64, 192, 320, 576, 832};
  Shape shape = shape_for(type, salt);
  if (kernels::has_dot8(type) && gguf::type_traits(type)->block == 32) shape.k = kDepths[(static_cast<uint32_t>(type) + salt) % 5];
  return shape;
}

// One token: the fused kernels.

/// A gate and an up projection, two projections of one normed input (one with a bias), and an addition.
struct OneToken {
  Matrix a, b, c, gate, up;
  std::vector<float> x, norm, bias, before;

  OneToken(Lab& lab, gguf::Type type, Shape shape, float size) {
    Random random(static_cast<uint64_t>(type) + 1);
    a = add_matrix(lab, "a", type, shape.k, shape.n), b = add_matrix(lab, "b", type, shape.k, shape.n + 1);
    c = add_matrix(lab, "c", type, shape.k, shape.n + 2);
    gate = add_matrix(lab, "gate", type, shape.k, shape.n + 3), up = add_matrix(lab, "up", type, shape.k, shape.n + 3);
    x = random.vector(shape.k, size), norm = random.vector(shape.k), bias = random.vector(a.n), before = random.vector(c.n, size);
    lab.vector("norm", norm), lab.vector("bias", bias);
  }

  struct Results { std::vector<float> ab, c, gated; };
  Results run(Lab& lab, kernels::Choices choices) const {
    const auto in = lab.input("x", a.k, x), ab = lab.rows("ab", a.n + b.n), sum = lab.input("c", c.n, before), g = lab.rows("g", gate.n);
    lab.run(1, 5, choices, [&](kernels::Recorder& r) {
      const kernels::Norm n{lab.weight("norm"), nullptr, kEps, false};
      kernels::project(r, in, n, {{lab.weight("a"), lab.weight("bias"), ab.columns(0, a.n)}, {lab.weight("b"), nullptr, ab.columns(a.n, b.n)}});
      kernels::project_add(r, in, {lab.weight("c"), nullptr, sum});
      kernels::project_gated(r, in, n, lab.weight("gate"), lab.weight("up"), Activation::Silu, g);
    }, true);
    return {lab.output(ab, 1), lab.output(sum, 1), lab.output(g, 1)};
  }

  void check(const Results& got, bool fast) const {
    const auto in = normed(x, norm);
    auto ab = reference(a, in);
    for (uint32_t i = 0; i < a.n; ++i) ab[i].value += bias[i];
    const auto more = reference(b, in);
    ab.insert(ab.end(), more.begin(), more.end());
    { SCOPED_TRACE("two projections of a normed input"); expect_near(got.ab, ab, fast); }
    auto sum = reference(c, doubles(x));
    for (uint32_t i = 0; i < c.n; ++i) {
      sum[i].value += before[i];
      sum[i].exact += kUnit * std::fabs(before[i]), sum[i].fast += kUnit * std::fabs(before[i]);
    }
    { SCOPED_TRACE("addition"); expect_near(got.c, sum, fast); }
    const auto g = reference(gate, in), u = reference(up, in);
    std::vector<Expected> product(g.size());
    for (size_t i = 0; i < g.size(); ++i) product[i] = gated(g[i], u[i]);
    { SCOPED_TRACE("gated"); expect_near(got.gated, product, fast); }
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

class Project : public testing::TestWithParam<gguf::Type> {};

TEST_P(Project, OneTokenInFloat32) {
  OneToken::Results plain;
  for (const Mode mode : {Mode::Plain, Mode::Checked}) {
    SCOPED_TRACE(name(mode));
    Lab lab(mode, 1);
    const OneToken test(lab, GetParam(), shape_for(GetParam()), 1.0f);
    const auto got = test.run(lab, exact_choices(mode));
    test.check(got, false);
    if (mode == Mode::Plain) plain = got;
    else EXPECT_TRUE(same_bits(plain.ab, got.ab) && same_bits(plain.c, got.c) && same_bits(plain.gated, got.gated));
  }
}

TEST_P(Project, OneTokenFast) {
  Lab lab(Mode::Plain, 1);
  const OneToken test(lab, GetParam(), fast_shape_for(GetParam()), 1.0f);
  for (const bool few_threads : {false, true}) {
    SCOPED_TRACE(few_threads ? "few threads" : "many threads");
    auto choices = fast_choices(Mode::Plain);
    choices.few_threads = few_threads;
    test.check(test.run(lab, choices), true);
  }
}

// Many tokens.

/// The first `counts.back()` tokens of x·Wᵀ + bias; every smaller count must give its prefix and write nothing else.
void many_tokens(Mode mode, kernels::Choices choices, gguf::Type type, Shape shape, std::vector<uint32_t> counts, uint32_t max_tokens,
                 float size, std::vector<float>* results = nullptr) {
  Lab lab(mode, max_tokens + 1);
  const Matrix w = add_matrix(lab, "w", type, shape.k, shape.n);
  Random random(static_cast<uint64_t>(type) + 99);
  const auto bias = random.vector(shape.n, size), x = random.vector(size_t{counts.back()} * shape.k, size);
  lab.vector("bias", bias);
  std::vector<Expected> want;
  for (uint32_t t = 0; t < counts.back(); ++t) {
    auto row = reference(w, doubles(std::span(x).subspan(size_t{t} * shape.k, shape.k)));
    for (uint32_t i = 0; i < shape.n; ++i) row[i].value += bias[i], row[i].exact += kUnit * std::fabs(bias[i]), row[i].fast += kUnit * std::fabs(bias[i]);
    want.insert(want.end(), row.begin(), row.end());
  }
  const auto in = lab.input("x", shape.k, x);
  for (const uint32_t tokens : counts) {
    SCOPED_TRACE(testing::Message() << name(mode) << ", " << tokens << " tokens, k " << shape.k << ", " << shape.n << " rows");
    const auto y = lab.rows("y", shape.n);
    lab.run(tokens, 0, choices, [&](kernels::Recorder& r) { kernels::project(r, in, {}, {{lab.weight("w"), lab.weight("bias"), y}}); }, false);
    const auto got = lab.output(y, tokens + 1);
    expect_near(got, std::span(want).first(size_t{tokens} * shape.n), choices.precision == Precision::Fast);
    for (uint32_t i = 0; i < shape.n; ++i) ASSERT_EQ(got[size_t{tokens} * shape.n + i], 12345.0f) << "beyond the last token";
    if (results) results->insert(results->end(), got.begin(), got.end());
  }
}

TEST_P(Project, ManyTokens) {
  const Shape shape = shape_for(GetParam(), 2);
  std::vector<float> plain, checked;
  const std::vector<uint32_t> counts{2, 3, 8, 16, 17, 32, 33, 64, 65, 129, 513, 1025};
  many_tokens(Mode::Plain, exact_choices(Mode::Plain), GetParam(), shape, counts, 1025, 1.0f, &plain);
  many_tokens(Mode::Checked, exact_choices(Mode::Checked), GetParam(), shape, {2, 3, 8, 16, 17, 32, 33, 64, 65}, 1025, 1.0f, &checked);
  plain.resize(checked.size());
  EXPECT_TRUE(same_bits(plain, checked));
  many_tokens(Mode::Plain, fast_choices(Mode::Plain), GetParam(), fast_shape_for(GetParam(), 2), {2, 3, 16, 17, 64, 65, 129, 513}, 1025, 1.0f);
}

TEST_P(Project, FewTokens) {
  const Shape shape = shape_for(GetParam(), 3);
  many_tokens(Mode::Plain, exact_choices(Mode::Plain), GetParam(), shape, {1, 2, 3, 7, 8}, 8, 1.0f);
  many_tokens(Mode::Plain, fast_choices(Mode::Plain), GetParam(), fast_shape_for(GetParam(), 3), {2, 8}, 8, 1.0f);
}

// Other sizes, devices and activations, for a few types that stand for their kind.

using gguf::Type;

TEST(ProjectSizes, EveryRowCountAndDepth) {
  const uint32_t rows[] = {1, 3, 31, 64, 65, 257}, small[] = {32, 96, 160, 576};
  uint32_t i = 0;
  for (const uint32_t n : rows)
    for (const uint32_t k : small) {
      const Type type = std::array{Type::Q4_0, Type::F16, Type::Q8_0, Type::Q5_1}[i++ % 4];
      many_tokens(Mode::Plain, exact_choices(Mode::Plain), type, {k, n}, {1, 5, 33}, 64, 1.0f);
    }
}

TEST(ProjectSizes, EveryWayOfOpeningTheDevice) {
  for (const Mode mode : kModes)
    for (const Type type : {Type::BF16, Type::Q4_0, Type::Q2_K, Type::Q6_K, Type::IQ1_M, Type::IQ3_S}) {
      SCOPED_TRACE(testing::Message() << name(mode) << " " << gguf::type_traits(type)->name);
      const Shape shape{type == Type::Q4_0 || type == Type::BF16 ? 192u : 768u, 70};
      for (const auto& choices : {exact_choices(mode), fast_choices(mode)}) {
        Lab lab(mode, 1);
        const OneToken test(lab, type, shape, 1.0f);
        test.check(test.run(lab, choices), choices.precision == Precision::Fast);
        many_tokens(mode, choices, type, shape, {2, 40}, 64, 1.0f);
      }
    }
}

TEST(ProjectSizes, LargeActivationsStayFiniteAndRight) {
  for (const float size : {1e5f, 1e6f, 1e15f})
    for (const Type type : {Type::F16, Type::Q4_0, Type::Q8_0, Type::Q4_K})
      for (const auto& choices : {exact_choices(Mode::Plain), fast_choices(Mode::Plain)}) {
        SCOPED_TRACE(testing::Message() << size << " " << gguf::type_traits(type)->name);
        const bool fast = choices.precision == Precision::Fast;
        Lab lab(Mode::Plain, 1);
        const OneToken test(lab, type, {256, 65}, size);
        test.check(test.run(lab, choices), fast);
        many_tokens(Mode::Plain, choices, type, {256, 65}, {3, 33}, 64, size);
      }
}

/// What is not a number, or infinite, must not become zeros on its way through blocks of 8-bit integers.
TEST(ProjectSizes, WhatIsNotFiniteStays) {
  const uint32_t k = 256, n = 128;
  for (const Mode mode : {Mode::Plain, Mode::Bare})
    for (const float bad : {NAN, -NAN, INFINITY})
      for (const uint32_t tokens : {1u, 3u, 40u}) {
        SCOPED_TRACE(testing::Message() << name(mode) << ", " << bad << ", " << tokens << " tokens");
        Lab lab(mode, tokens);
        add_matrix(lab, "w", Type::Q8_0, k, n), add_matrix(lab, "next", Type::Q8_0, n, n);
        Random random(8);
        auto values = random.vector(size_t{tokens} * k), more = random.vector(size_t{tokens} * n);
        values[size_t{tokens - 1} * k + 77] = bad;
        const auto x = lab.input("x", k, values), y = lab.rows("y", n), z = lab.rows("z", n);
        lab.run(tokens, 0, fast_choices(mode), [&](kernels::Recorder& r) { kernels::project(r, x, {}, {{lab.weight("w"), nullptr, y}}); }, tokens == 1);
        const auto got = lab.output(y, tokens);
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isfinite(got[i]), i < size_t{tokens - 1} * n) << i;
        // And in the result of a projection, which the next one reads.
        values[size_t{tokens - 1} * k + 77] = 0;
        more[size_t{tokens - 1} * n + 40] = bad;
        const auto in = lab.input("x", k, values), sum = lab.input("sum", n, more);
        lab.run(tokens, 0, fast_choices(mode), [&](kernels::Recorder& r) {
          kernels::project_add(r, in, {lab.weight("w"), nullptr, sum});
          kernels::project(r, sum, {}, {{lab.weight("next"), nullptr, z}});
        }, tokens == 1);
        const auto second = lab.output(z, tokens);
        for (size_t i = 0; i < second.size(); ++i) ASSERT_EQ(std::isfinite(second[i]), i < size_t{tokens - 1} * n) << i;
      }
}

TEST(ProjectSizes, TilesGiveTheSame) {
  for (const Type type : {Type::F32, Type::Q4_0, Type::Q6_K, Type::IQ2_XS})
    for (const uint32_t tokens : {1u, 20u}) {
      SCOPED_TRACE(testing::Message() << gguf::type_traits(type)->name << ", " << tokens << " tokens");
      const uint32_t k = 512, n = 300;
      const auto layout = must(gguf::row_layout(type, k));
      std::vector<float> whole;
      for (const uint64_t max_tile : {uint64_t{0}, uint64_t{130} * layout.row_bytes + layout.table_bytes}) {
        Lab lab(Mode::Plain, tokens, max_tile);
        const Matrix w = add_matrix(lab, "w", type, k, n), up = add_matrix(lab, "up", type, k, n);
        Random random(5);
        const auto bias = random.vector(n);
        lab.vector("bias", bias), lab.vector("norm", random.vector(k));
        const auto x = lab.input("x", k, random.vector(size_t{tokens} * k)), y = lab.rows("y", n), g = lab.rows("g", n),
                   sum = lab.input("sum", n, random.vector(size_t{tokens} * n));
        lab.run(tokens, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
          const kernels::Norm norm{lab.weight("norm"), nullptr, kEps, false};
          kernels::project(r, x, {}, {{lab.weight("w"), lab.weight("bias"), y}});
          kernels::project_add(r, x, {lab.weight("up"), nullptr, sum});
          kernels::project_gated(r, x, norm, lab.weight("w"), lab.weight("up"), Activation::GeluTanh, g);
        }, tokens == 1);
        EXPECT_EQ(lab.weight("w")->tiles.size(), max_tile ? 3u : 1u);
        std::vector<float> all;
        for (const auto& rows : {y, sum, g}) {
          const auto part = lab.output(rows, tokens);
          all.insert(all.end(), part.begin(), part.end());
        }
        if (whole.empty()) whole = all;
        else EXPECT_TRUE(same_bits(whole, all));
      }
    }
}

TEST(ProjectSizes, EveryShapeThatTuningMayChoose) {
  for (const Mode mode : {Mode::Plain, Mode::Bare, Mode::Baseline}) {
    const auto known = kernels::tuning_choices(gpu(mode).device->caps());
    EXPECT_FALSE(known.matvec8.empty() || known.matmul8.empty());
    for (const auto& split : known.matvec8)
      for (const uint32_t k : {256u, 2304u}) {
        SCOPED_TRACE(testing::Message() << name(mode) << ", one token, " << split.threads << " threads, " << split.per_row << " a row, k " << k);
        auto choices = fast_choices(mode);
        choices.tuning.matvec8 = choices.tuning.gated8 = split;
        Lab lab(mode, 1);
        const OneToken test(lab, Type::Q4_K, {k, 70}, 1.0f);
        test.check(test.run(lab, choices), true);
      }
    for (const auto& tile : known.matmul8) {
      SCOPED_TRACE(testing::Message() << "tile of " << tile.tokens << " tokens and " << tile.rows << " rows, " << tile.units << " units");
      auto choices = fast_choices(mode);
      choices.tuning.matmul8 = tile;
      many_tokens(mode, choices, Type::Q4_0, {192, 1025}, {65, 130}, 130, 1.0f);   // three units: no whole number of twos
      many_tokens(mode, choices, Type::Q2_K, {256, 131}, {65, 130}, 130, 1.0f);
    }
    for (const auto& tile : known.matmul) {
      SCOPED_TRACE(testing::Message() << "float tile of " << tile.tokens << " tokens and " << tile.rows << " rows");
      auto choices = exact_choices(mode);
      choices.tuning.matmul = tile;
      many_tokens(mode, choices, Type::Q4_0, {96, 131}, {65, 130}, 130, 1.0f);
    }
  }
}

TEST(Tuning, OnlyShapesThatADeviceOffers) {
  const gpu::Caps& caps = gpu(Mode::Baseline).device->caps();
  EXPECT_EQ(kernels::proven(caps, {{0, 0, 7}, {7, 64, 1}, {512, 8}, {0, 8}, {1, 0}}), Tuning{});
  EXPECT_EQ(kernels::proven(caps, {{128, 128, 1}, {64, 128, 1}, {1024, 32}, {512, 32}, {512, 16}}), Tuning{}) << "more than the default limits allow";
  const auto known = kernels::tuning_choices(caps);
  const Tuning good{known.matmul8.back(), known.matmul.back(), known.matvec8.back(), known.gated8.back(), known.few.back()};
  EXPECT_EQ(kernels::proven(caps, good), good);
  EXPECT_TRUE(kernels::tuning_choices({.max_invocations = 128}).few.empty());
}

INSTANTIATE_TEST_SUITE_P(Types, Project, testing::ValuesIn(kTypes), type_test_name);

}  // namespace
}  // namespace gull::test
