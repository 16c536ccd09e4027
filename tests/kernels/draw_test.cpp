// The draw on the GPU against float64: which tokens are kept, that the race is won by the token that wins it in float64, and that
// the frequencies are the probabilities of the softmax.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/philox.h"
#include "kernels/draw.h"
#include "kernels/lab.h"

namespace gull::test {
namespace {

using kernels::DrawSettings;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kNone = 0xffffffffu;

/// Probabilities of all tokens by the definition, in float64: sort, top-k, top-p, min-p, temperature.
std::vector<double> probabilities(const std::vector<float>& logits, const DrawSettings& s) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  std::vector<double> out(logits.size());
  if (order.empty()) return out;
  if (s.top_k && s.top_k < order.size()) order.resize(s.top_k);
  const double best = logits[order[0]];
  const auto weight = [&](uint32_t i, double temperature) { return logits[i] == best ? 1 : std::exp((logits[i] - best) / temperature); };
  const auto mass = [&](double temperature) {
    return std::accumulate(order.begin(), order.end(), 0.0, [&](double sum, uint32_t i) { return sum + weight(i, temperature); });
  };
  if (s.top_p < 1) {
    const double goal = double{s.top_p} * mass(1);
    size_t keep = 0;
    for (double sum = 0; keep == 0 || (keep < order.size() && sum < goal); ++keep) sum += weight(order[keep], 1);
    order.resize(keep);
  }
  while (order.size() > 1 && weight(order.back(), 1) < s.min_p) order.pop_back();
  const double total = mass(s.temperature);
  for (uint32_t i : order) out[i] = weight(i, s.temperature) / total;
  return out;
}

/// Who wins the race in float64.
uint32_t winner(const std::vector<double>& p, const DrawSettings& s, uint32_t step) {
  uint32_t first = kNone;
  double best = kInf;
  for (uint32_t i = 0; i < p.size(); ++i) {
    if (p[i] <= 0) continue;
    const double v = (philox({i / 4, step, 0, 0}, {s.seed[0], s.seed[1]})[i % 4] + 0.5) * 0x1p-32;
    const double time = -std::log1p(-v) / p[i];
    if (time < best) best = time, first = i;
  }
  return first;
}

enum class Kernel { Top, Any };

/// Logits on the GPU, and draws from them.
class Draws {
 public:
  Draws(Mode mode, const std::vector<float>& logits) : mode_(mode), lab_(mode, 1) {
    x_ = lab_.input("logits", static_cast<uint32_t>(logits.size()), logits);
    b_.settings = lab_.buffer(sizeof(DrawSettings));
    b_.ids = lab_.ids({7, 8});
    b_.history = lab_.ids(std::vector<uint32_t>(64, 99));
  }
  /// The ids of `count` (at most 64) steps.
  std::vector<uint32_t> draw(Kernel kernel, const DrawSettings& s, uint32_t count, uint32_t pos = 0, uint32_t tokens = 1) {
    must(lab_.device().write(*b_.settings, 0, std::span<const DrawSettings>(&s, 1)));
    lab_.run(tokens, pos, exact_choices(mode_), [&](kernels::Recorder& r) {
      for (uint32_t i = 0; i < count; ++i) {
        if (kernel == Kernel::Top) kernels::draw_top(r, x_, b_);
        else kernels::draw_any(r, x_, b_, s.top_k > 0 || s.top_p < 1);
      }
      state_ = r.state;
    }, true);
    auto ids = lab_.read<uint32_t>(b_.history, 64);
    ids.resize(count);
    return ids;
  }
  uint32_t id() { return lab_.read<uint32_t>(b_.ids, 1)[0]; }
  std::vector<uint32_t> state() { return lab_.read<uint32_t>(state_, 4); }

 private:
  Mode mode_;
  Lab lab_;
  kernels::Rows x_;
  kernels::DrawBuffers b_;
  gpu::BufferRef state_;
};

DrawSettings settings(uint32_t top_k, float top_p, float min_p, float temperature, uint32_t seed = 1) {
  DrawSettings s;
  s.seed[0] = seed, s.seed[1] = 0x1234567;
  s.top_k = top_k, s.top_p = top_p, s.min_p = min_p, s.temperature = temperature;
  return s;
}

/// As a model gives them: most far below the few that matter.
std::vector<float> logits_of(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& v : out) {
    v = 0;
    for (int i = 0; i < 6; ++i) v += random.next();
    v = 3.5f * v + (random.bits() % 500 == 0 ? 6 * random.next() + 6 : 0);
  }
  return out;
}

struct Sweep { uint32_t n, top_k; float top_p, min_p, temperature; };

