#include "tuning_cache.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "catalogue.h"
#include "process.h"
#include "terminal.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr uint64_t kMostBytes = 1u << 20;
constexpr int kFormat = 1;
constexpr int kDepth = 5;             ///< file, devices, device, shapes, shape
constexpr size_t kMostDevices = 64;   ///< drivers change, and nobody clears the file

/// Numbers of a shape, where they are some that a shape may have; gull checks them against what it offers.
bool read_numbers(const Json& entry, const char* name, std::initializer_list<uint32_t*> numbers) {
  const auto found = entry.find(name);
  if (found == entry.end()) return true;
  if (!found->is_array() || found->size() != numbers.size()) return false;
  size_t i = 0;
  for (uint32_t* number : numbers) {
    const Json& value = (*found)[i++];
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 4096) return false;
    *number = value.get<uint32_t>();
  }
  return true;
}

bool read_shapes(const Json& entry, Tuning& out) {
  return read_numbers(entry, "matmul8", {&out.matmul8.tokens, &out.matmul8.rows, &out.matmul8.units}) &&
         read_numbers(entry, "matmul", {&out.matmul.tokens, &out.matmul.rows, &out.matmul.units}) &&
         read_numbers(entry, "matvec8", {&out.matvec8.threads, &out.matvec8.per_row}) &&
         read_numbers(entry, "gated8", {&out.gated8.threads, &out.gated8.per_row}) &&
         read_numbers(entry, "few", {&out.few.threads, &out.few.per_row});
}

Json shapes_json(const Tuning& t) {
  Json out = Json::object();
  if (t.matmul8.tokens) out["matmul8"] = {t.matmul8.tokens, t.matmul8.rows, t.matmul8.units};
  if (t.matmul.tokens) out["matmul"] = {t.matmul.tokens, t.matmul.rows, t.matmul.units};
  if (t.matvec8.threads) out["matvec8"] = {t.matvec8.threads, t.matvec8.per_row};
  if (t.gated8.threads) out["gated8"] = {t.gated8.threads, t.gated8.per_row};
  if (t.few.threads) out["few"] = {t.few.threads, t.few.per_row};
  return out;
}

std::string text_of(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_for(const Json& entry, const DeviceInfo& device) {
  return entry.is_object() && text_of(entry, "device") == device.name && text_of(entry, "driver") == device.driver &&
         text_of(entry, "backend") == device.backend && text_of(entry, "gull") == GULL_VERSION;
}

/// The file's list of devices; empty where there is no file. Errors: what is wrong with it.
Result<Json> entries_of(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return Json::array();
  const auto bad = [&] { return fail_f(ErrorKind::BadFile, "{} is not what gull tune writes", path); };
  if (!fs::is_regular_file(path, error)) return bad();
  auto text = read_text_file(path, kMostBytes);
  if (!text) return fail(text.error());
  // What lies deeper than shapes do is dropped: nothing here may depend on how deep a file goes.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDepth; };
  Json whole = Json::parse(*text, shallow, false);
  if (!whole.is_object()) return bad();
  const auto format = whole.find("format"), devices = whole.find("devices");
  if (format == whole.end() || *format != kFormat || devices == whole.end() || !devices->is_array() || devices->size() > kMostDevices) return bad();
  return std::move(*devices);
}

}  // namespace

Result<std::string> tuning_path() {
  auto folder = cache_folder();
  if (!folder) return fail(folder.error());
  return *folder + "/tune.json";
}

Tuning read_tuning(const DeviceInfo& device) {
  static bool told = false;
  const auto ignore = [](const std::string& why) {
    if (!std::exchange(told, true)) print_notice(why + ": it is not used; gull tune writes it anew");
    return Tuning{};
  };
  const auto path = tuning_path();
  if (!path) return {};
  const auto entries = entries_of(*path);
  if (!entries) return ignore(entries.error().message);
  for (const Json& entry : *entries) {
    if (!is_for(entry, device)) continue;
    Tuning found;
    const auto shapes = entry.find("shapes");
    if (shapes == entry.end() || !shapes->is_object() || !read_shapes(*shapes, found)) return ignore(*path + " is damaged");
    return found;
  }
  return {};
}

Result<std::string> write_tuning(const DeviceInfo& device, const Tuning& tuning) {
  auto path = tuning_path();
  if (!path) return fail(path.error());
  Json devices = Json::array();
  if (auto known = entries_of(*path))
    for (Json& entry : *known)
      if (entry.is_object() && !is_for(entry, device)) devices.push_back(std::move(entry));
  while (devices.size() >= kMostDevices) devices.erase(devices.begin());
  devices.push_back({{"device", device.name}, {"driver", device.driver}, {"backend", device.backend}, {"gull", GULL_VERSION}, {"shapes", shapes_json(tuning)}});
  const Json whole = {{"format", kFormat}, {"devices", devices}};

  std::error_code error;
  fs::create_directories(fs::path(*path).parent_path(), error);
  const std::string part = fmt::format("{}.{}.part", *path, process_id());
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << whole.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    out.close();
    if (!out) return fs::remove(part, error), fail_f(ErrorKind::Io, "{} could not be written", part);
  }
  fs::rename(part, *path, error);
  if (!error) return *path;
  const std::string why = error.message();
  fs::remove(part, error);
  return fail_f(ErrorKind::Io, "{} could not be written: {}", *path, why);
}

}  // namespace gull::app
