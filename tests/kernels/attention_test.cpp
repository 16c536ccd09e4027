// Attention against a softmax in float64: head sizes, grouped heads, lengths around the kernels' steps, windows, soft caps,
// sinks, both kinds of mask, decode and prefill, every way of storing the cache.
#include <cmath>

#include "kernels/kv_memory.h"

namespace gull::test {
namespace {

struct Case {
  uint32_t head_dim, kv_heads, group, past, tokens;
  KvType type = KvType::F32;
  uint32_t window = 0;
  float softcap = 0;
  bool sinks = false, causal = true;
  float size = 1;   ///< of queries: how far scores spread
  Mode mode = Mode::Plain;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.head_dim << "x" << c.kv_heads << "x" << c.group << " past " << c.past << " tokens " << c.tokens << " " << name(c.type)
       << " window " << c.window << " cap " << c.softcap << (c.sinks ? " sinks" : "") << (c.causal ? "" : " both ways") << " size " << c.size << " "
       << name(c.mode);
}

/// Which positions a token sees.
bool visible(const Case& c, uint32_t token, uint32_t position) {
  if (c.causal) return position <= token && (c.window == 0 || token - position < c.window);
  const uint32_t away = position > token ? position - token : token - position;
  return c.window == 0 || away <= c.window / 2;
}

struct Inputs {
  std::vector<float> q, k, v, sinks;
  float scale;
};

/// One head of one token: softmax(q·K·scale)·V over what it sees.
std::vector<double> reference(const Case& c, const Inputs& in, uint32_t t, uint32_t head) {
  const uint32_t d = c.head_dim, kv = c.past + c.tokens, row = c.kv_heads * d, at = head / c.group * d;
  const float* q = &in.q[(size_t{t} * c.kv_heads * c.group + head) * d];
  std::vector<double> score(kv, -INFINITY);
  double most = c.sinks ? in.sinks[head] : -INFINITY;
  for (uint32_t j = 0; j < kv; ++j) {
    if (!visible(c, c.past + t, j)) continue;
    double s = 0;
    for (uint32_t i = 0; i < d; ++i) s += double{q[i]} * in.k[size_t{j} * row + at + i];
    s *= in.scale;
    if (c.softcap > 0) s = c.softcap * std::tanh(s / c.softcap);
    most = std::max(most, score[j] = s);
  }
  double total = c.sinks ? std::exp(in.sinks[head] - most) : 0;
  std::vector<double> out(d, 0.0);
  for (uint32_t j = 0; j < kv; ++j) {
    if (score[j] == -INFINITY) continue;
    const double p = std::exp(score[j] - most);
    total += p;
    for (uint32_t i = 0; i < d; ++i) out[i] += p * in.v[size_t{j} * row + at + i];
  }
  for (double& o : out) o /= total;
  return out;
}

class Attention : public testing::TestWithParam<Case> {};

TEST_P(Attention, EqualsSoftmaxInFloat64) {
  const Case& c = GetParam();
  const uint32_t heads = c.kv_heads * c.group, width = heads * c.head_dim, row = c.kv_heads * c.head_dim, kv = c.past + c.tokens;
  Lab lab(c.mode, c.tokens);
  Random random(c.head_dim * 7 + c.past + c.tokens);
  Inputs in{random.vector(size_t{c.tokens} * width, c.size), random.vector(size_t{kv} * row), random.vector(size_t{kv} * row),
            random.vector(heads, 3.0f), 1.0f / std::sqrt(static_cast<float>(c.head_dim)) * 4};
  lab.vector("sinks", in.sinks);
  const kernels::KvLayer layer{kv_buffer(lab, c.type, in.k, kv + 70, row), kv_buffer(lab, c.type, in.v, kv + 70, row), c.type, c.kv_heads, c.head_dim};
  const auto q = lab.input("q", width, in.q), y = lab.rows("y", width);
  const bool decode = c.tokens == 1 && c.causal;
  for (const auto& [fast, few_threads] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    if (few_threads && !decode) continue;
    auto choices = fast ? fast_choices(c.mode) : exact_choices(c.mode);
    choices.few_threads = few_threads;
    lab.run(c.tokens, c.past, choices, [&](kernels::Recorder& r) {
      // The unsplit kernel for short contexts, where that is what they get.
      r.short_context = fast && kv <= kernels::short_context(lab.device().caps(), choices);
      kernels::attention(r, q, layer, {heads, in.scale, c.softcap, c.window, c.causal, c.sinks ? lab.weight("sinks") : nullptr}, y);
    }, decode);
    const auto got = lab.output(y, c.tokens);
    // Scores are sums of head_dim products; an error of a score is a relative error of its weight.
    const double tolerance = (fast ? 4e-3 : 4e-6) * std::max(1.0f, c.size);
    for (uint32_t t = 0; t < c.tokens; ++t)
      for (uint32_t h = 0; h < heads; ++h) {
        if (c.tokens > 40 && (t * heads + h) % 7 != 0 && t + 1 != c.tokens) continue;
        auto want = reference(c, in, t, h);
        mix(c.type, want);
        for (uint32_t i = 0; i < c.head_dim; ++i)
          ASSERT_NEAR(got[(size_t{t} * heads + h) * c.head_dim + i], want[i], tolerance) << "token " << t << ", head " << h << ", dimension " << i << (fast ? ", fast" : "") << (few_threads ? ", few threads" : "");
      }
  }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  constexpr KvType F16 = KvType::F16, F32 = KvType::F32;
  // Decode: every head size, group and length.
  const uint32_t dims[] = {32, 64, 80, 96, 128, 256, 512, 576}, groups[] = {1, 3, 4, 8}, lengths[] = {1, 63, 64, 65, 200, 700, 4097};
  for (uint32_t i = 0; i < 8; ++i)
    for (uint32_t j = 0; j < 2; ++j)
      out.push_back({dims[i], 1 + i % 2, groups[(i + 2 * j + i / 4) % 4], lengths[(3 * i + j) % 7] - 1, 1, j ? F16 : F32});
  for (uint32_t i = 0; i < 7; ++i) out.push_back({64, 2, groups[i % 4], lengths[i] - 1, 1, i % 2 ? F32 : F16});
  // Prefill: from the start and after a past, around the steps of 64.
  const uint32_t tokens[] = {2, 63, 64, 65, 17, 130, 5, 33}, pasts[] = {0, 0, 1, 64, 700, 3, 4092, 31};
  for (uint32_t i = 0; i < 8; ++i) out.push_back({dims[i], 1, groups[(i + 1) % 4], i == 6 ? 1000u : pasts[i], tokens[i], i % 2 ? F16 : F32});
  out.push_back({64, 2, 3, 4092, 5, F16});
  out.push_back({64, 1, 1, 50000, 17, F16});   // where loops that are not unrolled are too long for llvmpipe
  out.push_back({256, 1, 1, 64000, 5, F16});
  out.push_back({576, 1, 1, 32000, 3, F16});
  out.push_back({128, 1, 4, 0, 200, F16});
  // Windows (smaller than, equal to and larger than what is there), soft caps, sinks; decode and prefill.
  for (const uint32_t n : {1u, 70u}) {
    const uint32_t past = n == 1 ? 199 : 64;
    for (const uint32_t window : {1u, 2u, 64u, 65u, 100u, 1000u}) out.push_back({64, 1, 2, past, n, window % 2 ? F32 : F16, window});
    out.push_back({80, 1, 3, past, n, F32, 0, 5.0f});
    out.push_back({128, 2, 1, past, n, F16, 48, 30.0f});
    out.push_back({64, 2, 4, past, n, F16, 0, 0, true});
    out.push_back({64, 1, 8, past, n, F32, 128, 0, true});
    out.push_back({32, 1, 1, past, n, F32, 0, 0, false, true, 300.0f});   // one position takes nearly all weight
  }
  out.push_back({64, 1, 4, 4096, 1, F16, 512, 0, true});
  // Quantised caches.
  for (const KvType type : {KvType::Q8_0, KvType::Q4_0})
    for (const uint32_t n : {1u, 65u}) {
      out.push_back({64, 3, 2, n == 1 ? 199u : 100u, n, type});
      out.push_back({128, 1, 4, n == 1 ? 60u : 0u, n, type, 50});
      out.push_back({96, 1, 1, 20, n, type, 0, 20.0f, true});
    }
  out.push_back({576, 1, 2, 40, 3, KvType::Q8_0});
  out.push_back({256, 1, 1, 700, 1, KvType::Q4_0, 0, 0, false, true, 1, Mode::Baseline});
  // Both ways: embedding models.
  for (const uint32_t n : {1u, 5u, 64u, 100u})
    for (const uint32_t window : {0u, 16u}) out.push_back({64, 2, n == 5 ? 2u : 1u, 0, n, n % 2 ? F32 : F16, window, 0, false, false});
  // Every way of opening the device.
  for (const Mode mode : {Mode::Checked, Mode::Bare, Mode::Baseline}) {
    out.push_back({80, 2, 3, 199, 1, F16, 0, 0, false, true, 1, mode});
    out.push_back({576, 1, 4, 300, 1, F32, 0, 0, false, true, 1, mode});
    out.push_back({256, 1, 2, 65, 33, F16, 64, 0, true, true, 1, mode});
    out.push_back({64, 2, 1, 0, 65, F32, 0, 0, false, false, 1, mode});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Attention, testing::ValuesIn(cases()));

}  // namespace
}  // namespace gull::test
