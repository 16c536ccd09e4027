#include "engine/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/philox.h"

namespace gull::engine {
namespace {

/// Probabilities of candidates sorted by logit, at temperature 1. The best may be infinite: a bias can make it so.
template <class C>
void softmax(std::vector<C>& candidates) {
  double sum = 0;
  for (C& c : candidates) sum += c.p = c.logit == candidates[0].logit ? 1.0f : std::exp(c.logit - candidates[0].logit);
  for (C& c : candidates) c.p = static_cast<float>(c.p / sum);
}

uint64_t fresh_seed() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) * 0x9e3779b97f4a7c15u + 1;
}

/// A time that is exponentially distributed. Those near 0, which win races, keep their precision by a series.
float arrival(uint32_t bits) {
  const float v = std::min((static_cast<float>(bits) + 0.5f) * 0x1p-32f, 0x1.fffffep-1f);
  return v < 0.01f ? v * (1 + v * (0.5f + v * (1 / 3.0f))) : -std::log(1 - v);
}

/// logit − best within bounds that keep infinities out of arithmetic.
float gap(float logit, float best) {
  constexpr float most = 1e30f;
  return std::clamp(logit, -most, most) - std::clamp(best, -most, most);
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options)
    : options_(options), seed_(options.seed ? options.seed : fresh_seed()), mu_(2 * options.mirostat_tau) {}

void Sampler::accept(int32_t id) {
  recent_.push_back(id);
}

void Sampler::penalise(std::span<float> logits) const {
  const SamplingOptions& o = options_;
  for (auto [id, bias] : o.logit_bias)
    if (id >= 0 && static_cast<size_t>(id) < logits.size()) logits[id] += bias;
  if (o.repeat_penalty == 1 && o.presence_penalty == 0 && o.frequency_penalty == 0) return;
  std::unordered_map<int32_t, uint32_t> counts;
  const size_t window = std::min<size_t>(recent_.size(), o.repeat_last);
  for (size_t i = recent_.size() - window; i < recent_.size(); ++i) ++counts[recent_[i]];
  for (auto [id, count] : counts) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[id];
    logit = logit > 0 ? logit / o.repeat_penalty : logit * o.repeat_penalty;
    logit -= o.frequency_penalty * static_cast<float>(count) + o.presence_penalty;
  }
}

void Sampler::apply_dry(std::span<float> logits) const {
  // DRY: a token that would lengthen a repetition of `allowed` tokens or more is punished exponentially in its length.
  const SamplingOptions& o = options_;
  if (o.dry_multiplier <= 0 || recent_.size() < 2) return;
  std::unordered_map<int32_t, uint32_t> longest;
  const size_t n = recent_.size();
  const size_t window = std::min<size_t>(n, 1024);
  for (size_t end = n - window; end + 1 < n; ++end) {
    uint32_t match = 0;
    while (match <= end - (n - window) && match < 64 && recent_[end - match] == recent_[n - 1 - match]) ++match;
    if (match >= o.dry_allowed_length) longest[recent_[end + 1]] = std::max(longest[recent_[end + 1]], match);
  }
  for (auto [id, match] : longest)
    if (id >= 0 && static_cast<size_t>(id) < logits.size())
      logits[id] -= o.dry_multiplier * std::pow(o.dry_base, static_cast<float>(match - o.dry_allowed_length));
}

void Sampler::truncate(std::vector<Candidate>& c) const {
  const SamplingOptions& o = options_;
  softmax(c);
  if (o.typical_p < 1) {   // Meister et al. 2022: closest to the entropy first
    double entropy = 0;
    for (const Candidate& x : c) if (x.p > 0) entropy -= x.p * std::log(x.p);
    std::vector<std::pair<double, size_t>> order(c.size());
    for (size_t i = 0; i < c.size(); ++i) order[i] = {std::fabs(-std::log(std::max(c[i].p, 1e-30f)) - entropy), i};
    std::sort(order.begin(), order.end());
    std::vector<Candidate> kept;
    double mass = 0;
    for (auto [distance, i] : order) {
      kept.push_back(c[i]);
      if ((mass += c[i].p) >= o.typical_p) break;
    }
    std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    c = std::move(kept);
    softmax(c);
  }
  if (o.top_p < 1) {
    double mass = 0;
    size_t keep = 0;
    while (keep < c.size() && (mass += c[keep++].p) < o.top_p) {}
    c.resize(std::max<size_t>(keep, 1));
    softmax(c);
  }
  if (o.min_p > 0) {
    size_t keep = 1;
    while (keep < c.size() && c[keep].p >= o.min_p * c[0].p) ++keep;
    c.resize(keep);
  }
}