/// The share of draws that float64 decides alike, and that none falls on what was cut.
void expect_winners(Mode mode, const Sweep& c, Kernel kernel, int runs) {
  const auto logits = logits_of(c.n, c.n + c.top_k);
  Draws draws(mode, logits);
  int wrong = 0;
  for (int run = 0; run < runs; ++run) {
    const DrawSettings s = settings(c.top_k, c.top_p, c.min_p, c.temperature, 1 + static_cast<uint32_t>(run));
    const auto p = probabilities(logits, s);
    const auto ids = draws.draw(kernel, s, 64);
    for (uint32_t step = 0; step < 64; ++step) {
      ASSERT_LT(ids[step], c.n);
      wrong += ids[step] != winner(p, s, step);
    }
  }
  EXPECT_LE(wrong, 64 * runs / 1000) << c.n << " tokens, top_k " << c.top_k << ", top_p " << c.top_p << ", min_p " << c.min_p << ", temperature " << c.temperature;
}

class AllModes : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Draw, AllModes, testing::ValuesIn(kModes), [](const auto& info) { return name(info.param); });

TEST_P(AllModes, TopDrawsWhatFloat64Draws) {
  for (const Sweep& c : {Sweep{1, 40, 0.95f, 0.05f, 0.8f}, Sweep{2, 2, 1, 0, 1}, Sweep{39, 40, 1, 0, 2}, Sweep{288, 128, 0.95f, 0, 1.5f}, Sweep{288, 3, 1, 0, 1},
                         Sweep{5001, 40, 0.95f, 0.05f, 0.8f}, Sweep{16385, 128, 1, 0, 3}, Sweep{49152, 40, 1, 0, 1}, Sweep{262145, 64, 0.9f, 0, 1}})
    expect_winners(GetParam(), c, Kernel::Top, 2);
}

TEST_P(AllModes, AnyDrawsWhatFloat64Draws) {
  for (const Sweep& c : {Sweep{1, 0, 0.9f, 0, 1}, Sweep{288, 0, 1, 0, 1}, Sweep{288, 200, 0.9f, 0.01f, 1.5f}, Sweep{5001, 0, 0.7f, 0, 1}, Sweep{5001, 1000, 1, 0, 2},
                         Sweep{49152, 0, 1, 0.02f, 1}, Sweep{49152, 5000, 0.95f, 0, 0.8f}, Sweep{262145, 0, 0.99f, 0.0001f, 1}})
    expect_winners(GetParam(), c, Kernel::Any, 1);
}

TEST(Draw, AgreesWithFloat64InAThousand) {
  expect_winners(Mode::Plain, {3000, 40, 0.95f, 0.05f, 0.8f}, Kernel::Top, 64);
  expect_winners(Mode::Plain, {3000, 0, 0.98f, 0, 1}, Kernel::Any, 16);
  expect_winners(Mode::Plain, {3000, 0, 1, 0, 1}, Kernel::Any, 32);
}

/// χ² of draws against probabilities; tokens of few expected draws are taken together.
void expect_frequencies(const std::map<uint32_t, int>& counts, const std::vector<double>& p, int draws) {
  double chi = 0, rest = draws, rest_seen = draws;
  int bins = 0;
  for (uint32_t i = 0; i < p.size(); ++i) {
    const auto it = counts.find(i);
    const int seen = it == counts.end() ? 0 : it->second;
    if (p[i] <= 0) { EXPECT_EQ(seen, 0) << "token " << i << " was cut"; }
    const double expected = p[i] * draws;
    if (expected < 8) continue;
    chi += (seen - expected) * (seen - expected) / expected;
    rest -= expected, rest_seen -= seen;
    ++bins;
  }
  if (rest >= 8) chi += (rest_seen - rest) * (rest_seen - rest) / rest, ++bins;
  ASSERT_GE(bins, 2);
  // The value that one good generator in 10⁵ exceeds, by Wilson and Hilferty's approximation.
  const double df = bins - 1, a = 2 / (9 * df), most = df * std::pow(1 - a + 4.265 * std::sqrt(a), 3);
  EXPECT_LE(chi, most) << "over " << bins << " bins";
}

