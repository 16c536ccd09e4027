// Norms, rotary heads and the cache, activations, and the greedy choice, against float64 and plain rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kv_memory.h"

namespace gull::test {
namespace {

using kernels::Activation;

/// |got − want| within `relative` of want, and of `size` where sums cancel.
void expect_close(const std::vector<float>& got, const std::vector<double>& want, double relative, double size = 0) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(got[i] - want[i]), relative * (std::fabs(want[i]) + size)) << "number " << i << ": " << got[i] << ", not " << want[i];
}

// Norms.

struct NormCase {
  uint32_t width;
  bool layer, weight, bias, add;
  float size;
};

std::vector<double> norm_reference(const NormCase& c, std::span<const float> x, const std::vector<float>& w, const std::vector<float>& b,
                                   std::span<const float> add, float eps) {
  double mean = 0, variance = 0;
  if (c.layer) {
    for (float v : x) mean += v;
    mean /= c.width;
  }
  for (float v : x) variance += (v - mean) * (v - mean);
  const double scale = 1 / std::sqrt(variance / c.width + eps);
  std::vector<double> out(c.width);
  for (uint32_t i = 0; i < c.width; ++i)
    out[i] = (x[i] - mean) * scale * (c.weight ? w[i] : 1.0) + (c.bias ? b[i] : 0.0) + (c.add ? add[i] : 0.0);
  return out;
}

class Norms : public testing::TestWithParam<NormCase> {};

TEST_P(Norms, EqualFloat64) {
  const NormCase& c = GetParam();
  const uint32_t tokens = 3;
  const float eps = 1e-6f;
  Lab lab(c.width % 2 ? Mode::Checked : Mode::Plain, tokens);
  Random random(c.width);
  const auto values = random.vector(size_t{tokens} * c.width, c.size), w = random.vector(c.width), b = random.vector(c.width),
             more = random.vector(values.size());
  lab.vector("w", w), lab.vector("b", b);
  const auto x = lab.input("x", c.width, values), y = lab.rows("y", c.width), in_place = lab.input("z", c.width, more);
  lab.run(tokens, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    const kernels::Norm n{c.weight ? lab.weight("w") : nullptr, c.bias ? lab.weight("b") : nullptr, eps, c.layer};
    kernels::norm(r, x, n, y, c.add ? in_place : kernels::Rows{});
    if (c.add) kernels::norm(r, x, n, in_place, in_place);
  }, false);
  std::vector<double> want;
  for (uint32_t t = 0; t < tokens; ++t) {
    const auto row = norm_reference(c, std::span(values).subspan(size_t{t} * c.width, c.width), w, b, std::span(more).subspan(size_t{t} * c.width, c.width), eps);
    want.insert(want.end(), row.begin(), row.end());
  }
  expect_close(lab.output(y, tokens), want, 2e-6, 1);
  if (c.add) expect_close(lab.output(in_place, tokens), want, 2e-6, 1);
}

INSTANTIATE_TEST_SUITE_P(All, Norms,
                         testing::Values(NormCase{64, false, true, false, false, 1}, NormCase{1, false, true, false, false, 1},
                                         NormCase{31, false, true, false, true, 1}, NormCase{100, false, false, false, false, 1e-4f},
                                         NormCase{576, false, true, false, true, 1e6f}, NormCase{1024, false, true, false, false, 1e12f},
                                         NormCase{4097, false, true, false, false, 1}, NormCase{64, true, true, true, false, 1},
                                         NormCase{387, true, true, true, true, 100}, NormCase{1025, true, true, false, false, 1}));

// Heads.

struct RopeCase {
  uint32_t head_dim, heads, kv_heads, pairs;
  bool neox = true, q_norm = false, k_norm = false, v_norm = false, write_kv = true;
  KvType type = KvType::F32;
  float size = 1;
};

class Heads : public testing::TestWithParam<RopeCase> {};

void rms(std::vector<double>& head, const std::vector<float>* weight, double eps) {
  double squares = 0;
  for (double v : head) squares += v * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(head.size()) + eps);
  for (size_t i = 0; i < head.size(); ++i) head[i] *= scale * (weight ? (*weight)[i] : 1.0);
}

void rotate(const RopeCase& c, std::vector<double>& head, const float* table) {
  for (uint32_t i = 0; i < c.pairs; ++i) {
    double& x = head[c.neox ? i : 2 * i];
    double& y = head[c.neox ? i + c.pairs : 2 * i + 1];
    const double a = x, b = y;
    x = a * table[2 * i] - b * table[2 * i + 1];
    y = a * table[2 * i + 1] + b * table[2 * i];
  }
}

