// Options that commands share: the model and its device, and how text is generated.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "gull/engine.h"

namespace gull::app {

/// How to open the GPU: --device, --limits, --no-f16, --no-subgroups, --no-immediates, --checked, --webgpu, --verbose.
struct DeviceArguments {
  DeviceOptions device;
  std::string limits = "device";
  bool verbose = false;
  void add_to(CLI::App& command);
  /// Carries out --verbose, and gives the options for the library.
  DeviceOptions apply() const;
};

/// The model and how to load it: MODEL, --ctx, --kv, --precision, --gpu-budget, --joined and the device's.
struct ModelArguments {
  std::string model;
  DeviceArguments device;
  std::string precision = "fast", kv = "auto", budget, joined = "auto";
  uint32_t context = 0;
  bool no_tuning = false;
  /// `required`: whether a command cannot do without MODEL.
  void add_to(CLI::App& command, bool required = true);
  /// The options for the library. Errors: a size that is none.
  Result<LoadOptions> options() const;
  /// Finds the file (fetching it where MODEL is an address or a catalogue name) and loads it, with progress on a terminal,
  /// and a notice when the device is a software one.
  Result<std::shared_ptr<Model>> load() const;
};

/// How to generate: --max-tokens, the sampler's options, --stop, --grammar, --json-schema.
struct GenerateArguments {
  GenerateOptions options;
  std::vector<std::string> bias;
  std::string grammar_file, schema;
  void add_to(CLI::App& command);
  /// The options with files read and lists parsed.
  Result<GenerateOptions> resolve() const;
};

/// "1,2,3" (spaces allowed) as ids.
Result<std::vector<int32_t>> parse_ids(std::string_view text);
/// The first id that is not in [0, vocabulary) as an error.
Result<void> check_ids(const std::vector<int32_t>& ids, uint32_t vocabulary);

}  // namespace gull::app
