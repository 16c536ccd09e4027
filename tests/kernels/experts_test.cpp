// Mixtures of experts against float64: the choice of experts by plain rules, and every type's products for one token and for
// a batch, in whole tensors and in tiles.
#include <numeric>

#include "kernels/moe.h"
#include "kernels/projections.h"

namespace gull::test {
namespace {

using gguf::Type;
using kernels::Router;

// The choice.

struct Chosen {
  std::vector<uint32_t> ids;
  std::vector<double> weights;   ///< of ids
};

/// What moe.h says a router does.
Chosen choose(const Router& o, std::span<const float> logits, const std::vector<float>& choice_bias, const std::vector<float>& expert_scale) {
  const uint32_t n = o.experts;
  std::vector<double> prob(logits.begin(), logits.end());
  const auto softmax = [](std::vector<double>& v) {
    const double most = *std::max_element(v.begin(), v.end());
    double sum = 0;
    for (double& p : v) sum += p = std::exp(p - most);
    for (double& p : v) p /= sum;
  };
  if (o.gate == Router::Gate::Softmax) softmax(prob);
  if (o.gate == Router::Gate::Sigmoid)
    for (double& p : prob) p = 1 / (1 + std::exp(-p));
  std::vector<double> score = prob;
  for (uint32_t e = 0; e < n && !choice_bias.empty(); ++e) score[e] += choice_bias[e];
  if (o.groups > 1) {
    const uint32_t per = n / o.groups;
    std::vector<std::pair<double, uint32_t>> rank;
    for (uint32_t g = 0; g < o.groups; ++g) {
      std::vector<double> of(score.begin() + g * per, score.begin() + (g + 1) * per);
      std::sort(of.rbegin(), of.rend());
      rank.push_back({-(of[0] + of[1]), g});
    }
    std::sort(rank.begin(), rank.end());
    for (uint32_t i = o.groups_used; i < o.groups; ++i)
      for (uint32_t e = rank[i].second * per; e < (rank[i].second + 1) * per; ++e) score[e] = -1e300;
  }
  Chosen out;
  out.ids.resize(n);
  std::iota(out.ids.begin(), out.ids.end(), 0u);
  std::stable_sort(out.ids.begin(), out.ids.end(), [&](uint32_t a, uint32_t b) { return score[a] > score[b]; });
  out.ids.resize(o.used);
  for (uint32_t e : out.ids) out.weights.push_back(prob[e]);
  if (o.gate == Router::Gate::SoftmaxOfChosen) softmax(out.weights);
  const double sum = std::accumulate(out.weights.begin(), out.weights.end(), 0.0);
  for (uint32_t s = 0; s < o.used; ++s) {
    if (o.renormalise) out.weights[s] /= sum;
    out.weights[s] *= o.scale * (expert_scale.empty() ? 1.0 : expert_scale[out.ids[s]]);
  }
  return out;
}

void check_routing(Router o, bool biased, bool scaled) {
  const uint32_t tokens = 5;
  Lab lab(Mode::Plain, tokens);
  Random random(o.experts);
  const auto bias = biased ? random.vector(o.experts, 0.2f) : std::vector<float>{}, scale = scaled ? random.vector(o.experts) : std::vector<float>{};
  lab.vector("bias", biased ? bias : std::vector<float>{0}), lab.vector("scale", scaled ? scale : std::vector<float>{0});
  const auto values = random.vector(size_t{tokens} * o.experts, 3);
  const auto logits = lab.input("logits", o.experts, values);
  kernels::Routing routing;
  lab.run(tokens, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    if (biased) o.choice_bias = lab.weight("bias");
    if (scaled) o.expert_scale = lab.weight("scale");
    routing = kernels::route(r, logits, o);
  }, false);
  const auto ids = lab.read<uint32_t>(routing.ids, size_t{tokens} * o.used);
  const auto weights = lab.read<float>(routing.weights, size_t{tokens} * o.used);
  for (uint32_t t = 0; t < tokens; ++t) {
    const Chosen want = choose(o, std::span(values).subspan(size_t{t} * o.experts, o.experts), bias, scale);
    for (uint32_t s = 0; s < o.used; ++s) {
      const auto at = std::find(ids.begin() + t * o.used, ids.begin() + (t + 1) * o.used, want.ids[s]) - ids.begin();
      ASSERT_LT(at, (t + 1) * o.used) << "expert " << want.ids[s] << " of token " << t << " was not chosen";
      ASSERT_NEAR(weights[at], want.weights[s], 4e-6 * std::max(1.0, std::fabs(want.weights[s])));
    }
  }
}

TEST(Routing, ChoosesTheBestExperts) {
  check_routing({.gate = Router::Gate::Softmax, .experts = 8, .used = 2, .renormalise = true}, false, false);
  check_routing({.gate = Router::Gate::Softmax, .experts = 60, .used = 4}, false, false);
  check_routing({.gate = Router::Gate::Softmax, .experts = 128, .used = 8, .renormalise = true}, false, true);
  check_routing({.gate = Router::Gate::SoftmaxOfChosen, .experts = 32, .used = 4}, false, false);
  check_routing({.gate = Router::Gate::Sigmoid, .experts = 64, .used = 6, .renormalise = true, .scale = 2.5f, .groups = 8, .groups_used = 3}, true, false);
  check_routing({.gate = Router::Gate::Sigmoid, .experts = 256, .used = 8, .renormalise = true, .scale = 2.5f, .groups = 8, .groups_used = 4}, true, false);
  check_routing({.gate = Router::Gate::Softmax, .experts = 3, .used = 3}, false, false);
}

// The products.

constexpr uint32_t kExperts = 5, kUsed = 2;

/// A matrix for each expert, in one tensor.
std::vector<Matrix> add_matrices(Lab& lab, const std::string& name, Type type, uint32_t k, uint32_t n) {
  Random random(n * 31 + k);
  auto raw = model_blocks(type, size_t{k} / gguf::type_traits(type)->block * n * kExperts, random);
  const auto values = dequantized(type, raw);
  std::vector<Matrix> out;
  for (uint32_t e = 0; e < kExperts; ++e)
    out.push_back({name, k, n, {values.begin() + size_t{e} * k * n, values.begin() + size_t{e + 1} * k * n}});
  lab.tensor(name, type, {k, n, kExperts}, std::move(raw));
  return out;
}

struct Setting {
  Type type;
  uint32_t k, ffn, n, tokens;
  bool fused = false;      ///< gate and up in one tensor
  bool biases = false;
  float clamp = 0;
  bool add = false;
  uint32_t tile_experts = 0;   ///< experts a tile; 0: all
};

double bounded_gate(double g, double u, double limit) {
  const double a = std::min(g, limit);
  return a / (1 + std::exp(-1.702 * a)) * (std::clamp(u, -limit, limit) + 1);
}

void check_experts(const Setting& s) {
  SCOPED_TRACE(testing::Message() << gguf::type_traits(s.type)->name << ", " << s.tokens << " tokens");
  uint64_t max_tile = 0;
  if (s.tile_experts) {
    const auto up = must(gguf::row_layout(s.type, s.k)), down = must(gguf::row_layout(s.type, s.ffn));
    max_tile = std::max(uint64_t{up.row_bytes} * s.ffn, uint64_t{down.row_bytes} * s.n) * s.tile_experts + up.table_bytes;
  }
  Lab lab(Mode::Plain, s.tokens, max_tile);
  const auto gate = s.fused ? std::vector<Matrix>{} : add_matrices(lab, "gate", s.type, s.k, s.ffn);
  const auto up = add_matrices(lab, "up", s.type, s.k, s.fused ? 2 * s.ffn : s.ffn), down = add_matrices(lab, "down", s.type, s.ffn, s.n);
  Random random(77);
  const auto logits = random.vector(size_t{s.tokens} * kExperts, 3), x = random.vector(size_t{s.tokens} * s.k), before = random.vector(size_t{s.tokens} * s.n);
  const auto gate_bias = random.vector(size_t{kExperts} * s.ffn), up_bias = random.vector(gate_bias.size()), down_bias = random.vector(size_t{kExperts} * s.n);
  const auto matrix_of = [&](const std::string& name, const std::vector<float>& v) {
    const auto bytes = std::as_bytes(std::span(v));
    lab.tensor(name, Type::F32, {v.size() / kExperts, kExperts}, {bytes.begin(), bytes.end()});
  };
  matrix_of("gate_bias", gate_bias), matrix_of("up_bias", up_bias), matrix_of("down_bias", down_bias);
  const auto l = lab.input("logits", kExperts, logits), in = lab.input("x", s.k, x), y = lab.input("y", s.n, before);
  const Router router{.gate = Router::Gate::Softmax, .experts = kExperts, .used = kUsed, .renormalise = true};
  lab.run(s.tokens, 0, exact_choices(Mode::Plain), [&](kernels::Recorder& r) {
    kernels::Experts e{.gate = s.fused ? nullptr : lab.weight("gate"), .up = lab.weight("up"), .down = lab.weight("down"), .clamp = s.clamp, .ffn = s.ffn};
    if (s.biases) e.gate_bias = lab.weight("gate_bias"), e.up_bias = lab.weight("up_bias"), e.down_bias = lab.weight("down_bias");
    kernels::experts(r, in, kernels::route(r, l, router), e, y, s.add);
  }, s.tokens == 1);
  const auto got = lab.output(y, s.tokens);

  for (uint32_t t = 0; t < s.tokens; ++t) {
    const Chosen chosen = choose(router, std::span(logits).subspan(size_t{t} * kExperts, kExperts), {}, {});
    const auto row = doubles(std::span(x).subspan(size_t{t} * s.k, s.k));
    std::vector<Expected> want(s.n);
    for (uint32_t slot = 0; slot < kUsed; ++slot) {
      const uint32_t e = chosen.ids[slot];
      auto u = reference(up[e], row), g = s.fused ? u : reference(gate[e], row);
      if (s.fused) u.erase(u.begin(), u.begin() + s.ffn), g.resize(s.ffn);
      std::vector<double> h(s.ffn), off(s.ffn);
      for (uint32_t i = 0; i < s.ffn; ++i) {
        if (s.biases) g[i].value += gate_bias[e * s.ffn + i], u[i].value += up_bias[e * s.ffn + i];
        const Expected product = gated(g[i], u[i]);
        h[i] = s.clamp > 0 ? bounded_gate(g[i].value, u[i].value, s.clamp) : product.value;
        off[i] = s.clamp > 0 ? 3 * g[i].exact * (s.clamp + 1) + 2 * s.clamp * u[i].exact + 32 * kUnit * std::fabs(h[i]) : product.exact;
      }
      const auto d = reference(down[e], h);
      for (uint32_t i = 0; i < s.n; ++i) {
        double carried = 0;
        for (uint32_t j = 0; j < s.ffn; ++j) carried += std::fabs(down[e].values[size_t{i} * s.ffn + j]) * off[j];
        const double value = d[i].value + (s.biases ? down_bias[e * s.n + i] : 0);
        want[i].value += chosen.weights[slot] * value;
        want[i].exact += chosen.weights[slot] * (d[i].exact + carried) + 64 * kUnit * std::fabs(value);
      }
    }
    for (uint32_t i = 0; i < s.n; ++i) {
      const double value = want[i].value + (s.add ? before[size_t{t} * s.n + i] : 0);
      ASSERT_NEAR(got[size_t{t} * s.n + i], value, want[i].exact + kUnit * std::fabs(value)) << "token " << t << ", row " << i;
    }
  }
}

class ExpertTypes : public testing::TestWithParam<Type> {};

TEST_P(ExpertTypes, OneTokenAndMany) {
  const uint32_t block = gguf::type_traits(GetParam())->block, k = block == 1 ? 36 : block == 32 ? 96 : 256, ffn = block == 1 ? 20 : block == 32 ? 160 : 512;
  for (const uint32_t tokens : {1u, 37u}) check_experts({GetParam(), k, ffn, 35, tokens});
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertTypes, testing::ValuesIn(kTypes), type_test_name);

TEST(Experts, FusedBiasedBoundedAddedTiled) {
  for (const uint32_t tokens : {1u, 3u, 70u}) {
    check_experts({Type::Q8_0, 64, 96, 33, tokens, true});
    check_experts({Type::MXFP4, 96, 64, 65, tokens, false, true, 7.0f});
    check_experts({Type::F16, 96, 64, 65, tokens, true, false, 0, true});
    check_experts({Type::Q4_0, 64, 64, 64, tokens, false, true, 0, true, 2});
    check_experts({Type::IQ2_XXS, 256, 256, 40, tokens, false, false, 0, true, 1});
  }
}

}  // namespace
}  // namespace gull::test