TEST(Draw, FrequenciesAreTheProbabilities) {
  for (const auto& [c, kernel] : {std::pair(Sweep{2000, 40, 0.95f, 0.05f, 0.8f}, Kernel::Top), std::pair(Sweep{2000, 100, 1, 0, 2}, Kernel::Top),
                                  std::pair(Sweep{2000, 0, 1, 0, 1}, Kernel::Any), std::pair(Sweep{2000, 300, 0.9f, 0, 1.3f}, Kernel::Any)}) {
    const auto logits = logits_of(c.n, 77);
    Draws draws(Mode::Plain, logits);
    std::map<uint32_t, int> counts;
    const int runs = kernel == Kernel::Top ? 64 : 24;
    for (int run = 0; run < runs; ++run)
      for (uint32_t id : draws.draw(kernel, settings(c.top_k, c.top_p, c.min_p, c.temperature, 1000 + static_cast<uint32_t>(run)), 64)) ++counts[id];
    expect_frequencies(counts, probabilities(logits, settings(c.top_k, c.top_p, c.min_p, c.temperature)), 64 * runs);
  }
}

/// Each draw as float64 decides.
void expect_exactly(Kernel kernel, const std::vector<float>& logits, const DrawSettings& s, uint32_t count) {
  const auto p = probabilities(logits, s);
  std::vector<uint32_t> want;
  for (uint32_t step = 0; step < count; ++step) want.push_back(winner(p, s, step));
  EXPECT_EQ(Draws(Mode::Plain, logits).draw(kernel, s, count), want) << "top_k " << s.top_k << ", top_p " << s.top_p << " of " << logits.size();
}

/// Where tokens tie at a cut, those of the lowest ids are kept, exactly as many as there is room for.
TEST(Draw, TiesAtACut) {
  for (const uint32_t n : {3000u, 70000u}) {
    const std::vector<float> logits(n, -2.5f);
    expect_exactly(Kernel::Top, logits, settings(40, 1, 0.5f, 1), 8);
    expect_exactly(Kernel::Top, logits, settings(128, 0.5f, 0.5f, 1), 8);
    expect_exactly(Kernel::Any, logits, settings(256, 1, 0.5f, 1), 8);
    expect_exactly(Kernel::Any, logits, settings(256, 0.5f, 0.5f, 1), 8);
    expect_exactly(Kernel::Any, logits, settings(0, 0.01f, 0, 1), 8);
  }
}

/// A cut amid tokens that tie, with others above and below.
TEST(Draw, TiesBelowBetterOnes) {
  std::vector<float> logits(5000, -9);
  for (size_t i = 100; i < 5000; i += 7) logits[i] = 1;   // 700 of them
  logits[4000] = logits[17] = 2;
  for (uint32_t seed = 1; seed < 4; ++seed) {
    expect_exactly(Kernel::Top, logits, settings(64, 1, 0, 1, seed), 32);
    expect_exactly(Kernel::Any, logits, settings(300, 1, 0, 1, seed), 32);
    expect_exactly(Kernel::Any, logits, settings(0, 0.5f, 0, 1, seed), 32);
    expect_exactly(Kernel::Any, logits, settings(300, 0.5f, 0, 1, seed), 32);
  }
}

TEST(Draw, WhatIsNotANumberIsNeverDrawn) {
  for (const Kernel kernel : {Kernel::Top, Kernel::Any})
    for (const uint32_t n : {1u, 100u, 20000u}) {
      std::vector<float> logits(n, NAN);
      Draws none(Mode::Plain, logits);
      EXPECT_EQ(none.draw(kernel, settings(40, 0.9f, 0.1f, 1), 2), (std::vector<uint32_t>{kNone, kNone}));
      EXPECT_EQ(none.id(), 0u);   // a row that exists, for the steps already under way
      logits[n - 1] = -kInf;
      EXPECT_EQ(Draws(Mode::Plain, logits).draw(kernel, settings(40, 0.9f, 0.1f, 1), 1)[0], n - 1);
      logits[n / 2] = -1e4f;
      EXPECT_EQ(Draws(Mode::Plain, logits).draw(kernel, settings(40, 1, 0, 100), 1)[0], n / 2);
    }
}

TEST(Draw, Extremes) {
  for (const Kernel kernel : {Kernel::Top, Kernel::Any})
    for (const float all : {-kInf, -3e38f, -0.0f})
      for (const float temperature : {1e-30f, 1.0f, 1e30f}) {
        std::vector<float> logits(2000, all);
        logits[1234] = kInf;
        for (uint32_t id : Draws(Mode::Plain, logits).draw(kernel, settings(40, 0.95f, 0.05f, temperature), 4)) EXPECT_EQ(id, 1234u) << all;
        logits[1234] = 1e4f;
        for (uint32_t id : Draws(Mode::Plain, logits).draw(kernel, settings(40, 1, 0, std::min(temperature, 1.0f)), 4)) EXPECT_EQ(id, 1234u) << all;
      }
  // −0 and 0 tie: the lower id is the one.
  EXPECT_EQ(Draws(Mode::Plain, {-0.0f, 0.0f}).draw(Kernel::Top, settings(1, 1, 0, 1), 1)[0], 0u);
}

