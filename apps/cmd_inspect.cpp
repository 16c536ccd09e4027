// gull inspect: what is in a GGUF file, and whether gull can run it. Needs no GPU.
#include <algorithm>
#include <map>

#include "base/log.h"
#include "command.h"
#include "generation.h"
#include "model_check.h"
#include "model_file.h"
#include "terminal.h"

namespace gull::app {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::string model;
  bool json = false, all = false, verbose = false;
};

struct TypeUse { uint64_t tensors = 0, elements = 0, bytes = 0; };

const char* type_name(gguf::Type type) {
  const auto* traits = gguf::type_traits(type);
  return traits ? traits->name : "?";
}

std::vector<std::pair<std::string, TypeUse>> types_by_size(const gguf::File& file) {
  std::map<std::string, TypeUse> uses;
  for (const auto& tensor : file.tensors()) {
    auto& use = uses[type_name(tensor.type)];
    ++use.tensors, use.elements += tensor.elements(), use.bytes += tensor.bytes;
  }
  std::vector<std::pair<std::string, TypeUse>> sorted(uses.begin(), uses.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return sorted;
}

std::vector<uint64_t> shape(const gguf::TensorInfo& tensor) { return {tensor.dims, tensor.dims + tensor.n_dims}; }

std::string shape_text(const gguf::TensorInfo& tensor) {
  std::string text;
  for (const uint64_t d : shape(tensor)) text += fmt::format("{}{}", text.empty() ? "" : " × ", d);
  return text;
}

std::string human_count(uint64_t count) {
  static constexpr const char* units[] = {"", " K", " M", " G", " T"};
  double value = static_cast<double>(count);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) value /= 1000, ++unit;
  return unit ? fmt::format("{:.3g}{}", value, units[unit]) : std::to_string(count);
}

Json array_json(const gguf::Array& array, size_t limit) {
  using Kind = gguf::Array::Kind;
  Json list = Json::array();
  for (size_t i = 0; i < std::min(array.size(), limit); ++i) {
    switch (array.kind) {
      case Kind::Unsigned: list.push_back(array.unsigneds[i]); break;
      case Kind::Signed: list.push_back(array.signeds[i]); break;
      case Kind::Float: list.push_back(array.floats[i]); break;
      case Kind::Bool: list.push_back(array.bools[i] != 0); break;
      case Kind::String: list.push_back(array.strings[i]); break;
      case Kind::Nested: list.push_back(array_json(*array.nested[i], limit)); break;
    }
  }
  return list;
}

/// The value as JSON; of a long array the first `limit` members.
Json value_json(const gguf::Value& value, size_t limit) {
  if (const auto* array = std::get_if<std::shared_ptr<gguf::Array>>(&value)) return array_json(**array, limit);
  return std::visit([](const auto& v) -> Json {
    if constexpr (requires { Json(v); }) return Json(v); else return nullptr;
  }, value);
}

std::string value_text(const gguf::Value& value) {
  constexpr size_t kMembers = 6, kCharacters = 100;
  const double* number = std::get_if<double>(&value);
  // Most are float32 in the file: 1e-05, not 9.999999747378752e-06.
  const bool is_float = number && static_cast<double>(static_cast<float>(*number)) == *number;
  std::string text = is_float ? fmt::format("{}", static_cast<float>(*number)) : dump(value_json(value, kMembers));
  if (text.size() > kCharacters) {
    size_t end = kCharacters;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;   // never inside a character
    text.resize(end);
    text += "…";
  }
  if (const auto* array = std::get_if<std::shared_ptr<gguf::Array>>(&value); array && (*array)->size() > kMembers)
    text += fmt::format("  ({} members)", (*array)->size());
  return text;
}

/// "blk.7.attn_q.weight" → {"blk.", 7, ".attn_q.weight"}; no number in the second part: no layer.
struct LayerName {
  std::string before, after;
  uint32_t layer = 0;
};
std::optional<LayerName> layer_of(const std::string& name) {
  const size_t start = name.find('.');
  if (start == std::string::npos) return {};
  const size_t end = name.find('.', start + 1);
  const std::string digits = name.substr(start + 1, end == std::string::npos ? end : end - start - 1);
  if (end == std::string::npos || digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) return {};
  return LayerName{name.substr(0, start + 1), name.substr(end), static_cast<uint32_t>(std::stoul(digits))};
}

/// Layers as ranges: "0-3,7".
std::string ranges(std::vector<uint32_t> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (j > i) text += fmt::format("-{}", numbers[j]);
    i = j + 1;
  }
  return text;
}