/// The angles that a model would have: position ÷ 10000^(i ÷ pairs).
std::vector<float> rope_table(uint32_t positions, uint32_t pairs) {
  std::vector<float> table;
  for (uint32_t p = 0; p < positions; ++p)
    for (uint32_t i = 0; i < pairs; ++i) {
      const double angle = p / std::pow(1e4, i / static_cast<double>(pairs));
      table.push_back(static_cast<float>(std::cos(angle))), table.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

TEST_P(Heads, RotatedNormedAndCached) {
  const RopeCase& c = GetParam();
  const uint32_t tokens = 3, pos = 5, row = c.kv_heads * c.head_dim;
  const uint32_t heads = c.heads + (c.write_kv ? 2 * c.kv_heads : 0), width = heads * c.head_dim;
  Lab lab(c.heads % 2 ? Mode::Checked : Mode::Plain, tokens);
  Random random(c.head_dim + c.pairs);
  const auto values = random.vector(size_t{tokens} * width, c.size), qn = random.vector(c.head_dim), kn = random.vector(c.head_dim);
  lab.vector("qn", qn), lab.vector("kn", kn);
  const auto table = rope_table(pos + tokens, c.pairs);
  std::vector<float> none;
  const kernels::KvLayer layer{kv_buffer(lab, c.type, none, pos + tokens + 1, row), kv_buffer(lab, c.type, none, pos + tokens + 1, row), c.type, c.kv_heads, c.head_dim};
  const auto qkv = lab.input("qkv", width, values);
  kernels::RopeKv o{.heads = c.heads, .v_norm = c.v_norm, .eps = 1e-6f, .write_kv = c.write_kv};
  if (c.pairs) o.rope = {lab.buffer(table.size() * 4, std::as_bytes(std::span(table))), c.pairs, c.neox};
  lab.run(tokens, pos, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    if (c.q_norm) o.q_norm = {lab.weight("qn"), nullptr, 1e-5f, false};
    if (c.k_norm) o.k_norm = {lab.weight("kn"), nullptr, 1e-6f, false};
    kernels::rope_kv(r, qkv, o, layer);
  }, false);
  const auto out = lab.output(qkv, tokens), k = kv_values(lab, c.type, layer.k), v = kv_values(lab, c.type, layer.v);
  // How far a stored number may be off, of its size and of the largest in its block.
  const double half = c.type == KvType::F16 ? 0x1p-11 : 0, step = c.type == KvType::Q8_0 ? 0.501 / 127 : c.type == KvType::Q4_0 ? 1.001 / 8 : 0;
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t h = 0; h < heads; ++h) {
      SCOPED_TRACE(testing::Message() << "token " << t << " head " << h);
      const float* in = &values[(size_t{t} * heads + h) * c.head_dim];
      std::vector<double> want(in, in + c.head_dim);
      const bool is_q = h < c.heads, is_k = !is_q && h < c.heads + c.kv_heads;
      if (is_q && c.q_norm) rms(want, &qn, 1e-5);
      if (is_k && c.k_norm) rms(want, &kn, 1e-6);
      if (!is_q && !is_k && c.v_norm) rms(want, nullptr, 1e-6);
      if (is_q || is_k) rotate(c, want, &table[size_t{pos + t} * c.pairs * 2]);
      mix(c.type, want);
      const float* got = is_q ? &out[(size_t{t} * heads + h) * c.head_dim]
                              : &(is_k ? k : v)[(size_t{pos + t} * c.kv_heads + (h - c.heads) % c.kv_heads) * c.head_dim];
      if (!is_q && c.type == KvType::F16)
        for (double& w : want) w = std::clamp(w, -65504.0, 65504.0);   // f16 has no larger finite number
      if (!is_q && step > 0) {
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          double most = 0;
          for (uint32_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) most = std::max(most, std::fabs(want[j]));
          ASSERT_NEAR(got[i], want[i], step * most) << "number " << i;
        }
        continue;
      }
      expect_close({got, got + c.head_dim}, want, 2e-6 + (is_q ? 0 : half), is_q || half == 0 ? c.size : 1e-6 * c.size);
    }
  if (!c.write_kv) return;
  for (size_t i = 0; i < k.size(); ++i)   // other positions are untouched
    if (i < size_t{pos} * row || i >= size_t{pos + tokens} * row) { ASSERT_TRUE(std::isnan(k[i]) && std::isnan(v[i])) << i; }
}

