// gull bench: how fast a model reads a prompt and makes text on this device.
#include <algorithm>
#include <cmath>
#include <random>

#include "base/log.h"
#include "command.h"
#include "generation.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  ModelArguments model;
  uint32_t prompt = 512, generate = 128, repetitions = 3;
  float temperature = 0;
  uint32_t top_k = SamplingOptions{}.top_k;
  bool json = false, profile = false;
};

/// Tokens a second of each repetition.
struct Series {
  std::vector<double> rates;
  double mean() const {
    double sum = 0;
    for (const double r : rates) sum += r;
    return rates.empty() ? 0 : sum / static_cast<double>(rates.size());
  }
  double deviation() const {
    double sum = 0;
    for (const double r : rates) sum += (r - mean()) * (r - mean());
    return rates.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(rates.size() - 1));
  }
  Json json(uint32_t tokens) const {
    const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
    return {{"tokens", tokens}, {"mean", mean()}, {"deviation", deviation()}, {"min", rates.empty() ? 0 : *low},
            {"max", rates.empty() ? 0 : *high}, {"samples", rates}};
  }
};

std::vector<int32_t> random_ids(uint32_t count, uint32_t vocabulary) {
  std::mt19937 random(1);
  std::vector<int32_t> ids(count);
  for (auto& id : ids) id = static_cast<int32_t>(random() % vocabulary);
  return ids;
}

/// Reads `prompt` ids into an empty cache and makes `tokens` more, whatever they are.
Result<Timings> measure(Session& session, const BenchArguments& arguments, const std::vector<int32_t>& prompt, uint32_t tokens) {
  session.reset();
  GenerateOptions options;
  options.sampling.temperature = arguments.temperature;
  options.sampling.top_k = arguments.top_k;
  options.sampling.seed = 1;
  options.max_tokens = static_cast<int32_t>(tokens);
  options.ignore_eog = true;
  options.cancel = &interrupted();
  auto result = session.generate(prompt, options);
  if (!result) return fail(result.error());
  if (result->stop == StopReason::Cancelled) return fail(ErrorKind::Cancelled, "interrupted");
  return result->timings;
}

struct BenchResult {
  Series prompt, generate;
};

Result<BenchResult> measure_all(Session& session, const BenchArguments& arguments, uint32_t vocabulary) {
  const auto prompt = random_ids(std::max(1u, arguments.prompt), vocabulary);
  const std::vector<int32_t> first = {prompt[0]};
  BenchResult result;
  ProgressBar bar("measuring");
  // Repetition 0 compiles pipelines and uploads what is still missing: it does not count.
  for (uint32_t i = 0; i <= arguments.repetitions; ++i) {
    bar.update("measuring", i, arguments.repetitions + 1, false);
    if (arguments.prompt) {
      auto t = measure(session, arguments, prompt, 1);
      if (!t) return fail(t.error());
      if (i) result.prompt.rates.push_back(arguments.prompt / t->prompt_s);
    }
    if (arguments.generate) {
      auto t = measure(session, arguments, first, arguments.generate);
      if (!t) return fail(t.error());
      if (i) result.generate.rates.push_back(t->generated_tokens / t->generate_s);
    }
  }
  return result;
}

/// Where the time of one step goes: a prompt of `tokens` (1: one token after a context of `context`).
struct Profile {
  uint32_t context = 0, tokens = 0;
  std::vector<KernelTime> kernels;
  double total() const {
    double sum = 0;
    for (const KernelTime& k : kernels) sum += k.seconds;
    return sum;
  }
};

/// How much of what the device can do at most a kernel reaches, and at which: its memory or its arithmetic.
struct Reached {
  double share = 0;
  const char* of = "";
  Reached(const KernelTime& k, const DeviceBounds& bounds) {
    const double memory = static_cast<double>(k.bytes) / bounds.bytes_per_second, arithmetic = static_cast<double>(k.operations) / bounds.operations_per_second;
    share = std::max(memory, arithmetic) / std::max(k.seconds, 1e-9);
    of = memory >= arithmetic ? "memory" : "arithmetic";
  }
};

Result<std::vector<Profile>> take_profiles(Session& session, const BenchArguments& arguments, uint32_t vocabulary) {
  std::vector<Profile> profiles = {{std::max(arguments.generate / 2, 1u), 1, {}}, {0, std::max(arguments.prompt, 2u), {}}};
  for (Profile& p : profiles) {
    session.reset();
    if (p.context > 1)
      if (auto ok = session.logits(random_ids(p.context, vocabulary)); !ok) return fail(ok.error());
    if (auto warm = session.profile(p.tokens); !warm) return fail(warm.error());
    auto kernels = session.profile(p.tokens);
    if (!kernels) return fail(kernels.error());
    p.kernels = std::move(*kernels);
  }
  return profiles;
}