int32_t Sampler::draw(const std::vector<Candidate>& candidates, float temperature) const {
  // A race (kernels/draw.h): the order of the candidates and their sum do not matter, only each one's id, seed and step.
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
  int32_t id = candidates[0].id;
  float best = -std::numeric_limits<float>::infinity();
  for (const Candidate& c : candidates) {
    const auto name = static_cast<uint32_t>(c.id);
    const uint32_t bits = philox({name >> 2, step_, 0, 0}, key)[name & 3];
    const float score = gap(c.logit, candidates[0].logit) / std::max(temperature, 1e-6f) - std::log(arrival(bits));
    if (score > best) best = score, id = c.id;
  }
  return id;
}

int32_t Sampler::mirostat(std::vector<Candidate>& c) {
  for (Candidate& x : c) x.logit /= options_.temperature;
  // Mirostat 2 (Basu et al. 2021): keep what surprises less than mu, then steer mu towards tau.
  softmax(c);
  size_t keep = 1;
  while (keep < c.size() && -std::log2(c[keep].p) <= mu_) ++keep;
  c.resize(keep);
  softmax(c);
  const int32_t id = draw(c, 1);
  for (const Candidate& x : c)
    if (x.id == id) mu_ -= options_.mirostat_eta * (-std::log2(x.p) - options_.mirostat_tau);
  return id;
}

int32_t Sampler::sample(std::span<float> logits, std::span<const uint8_t> allowed) {
  penalise(logits);
  apply_dry(logits);
  const auto better = [](const Candidate& a, const Candidate& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); };
  const bool mirostat2 = options_.mirostat_tau > 0;
  const size_t k = options_.temperature <= 0 ? 1 : mirostat2 || options_.top_k == 0 ? logits.size() : std::min<size_t>(options_.top_k, logits.size());
  // A heap of the best k, its worst on top: most logits are turned away by one comparison.
  std::vector<Candidate> candidates;
  candidates.reserve(k);
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((!allowed.empty() && !allowed[i]) || std::isnan(logits[i])) continue;
    const Candidate next{static_cast<int32_t>(i), logits[i], 0};
    if (candidates.size() == k) {
      if (!better(next, candidates.front())) continue;
      std::pop_heap(candidates.begin(), candidates.end(), better);
      candidates.back() = next;
    } else {
      candidates.push_back(next);
    }
    std::push_heap(candidates.begin(), candidates.end(), better);
  }
  if (candidates.empty()) return -1;
  std::sort_heap(candidates.begin(), candidates.end(), better);
  int32_t id = candidates[0].id;
  if (options_.temperature > 0) {
    if (!mirostat2) truncate(candidates);
    id = mirostat2 ? mirostat(candidates) : draw(candidates, options_.temperature);
  }
  ++step_;
  return id;
}

std::vector<TokenLogprob> Sampler::logprobs(std::span<const float> logits, int32_t chosen, uint32_t top) {
  float best = -std::numeric_limits<float>::infinity();
  for (float v : logits) best = std::max(best, v);
  double sum = 0;
  for (float v : logits) sum += std::exp(static_cast<double>(v) - best);
  const double log_sum = best + std::log(sum);
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const size_t k = std::min<size_t>(top, order.size());
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); });
  std::vector<TokenLogprob> out{{chosen, static_cast<float>(logits[chosen] - log_sum)}};
  for (size_t i = 0; i < k; ++i) out.push_back({order[i], static_cast<float>(logits[order[i]] - log_sum)});
  return out;
}

}  // namespace gull::engine
