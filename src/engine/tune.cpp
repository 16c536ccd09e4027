// Which shapes of the kernels are fastest on a device: each is given to a Plan, and the Plan is timed.
#include <algorithm>
#include <chrono>
#include <optional>

#include "base/log.h"
#include "engine/impl.h"
#include "kernels/tuning.h"

namespace gull {

using engine::PlanKind;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWorthIt = 0.97;     ///< of gull's own choice's time: less of a gain may be chance
constexpr double kLeast = 0.02;       ///< seconds of one repetition
constexpr int kRepetitions = 5;
constexpr const char* kOwn = "gull's own";

/// A kernel: the step that shows its speed, and how its shapes are put into the choices.
struct Subject {
  const char* kernel;
  const char* label;        ///< what stands in its dispatches' labels
  uint32_t tokens;          ///< of the step
  bool packed;              ///< 8-bit activations
  struct Shape { std::string name; Tuning tuning; };
  std::vector<Shape> shapes;
};

std::string name(const Tuning::Tile& t) {
  return fmt::format("{} tokens x {} rows, {} deep", t.tokens, t.rows, 64 * t.units);
}
std::string name(const Tuning::Split& s) { return fmt::format("{} threads, {} a row", s.threads, s.per_row); }

template <class T>
std::vector<Subject::Shape> shapes(const std::vector<T>& known, T Tuning::*field) {
  std::vector<Subject::Shape> out;
  for (const T& shape : known) {
    out.push_back({name(shape), {}});
    out.back().tuning.*field = shape;
  }
  return out;
}

/// `one`'s shapes in `all`.
void merge(Tuning& all, const Tuning& one) {
  if (one.matmul8.tokens) all.matmul8 = one.matmul8;
  if (one.matmul.tokens) all.matmul = one.matmul;
  if (one.matvec8.threads) all.matvec8 = one.matvec8;
  if (one.gated8.threads) all.gated8 = one.gated8;
  if (one.few.threads) all.few = one.few;
}

class Tuner {
 public:
  Tuner(Session::Impl& session, const TuneProgress& progress, CancelFlag* cancel)
      : s_(session), progress_(progress), cancel_(cancel), usual_(session.m().choices) {}
  ~Tuner() {
    s_.m().choices = usual_;
    s_.plans.clear();
  }

  Result<TuneResult> run() {
    const kernels::TuningChoices known = kernels::tuning_choices(s_.m().device->caps(), usual_.chain);
    const uint32_t batch = s_.m().chunk;
    std::vector<Subject> subjects;
    if (usual_.packed_dot) {
      subjects.push_back({"matvec8", "matvec8", 1, true, shapes(known.matvec8, &Tuning::matvec8)});
      subjects.push_back({"gated8", "matvec8", 1, true, shapes(known.gated8, &Tuning::gated8)});
      if (batch > kernels::kSmallBatch) subjects.push_back({"matmul8", "matmul8", batch, true, shapes(known.matmul8, &Tuning::matmul8)});
    }
    subjects.push_back({"few", "matvec batch", std::min(batch, kernels::kFewTokens), usual_.packed_dot, shapes(known.few, &Tuning::few)});
    if (batch > kernels::kSmallBatch) subjects.push_back({"matmul", "matmul ", batch, false, shapes(known.matmul, &Tuning::matmul)});
    for (const Subject& subject : subjects) total_ += static_cast<uint32_t>(subject.shapes.size()) + 2;
    for (const Subject& subject : subjects)
      if (auto ok = measure(subject); !ok) return fail(ok.error());
    return std::move(result_);
  }