INSTANTIATE_TEST_SUITE_P(All, Heads,
                         testing::Values(RopeCase{64, 4, 2, 32}, RopeCase{64, 3, 1, 32, false}, RopeCase{128, 2, 2, 64, true, true, true},
                                         RopeCase{80, 4, 4, 16}, RopeCase{96, 3, 3, 24, false, false, false, false, true, KvType::F16},
                                         RopeCase{256, 2, 1, 128, true, true, true, true, true, KvType::F16},
                                         RopeCase{512, 1, 1, 64, true, true, true, true}, RopeCase{32, 5, 1, 16, true, true, false, false, false},
                                         RopeCase{64, 2, 2, 0, true, false, false, false, true, KvType::F16},
                                         RopeCase{64, 2, 2, 32, true, false, false, false, true, KvType::F16, 1e5f},
                                         RopeCase{576, 2, 1, 32, false, false, true},
                         RopeCase{128, 4, 2, 64, true, true, true, false, true, KvType::Q8_0}, RopeCase{96, 3, 3, 48, false, false, false, false, true, KvType::Q8_0, 1e6f},
                         RopeCase{64, 2, 2, 32, true, false, false, false, true, KvType::Q4_0}, RopeCase{512, 1, 1, 64, false, false, false, true, true, KvType::Q4_0}));

TEST(HeadsInBlocks, WhatIsNotANumberStays) {
  for (const KvType type : {KvType::Q8_0, KvType::Q4_0})
    for (const float bad : {NAN, -NAN}) {
      Lab lab(Mode::Plain, 2);
      Random random(4);
      auto values = random.vector(size_t{2} * 3 * 64);
      values[64 + 9] = values[192 + 128 + 50] = bad;   // a key of the first token, a value of the second
      const size_t bytes = size_t{2} * 64 / 32 * block_words(type) * 4;
      const std::vector<std::byte> zeros(bytes);
      const kernels::KvLayer layer{lab.buffer(bytes, zeros), lab.buffer(bytes, zeros), type, 1, 64};
      const auto qkv = lab.input("qkv", 192, values);
      lab.run(2, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) { kernels::rope_kv(r, qkv, {.heads = 1}, layer); }, false);
      const auto k = kv_values(lab, type, layer.k), v = kv_values(lab, type, layer.v);
      for (size_t i = 0; i < 128; ++i) {
        EXPECT_EQ(std::isnan(k[i]), i < 64) << i;
        EXPECT_EQ(std::isnan(v[i]), i >= 64) << i;
      }
    }
}

// Activations.

double activation_reference(Activation a, double v) {
  switch (a) {
    case Activation::Silu: return v / (1 + std::exp(-v));
    case Activation::GeluTanh: return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    case Activation::Gelu: return 0.5 * v * (1 + std::erf(v / M_SQRT2));
    case Activation::GeluQuick: return v / (1 + std::exp(-1.702 * v));
    case Activation::Relu: return std::max(v, 0.0);
    case Activation::Relu2: return v > 0 ? v * v : 0;
    case Activation::Tanh: return std::tanh(v);
    case Activation::Sigmoid: return 1 / (1 + std::exp(-v));
    case Activation::Softplus: return v > 30 ? v : std::log1p(std::exp(v));
    default: return v;
  }
}

TEST(Activations, EqualFloat64OverTheirRange) {
  std::vector<float> values{0.0f, -0.0f, 1e-30f, -1e-30f, 1e5f, -1e5f, 1e18f, -1e18f, 88.0f, -88.0f, 89.0f, -89.0f, 20.0f, -20.0f};
  for (int i = -400; i < 400; ++i) values.push_back(static_cast<float>(i) * 0.05f);
  const auto width = static_cast<uint32_t>(values.size() / 2);
  values.resize(size_t{width} * 2);
  Random random(3);
  const auto factor = random.vector(values.size());
  for (const Activation a : {Activation::None, Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::GeluQuick, Activation::Relu,
                             Activation::Relu2, Activation::Tanh, Activation::Sigmoid, Activation::Softplus}) {
    SCOPED_TRACE(static_cast<int>(a));
    Lab lab(Mode::Plain, 2);
    const auto x = lab.input("x", width, values), b = lab.input("b", width, factor), y = lab.rows("y", width);
    lab.run(2, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
      kernels::activate(r, a, x, b, y);
      kernels::activate(r, a, x, {}, x);
    }, false);
    std::vector<double> alone(values.size()), product(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      alone[i] = activation_reference(a, values[i]);
      product[i] = alone[i] * factor[i];
    }
    // Near zero and in the tails, where 1 + tanh and the like cancel, the error is one of the argument's units.
    expect_close(lab.output(x, 2), alone, 4e-6, 0.5);
    expect_close(lab.output(y, 2), product, 4e-6, 0.5);
  }
}