TEST(Draw, SeedAndStepDecideAlone) {
  const auto logits = logits_of(1000, 5);
  Draws draws(Mode::Plain, logits);
  const auto first = draws.draw(Kernel::Top, settings(40, 0.95f, 0.05f, 1.5f), 32);
  draws.draw(Kernel::Any, settings(0, 1, 0, 1.5f, 9), 7);
  EXPECT_EQ(draws.draw(Kernel::Top, settings(40, 0.95f, 0.05f, 1.5f), 32), first);
  EXPECT_EQ(draws.draw(Kernel::Any, settings(40, 0.95f, 0.05f, 1.5f), 32), first);
  EXPECT_NE(draws.draw(Kernel::Top, settings(40, 0.95f, 0.05f, 1.5f, 2), 32), first);
}

TEST(Draw, MovesTheStateOn) {
  for (const Kernel kernel : {Kernel::Top, Kernel::Any}) {
    Draws draws(Mode::Plain, {0, 1, 50, 2});
    EXPECT_EQ(draws.draw(kernel, settings(4, 1, 0, 1), 1, 10, 3), std::vector<uint32_t>{2});
    EXPECT_EQ(draws.id(), 2u);
    EXPECT_EQ(draws.state(), (std::vector<uint32_t>{13, 1, 14, 1}));
  }
}

/// Bias and penalties over a window that tokens enter and leave: argmax of the penalised logits, step by step, by the definition.
TEST(Penalise, FollowsTheWindow) {
  for (const uint32_t window : {1u, 3u, 5u, 64u}) {
    const uint32_t n = 300;
    auto logits = logits_of(n, window);
    const std::vector<uint32_t> prompt{5, 9, 5, 299, 9, 9, 0};
    Lab lab(Mode::Plain, 1);
    kernels::DrawBuffers b;
    DrawSettings s;
    s.window = window, s.repeat = 1.7f, s.presence = 0.5f, s.frequency = 0.25f;
    b.settings = lab.buffer(sizeof(DrawSettings), std::as_bytes(std::span(&s, 1)));
    std::vector<kernels::TokenNote> notes(n);
    notes[3].bias = 2, notes[9].bias = 30, notes[7].bias = -kInf;
    for (size_t i = prompt.size() - std::min<size_t>(prompt.size(), window); i < prompt.size(); ++i) ++notes[prompt[i]].count;
    b.notes = lab.buffer(n * sizeof(kernels::TokenNote), std::as_bytes(std::span(notes)));
    std::vector<uint32_t> said(64, 299);
    std::copy(prompt.begin(), prompt.end(), said.begin());
    b.said = lab.ids(said);
    b.ids = lab.ids({0});
    b.history = lab.ids(std::vector<uint32_t>(64, 99));
    constexpr uint32_t steps = 24;
    std::vector<kernels::Rows> rows;
    for (uint32_t i = 0; i < steps; ++i) rows.push_back(lab.input("logits " + std::to_string(i), n, logits));
    lab.run(static_cast<uint32_t>(prompt.size()), 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
      for (const auto& row : rows) {
        kernels::penalise(r, row, b);
        kernels::argmax(r, row, b.ids, b.history);
      }
    }, true);
    auto all = prompt;
    for (uint32_t step = 0; step < steps; ++step) {
      std::vector<double> want(logits.begin(), logits.end());
      std::map<uint32_t, int> counts;
      for (size_t i = all.size() - std::min<size_t>(all.size(), window); i < all.size(); ++i) ++counts[all[i]];
      want[3] += 2, want[9] += 30, want[7] = -kInf;
      for (const auto& [id, count] : counts) {
        want[id] = want[id] > 0 ? want[id] / double{s.repeat} : want[id] * double{s.repeat};
        want[id] -= 0.25 * count + 0.5;
      }
      const auto got = lab.output(rows[step], 1);
      for (uint32_t i = 0; i < n; ++i)
        if (std::isinf(want[i])) { EXPECT_EQ(got[i], want[i]) << i; }
        else { ASSERT_NEAR(got[i], want[i], 1e-5) << "token " << i << ", step " << step << ", window " << window; }
      all.push_back(lab.read<uint32_t>(b.history, 64)[step]);
      EXPECT_EQ(all.back(), static_cast<uint32_t>(std::max_element(want.begin(), want.end()) - want.begin()));
    }
  }
}

}  // namespace
}  // namespace gull::test
