// gull tune: finds by measuring which shapes of the kernels are fastest on this device, and keeps them for later runs.
#include <algorithm>

#include "base/log.h"
#include "command.h"
#include "options.h"
#include "signals.h"
#include "terminal.h"
#include "tune_model.h"
#include "tuning_cache.h"

namespace gull::app {
namespace {

struct TuneArguments {
  ModelArguments model;
  bool dry_run = false;
};

/// The user's model, or a made-up one.
Result<std::shared_ptr<Model>> load(const ModelArguments& arguments) {
  if (!arguments.model.empty()) return arguments.load();
  auto options = arguments.options();
  if (!options) return fail(options.error());
  auto devices = list_devices(options->device);
  if (!devices) return fail(devices.error());
  const bool small = std::ranges::any_of(*devices, [](const DeviceInfo& d) { return d.chosen && d.type == "software"; });
  auto file = made_up_model(small);
  if (!file) return fail(file.error());
  return Model::load(std::move(*file), std::move(*options));
}

void print_table(const TuneResult& result) {
  double own = 0;
  for (const TuneMeasurement& m : result.measured) {
    if (m.shape == "gull's own") own = m.seconds, write_output(&m == result.measured.data() ? "" : "\n");
    write_output(fmt::format("{:<8} {:<32} {:>10.3f} ms {:>6.1f} %{}\n", m.kernel, m.shape, m.seconds * 1e3, 100 * m.seconds / own, m.chosen ? "  best" : ""));
  }
}

int tune_device(TuneArguments arguments) {
  arguments.model.no_tuning = true;
  if (arguments.model.context == 0) arguments.model.context = 512;
  auto model = load(arguments.model);
  if (!model) return report(model.error());
  const DeviceInfo& device = (*model)->device();
  Result<TuneResult> result = [&] {
    ProgressBar bar("measuring");
    return tune(*model, [&](uint32_t done, uint32_t total, const std::string& what) { bar.update(what, done, total, false); }, &interrupted());
  }();
  if (!result) return report(result.error());
  write_output(fmt::format("{} ({}, driver {}), time of a step with each shape:\n\n", device.name, device.backend, device.driver.empty() ? "unknown" : device.driver));
  print_table(*result);
  if (arguments.dry_run) return kSuccess;
  auto path = write_tuning(device, result->tuning);
  if (!path) return report(path.error());
  write_output(fmt::format("\n{} {}\n", result->tuning == Tuning{} ? "gull's own shapes are the best; noted in" : "The best are kept in", *path));
  return kSuccess;
}

}  // namespace

void add_tune(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("tune", "Find the fastest shapes of the kernels on this device, for all later runs");
  auto arguments = std::make_shared<TuneArguments>();
  arguments->model.add_to(*command, false);
  command->add_flag("--dry-run", arguments->dry_run, "Measure and print, keep nothing");
  command->callback([arguments, &action] { action = [arguments] { return tune_device(*arguments); }; });
}

}  // namespace gull::app