TEST(Activations, ScaledAddedCapped) {
  const uint32_t width = 300, tokens = 3;
  Random random(11);
  const auto a = random.vector(size_t{width} * tokens, 50), b = random.vector(size_t{width} * tokens), f = random.vector(tokens, 4);
  Lab lab(Mode::Plain, tokens);
  const auto x = lab.input("x", width, a), more = lab.input("b", width, b), y = lab.rows("y", width), z = lab.input("z", width, b), capped = lab.input("c", width, a),
             factor = lab.input("f", 1, f), last = lab.rows("last", width), scaled = lab.input("s", width, a);
  lab.run(tokens, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    kernels::scale_add(r, x, 0.5f, more, y);
    kernels::scale_add(r, x, -2.0f, z, z);
    kernels::softcap(r, capped, 30.0f);
    kernels::last_row(r, x, last);
    kernels::scale_rows(r, scaled, Activation::Sigmoid, factor);
  }, false);
  std::vector<double> sum, in_place, cap, rows;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back(a[i] * 0.5 + b[i]), in_place.push_back(a[i] * -2.0 + b[i]), cap.push_back(30 * std::tanh(a[i] / 30.0));
    rows.push_back(a[i] / (1 + std::exp(-double{f[i / width]})));
  }
  expect_close(lab.output(y, tokens), sum, 1e-6, 1);
  expect_close(lab.output(z, tokens), in_place, 1e-6, 1);
  expect_close(lab.output(capped, tokens), cap, 4e-6, 1);
  expect_close(lab.output(scaled, tokens), rows, 4e-6, 1);
  EXPECT_EQ(lab.output(last, 1), std::vector<float>(a.end() - width, a.end()));
}

// The greedy choice.

struct Choice {
  uint32_t id;
  std::vector<uint32_t> history, state;
};

Choice greedy(const std::vector<float>& logits, uint32_t pos, uint32_t count) {
  Lab lab(Mode::Plain, 1);
  const auto x = lab.input("logits", static_cast<uint32_t>(logits.size()), logits);
  const auto ids = lab.ids({7, 8}), history = lab.ids(std::vector<uint32_t>(64, 99));
  gpu::BufferRef state;
  lab.run(count, pos, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    kernels::argmax(r, x, ids, history);
    state = r.state;
  }, true);
  return {lab.read<uint32_t>(ids, 2)[0], lab.read<uint32_t>(history, 64), lab.read<uint32_t>(state, 4)};
}

TEST(Argmax, LargestAndLowestOnATie) {
  for (const uint32_t n : {1u, 2u, 63u, 255u, 257u, 16383u, 16385u, 50257u, 262145u})
    for (const uint32_t at : {0u, 1u, n / 3, n / 2, n - 2, n - 1}) {
      if (at >= n) continue;
      Random random(n + at);
      auto logits = random.vector(n, 30);
      logits[at] = 31;
      if (at + 1 < n) logits[n - 1] = 31, logits[at + (n - at) / 2] = 31;
      ASSERT_EQ(greedy(logits, 0, 1).id, at) << n;
    }
}

TEST(Argmax, Extremes) {
  constexpr float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  for (const float all : {-inf, -most, -3.4e38f, 0.0f, most, inf})
    for (const uint32_t n : {1u, 100u, 20000u}) {
      std::vector<float> logits(n, all);
      EXPECT_EQ(greedy(logits, 0, 1).id, 0u) << "all " << all << ", " << n;
      if (all == inf || n == 1) continue;
      logits[n - 1] = all == 0 ? std::numeric_limits<float>::min() : std::nextafter(all, inf);   // WGSL may take what is smaller for 0
      EXPECT_EQ(greedy(logits, 0, 1).id, n - 1) << "all but the last " << all << ", " << n;
    }
}

TEST(Argmax, WhatIsNotANumberIsNeverChosen) {
  for (const uint32_t n : {1u, 100u, 20000u}) {
    std::vector<float> logits(n, NAN);
    const Choice none = greedy(logits, 0, 1);
    EXPECT_EQ(none.id, 0u);                      // a row that exists, for the steps already under way
    EXPECT_EQ(none.history[0], 0xffffffffu);
    logits[n - 1] = -5;
    EXPECT_EQ(greedy(logits, 0, 1).id, n - 1);
    logits[n / 2] = -4;
    EXPECT_EQ(greedy(logits, 0, 1).id, n / 2);
  }
}

TEST(Argmax, MovesTheStateOn) {
  const Choice choice = greedy({0, 1, 5, 2}, 10, 3);
  EXPECT_EQ(choice.id, 2u);
  EXPECT_EQ(choice.history[0], 2u);
  EXPECT_EQ(choice.history[1], 99u);
  EXPECT_EQ(choice.state, (std::vector<uint32_t>{13, 1, 14, 1}));
}

}  // namespace
}  // namespace gull::test
