// gull devices: what there is to run on, and what would be chosen.
#include "base/log.h"
#include "command.h"
#include "generation.h"
#include "options.h"
#include "terminal.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;

struct DevicesArguments {
  DeviceArguments device;
  bool json = false;
};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text.empty() ? "none" : text;
}

std::string describe(const DeviceInfo& device) {
  std::string text = fmt::format("{} {}: {}\n", device.chosen ? "*" : " ", device.index, device.name);
  text += fmt::format("     {} GPU, {}, driver {}\n", device.type, device.backend, device.driver.empty() ? "unknown" : device.driver);
  text += fmt::format("     {}: {}\n", device.chosen ? "chosen" : "not chosen", device.why);
  text += fmt::format("     features: {}\n     limits:", join(device.features));
  for (const auto& [name, value] : device.limits)
    text += fmt::format("\n       {:<44} {}", name, name.ends_with("_size") ? human_bytes(value) : std::to_string(value));
  return text + "\n";
}

Json to_json(const DeviceInfo& device) {
  Json json = {{"index", device.index}, {"name", device.name}, {"vendor", device.vendor}, {"driver", device.driver},
               {"backend", device.backend}, {"type", device.type}, {"chosen", device.chosen}, {"why", device.why},
               {"features", device.features}, {"limits", Json::object()}};
  for (const auto& [name, value] : device.limits) json["limits"][name] = value;
  return json;
}

int devices(const DevicesArguments& arguments) {
  auto list = list_devices(arguments.device.apply());
  if (!list) return report(list.error());
  if (arguments.json) {
    Json json = Json::array();
    for (const auto& device : *list) json.push_back(to_json(device));
    write_output(dump(json, 1) + "\n");
  } else {
    for (const auto& device : *list) write_output(describe(device));
  }
  if (!list->empty()) return kSuccess;
  return report({ErrorKind::NotFound, "no GPU and no software one found: install your GPU's Vulkan driver, or on Debian and Ubuntu "
                                      "'apt-get install libvulkan1 mesa-vulkan-drivers'"});
}

}  // namespace

void add_devices(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("devices", "List GPUs, and which one would be chosen");
  auto arguments = std::make_shared<DevicesArguments>();
  arguments->device.add_to(*command);
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, &action] { action = [arguments] { return devices(*arguments); }; });
}

}  // namespace gull::app