 private:
  /// Gull's own shape, all others, its own again; the best is kept for what is measured next.
  Result<void> measure(const Subject& subject) {
    const size_t own = result_.measured.size();
    auto first = time(subject, kOwn, {});
    if (!first) return fail(first.error());
    if (!*first) {
      done_ += static_cast<uint32_t>(subject.shapes.size()) + 1;   // no weight of this model takes the kernel
      return {};
    }
    result_.measured.push_back({subject.kernel, kOwn, **first, false});
    size_t best = own;
    const Tuning* fastest = nullptr;
    for (const Subject::Shape& shape : subject.shapes) {
      auto seconds = time(subject, shape.name, shape.tuning);
      if (!seconds) return fail(seconds.error());
      if (!*seconds) continue;
      result_.measured.push_back({subject.kernel, shape.name, **seconds, false});
      if (!fastest || **seconds < result_.measured[best].seconds) best = result_.measured.size() - 1, fastest = &shape.tuning;
    }
    auto again = time(subject, kOwn, {});   // what is measured first may meet a device that has yet to wake up
    if (!again) return fail(again.error());
    result_.measured[own].seconds = std::min(**first, again->value_or(**first));
    const bool better = fastest && result_.measured[best].seconds < result_.measured[own].seconds * kWorthIt;
    result_.measured[better ? best : own].chosen = true;
    if (better) merge(result_.tuning, *fastest);
    return {};
  }

  /// The best time of the step with one shape; none: the step has no such kernel.
  Result<std::optional<double>> time(const Subject& subject, const std::string& shape, const Tuning& tuning) {
    if (cancel_ && *cancel_) return fail(ErrorKind::Cancelled, "cancelled");
    if (progress_) progress_(done_, total_, fmt::format("{}: {}", subject.kernel, shape));
    ++done_;
    Model::Impl& model = s_.m();
    model.choices.packed_dot = subject.packed;
    model.choices.tuning = result_.tuning;
    merge(model.choices.tuning, tuning);
    s_.plans.clear();
    const PlanKind kind = subject.tokens == 1 ? s_.decode_kind(1) : s_.prefill_kind(subject.tokens);
    auto recorded = s_.plan(kind);
    if (!recorded) return fail(recorded.error());
    const auto costs = (*recorded)->plan->costs();
    if (std::none_of(costs.begin(), costs.end(), [&](const auto& c) { return c.label.find(subject.label) != std::string::npos; })) return std::optional<double>();
    if (auto ok = steps(kind, subject.tokens, 1); !ok) return fail(ok.error());   // compiles and uploads what is missing
    auto once = steps(kind, subject.tokens, 1);
    if (!once) return fail(once.error());
    const int count = static_cast<int>(std::clamp(kLeast / std::max(*once, 1e-5), 1.0, 64.0));
    double best = *once;
    for (int i = 0; i < kRepetitions && !(cancel_ && *cancel_); ++i) {
      auto seconds = steps(kind, subject.tokens, count);
      if (!seconds) return fail(seconds.error());
      best = std::min(best, *seconds);
      if (*seconds * count > 1.0) break;   // slow devices need no more to tell
    }
    return std::optional(best);
  }

  /// Seconds of one of `count` steps in a row.
  Result<double> steps(PlanKind kind, uint32_t tokens, int count) {
    const std::vector<int32_t> ids(tokens, 0);
    if (auto ok = s_.write_state(0, tokens); !ok) return fail(ok.error());
    if (auto ok = s_.m().device->write(*s_.ids, 0, std::span<const int32_t>(ids)); !ok) return fail(ok.error());
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i)
      if (auto ok = s_.run({kind}, tokens, tokens); !ok) return fail(ok.error());
    if (auto ok = s_.m().device->wait_idle(); !ok) return fail(ok.error());
    return std::chrono::duration<double>(Clock::now() - start).count() / count;
  }

  Session::Impl& s_;
  const TuneProgress& progress_;
  CancelFlag* cancel_;
  const kernels::Choices usual_;
  TuneResult result_;
  uint32_t done_ = 0, total_ = 0;
};

}  // namespace

Result<TuneResult> tune(const std::shared_ptr<Model>& model, const TuneProgress& progress, CancelFlag* cancel) {
  const Model::Impl& impl = model->impl();
  if (impl.family->config().embedding) return fail(ErrorKind::Unsupported, "an embedding model does not decode: tune with one that makes text");
  if (impl.weights->bounded()) return fail(ErrorKind::Unsupported, "weights that come and go cannot be timed: leave --gpu-budget out");
  auto session = Session::create(model);
  if (!session) return fail(session.error());
  return Tuner((*session)->impl(), progress, cancel).run();
}

}  // namespace gull