/// One line a tensor, or one line for all layers whose tensors of one name agree in type and shape.
std::string tensor_table(const gguf::File& file, bool all) {
  struct Row { std::string name, after; std::vector<uint32_t> layers; const gguf::TensorInfo* tensor; uint64_t bytes; };
  std::vector<Row> rows;
  std::map<std::string, size_t> known;
  for (const auto& tensor : file.tensors()) {
    const auto layer = all ? std::nullopt : layer_of(tensor.name);
    if (!layer) {
      rows.push_back({tensor.name, "", {}, &tensor, tensor.bytes});
      continue;
    }
    const auto key = fmt::format("{}*{} {} {}", layer->before, layer->after, type_name(tensor.type), shape_text(tensor));
    const auto [found, fresh] = known.try_emplace(key, rows.size());
    if (fresh) rows.push_back({layer->before, layer->after, {}, &tensor, 0});
    rows[found->second].layers.push_back(layer->layer);
    rows[found->second].bytes += tensor.bytes;
  }
  std::string text;
  for (const auto& row : rows) {
    const std::string name = row.layers.empty() ? row.name : row.name + ranges(row.layers) + row.after;
    text += fmt::format("  {:<44} {:<7} {:<24} {:>10}\n", name, type_name(row.tensor->type), shape_text(*row.tensor), human_bytes(row.bytes));
  }
  return text;
}

uint64_t parameters(const gguf::File& file) {
  uint64_t sum = 0;
  for (const auto& tensor : file.tensors()) sum += tensor.elements();
  return sum;
}

/// Why it cannot be run, without the file's name, which stands before it already.
std::string reason(const gguf::File& file, const Error& error) {
  const std::string prefix = file.name() + ": ";
  return error.message.starts_with(prefix) ? error.message.substr(prefix.size()) : error.message;
}

std::string summary_text(const ModelSummary& need) {
  std::string text = fmt::format("gull can run it{}: {} on the GPU ({} of weights", need.embedding ? ", as an embedding model" : "",
                                 human_bytes(need.total()), human_bytes(need.weights));
  if (need.kv) text += fmt::format(", {} of keys and values for {} tokens of the {} it was trained for", human_bytes(need.kv), need.context, need.trained_context);
  if (need.states) text += fmt::format(", {} of state", human_bytes(need.states));
  return text + fmt::format(", {} of working memory)\n", human_bytes(need.working));
}

std::string describe(const gguf::File& file, const Result<ModelSummary>& check, bool all) {
  std::string text = fmt::format("metadata ({} keys)\n", file.metadata().size());
  for (const auto& [key, value] : file.metadata()) text += fmt::format("  {:<44} {}\n", key, value_text(value));
  text += fmt::format("\ntensors ({})\n{}", file.tensors().size(), tensor_table(file, all));
  text += "\ntypes\n";
  for (const auto& [name, use] : types_by_size(file))
    text += fmt::format("  {:<8} {:>5} tensors {:>8} weights {:>10}\n", name, use.tensors, human_count(use.elements), human_bytes(use.bytes));
  text += fmt::format("\n{}: GGUF version {}, architecture {}, {} parameters, {}\n", file.name(), file.version(),
                      file.architecture().empty() ? "not given" : file.architecture(), human_count(parameters(file)), human_bytes(file.total_bytes()));
  if (!check) return text + fmt::format("gull cannot run it: {}\n", reason(file, check.error()));
  return text + summary_text(*check);
}

Json to_json(const gguf::File& file, const Result<ModelSummary>& check) {
  Json json = {{"file", file.name()}, {"bytes", file.total_bytes()}, {"version", file.version()},
               {"architecture", file.architecture()}, {"parameters", parameters(file)}, {"supported", check.has_value()}};
  if (check) {
    json["embedding"] = check->embedding;
    json["gpu_memory"] = {{"weights", check->weights}, {"kv", check->kv}, {"states", check->states}, {"working", check->working}, {"context", check->context}, {"total", check->total()}};
  } else {
    json["reason"] = reason(file, check.error());
  }
  json["types"] = Json::object();
  for (const auto& [name, use] : types_by_size(file))
    json["types"][name] = {{"tensors", use.tensors}, {"elements", use.elements}, {"bytes", use.bytes}};
  json["metadata"] = Json::object();
  for (const auto& [key, value] : file.metadata()) json["metadata"][key] = value_json(value, SIZE_MAX);
  json["tensors"] = Json::array();
  for (const auto& tensor : file.tensors())
    json["tensors"].push_back({{"name", tensor.name}, {"type", type_name(tensor.type)}, {"shape", shape(tensor)}, {"bytes", tensor.bytes}});
  return json;
}

int inspect(const InspectArguments& arguments) {
  set_verbose(arguments.verbose);
  auto file = open_model_file(arguments.model, true);
  if (!file) return report(file.error());
  const auto check = check_model(*file);
  write_output(arguments.json ? dump(to_json(**file, check), 1) + "\n" : describe(**file, check, arguments.all));
  return kSuccess;
}

}  // namespace

void add_inspect(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("inspect", "Show what is in a GGUF file, and whether gull can run it");
  auto arguments = std::make_shared<InspectArguments>();
  command->add_option("MODEL", arguments->model, "A GGUF file, an http(s) address, or a catalogue name")->required();
  command->add_flag("--all", arguments->all, "One line for every tensor, instead of one for like tensors of all layers");
  command->add_flag("--json", arguments->json, "As JSON, in full");
  command->add_flag("--verbose", arguments->verbose, "Say on standard error what is being done");
  command->callback([arguments, &action] { action = [arguments] { return inspect(*arguments); }; });
}

}  // namespace gull::app