void print_profiles(const std::vector<Profile>& profiles, const DeviceBounds& bounds) {
  write_output(fmt::format("\nThis device reads {:.3g} GB/s and does {:.3g} Tera-operations/s in simple loops. Of these the kernels reach:\n", bounds.bytes_per_second * 1e-9,
                           bounds.operations_per_second * 1e-12));
  for (const Profile& p : profiles) {
    write_output(fmt::format("\n{}: {:.0f} us in the kernels, the time to time them included\n",
                             p.tokens == 1 ? fmt::format("one token after {}", p.context) : fmt::format("{} tokens", p.tokens), p.total() * 1e6));
    for (const KernelTime& k : p.kernels) {
      const Reached reached(k, bounds);
      const std::string rates = k.bytes == 0 ? std::string(34, ' ')
                                             : fmt::format("{:>8.3g} GB/s {:>5.1f} % of {:<10}", static_cast<double>(k.bytes) / std::max(k.seconds, 1e-9) * 1e-9,
                                                           100 * reached.share, reached.of);
      write_output(fmt::format("{:>9.1f} us {:>5.1f} % {:>5} x {:>8.2f} us {}  {}\n", k.seconds * 1e6, 100 * k.seconds / p.total(), k.dispatches,
                               k.seconds * 1e6 / k.dispatches, rates, k.label));
    }
  }
}

Json profiles_json(const std::vector<Profile>& profiles, const DeviceBounds& bounds) {
  Json json = {{"bytes_per_second", bounds.bytes_per_second}, {"operations_per_second", bounds.operations_per_second}, {"steps", Json::array()}};
  for (const Profile& p : profiles) {
    Json step = {{"context", p.context}, {"tokens", p.tokens}, {"kernels", Json::array()}};
    for (const KernelTime& k : p.kernels) {
      const Reached reached(k, bounds);
      step["kernels"].push_back({{"label", k.label}, {"dispatches", k.dispatches}, {"seconds", k.seconds}, {"bytes", k.bytes}, {"operations", k.operations},
                                 {"reached", reached.share}, {"of", reached.of}});
    }
    json["steps"].push_back(std::move(step));
  }
  return json;
}

int bench(BenchArguments arguments) {
  if (arguments.repetitions == 0 || arguments.prompt + arguments.generate == 0)
    return usage_error("bench", "nothing to measure: -p or -n, and --reps, must be above 0");
  if (arguments.model.context == 0) arguments.model.context = std::max(arguments.prompt, arguments.generate) + 16;
  auto model = arguments.model.load();
  if (!model) return report(model.error());
  if ((*model)->is_embedding_model()) return report({ErrorKind::Unsupported, "this model makes vectors, not text: gull bench cannot time it"});
  auto session = Session::create(*model);
  if (!session) return report(session.error());
  auto result = measure_all(**session, arguments, (*model)->vocabulary());
  if (!result) return report(result.error());
  std::vector<Profile> profiles;
  DeviceBounds bounds;
  if (arguments.profile) {
    auto taken = take_profiles(**session, arguments, (*model)->vocabulary());
    if (!taken) return report(taken.error());
    auto measured = (*session)->device_bounds();
    if (!measured) return report(measured.error());
    profiles = std::move(*taken), bounds = *measured;
  }

  const Stats stats = (*model)->stats();
  if (arguments.json) {
    Json json = {{"model", (*model)->file().name()}, {"bytes", (*model)->file().total_bytes()}, {"device", device_json((*model)->device())},
                 {"precision", arguments.model.precision}, {"context", (*model)->context()}};
    if (arguments.prompt) json["prompt"] = result->prompt.json(arguments.prompt);
    if (arguments.generate) json["generate"] = result->generate.json(arguments.generate);
    json["gpu_memory"] = {{"weights", stats.memory.weights}, {"kv", stats.memory.kv}, {"activations", stats.memory.activations},
                          {"total", stats.memory.total}, {"peak", stats.memory.peak}};
    if (arguments.profile) json["profile"] = profiles_json(profiles, bounds);
    write_output(dump(json) + "\n");
    return kSuccess;
  }
  write_output(fmt::format("{}, {}, on {} ({})\n", (*model)->file().name(), human_bytes((*model)->file().total_bytes()),
                           (*model)->device().name, (*model)->device().backend));
  const auto line = [](const char* what, uint32_t tokens, const Series& series) {
    write_output(fmt::format("{:<8} {:>5} tokens  {:>10.1f} ± {:.1f} t/s\n", what, tokens, series.mean(), series.deviation()));
  };
  if (arguments.prompt) line("prompt", arguments.prompt, result->prompt);
  if (arguments.generate) line("generate", arguments.generate, result->generate);
  write_output(fmt::format("GPU memory: {} of weights, {} of keys and values, {} at most in all\n", human_bytes(stats.memory.weights),
                           human_bytes(stats.memory.kv), human_bytes(stats.memory.peak)));
  if (arguments.profile) print_profiles(profiles, bounds);
  return kSuccess;
}

}  // namespace

void add_bench(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("bench", "Measure speed: reading a prompt, and making tokens");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->model.add_to(*command);
  command->add_option("-p", arguments->prompt, "Prompt tokens; 0: do not measure")->capture_default_str();
  command->add_option("-n", arguments->generate, "Generated tokens; 0: do not measure")->capture_default_str();
  command->add_option("--reps", arguments->repetitions, "Repetitions, after one that does not count")->capture_default_str();
  command->add_option("--temp", arguments->temperature, "Draw tokens at this temperature; 0: always take the likeliest")->capture_default_str()->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", arguments->top_k, "Draw among this many; 0: all")->capture_default_str()->check(CLI::NonNegativeNumber);
  command->add_flag("--profile", arguments->profile, "Also give the GPU time of each kernel, and how much it reaches of what this device can read or compute");
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, &action] { action = [arguments] { return bench(*arguments); }; });
}

}  // namespace gull::app
