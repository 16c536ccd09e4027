#include "options.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "catalogue.h"
#include "signals.h"
#include "terminal.h"
#include "tuning_cache.h"

namespace gull::app {
namespace {

const char* const kDevice = "Device";
const char* const kModel = "Loading";
const char* const kSampling = "Generation";

KvType kv_type(const std::string& name) {
  if (name == "f32") return KvType::F32;
  if (name == "f16") return KvType::F16;
  if (name == "q8_0") return KvType::Q8_0;
  if (name == "q4_0") return KvType::Q4_0;
  return KvType::Auto;
}

/// CLI11 check: a size such as 512MiB.
std::string check_size(const std::string& text) {
  const auto bytes = parse_bytes(text);
  return bytes ? std::string() : bytes.error().message;
}

Result<std::pair<int32_t, float>> parse_bias(const std::string& text) {
  const size_t colon = text.find(':');
  int32_t id = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  const char* middle = text.data() + (colon == std::string::npos ? text.size() : colon);
  const auto first = std::from_chars(text.data(), middle, id);
  const bool signed_plus = middle + 1 < end && middle[1] == '+';
  const auto second = middle < end ? std::from_chars(middle + 1 + signed_plus, end, bias) : std::from_chars_result{end, std::errc::invalid_argument};
  if (first.ec != std::errc{} || first.ptr != middle || second.ec != std::errc{} || second.ptr != end)
    return fail_f(ErrorKind::InvalidArgument, "--logit-bias '{}': write ID:BIAS, as in 15043:-5", text);
  return std::pair(id, bias);
}

}  // namespace

void DeviceArguments::add_to(CLI::App& command) {
  command.add_option("--device", device.device, "Number of an adapter in 'gull devices', or a part of its name")->group(kDevice);
  command.add_option("--limits", limits, "device: all that it has; baseline: only WebGPU's default limits, no optional feature")
      ->check(CLI::IsMember({"device", "baseline"}))->capture_default_str()->group(kDevice);
  command.add_flag("--no-f16", device.no_f16, "Do not use shader-f16")->group(kDevice);
  command.add_flag("--no-subgroups", device.no_subgroups, "Do not use subgroup operations")->group(kDevice);
  command.add_flag("--no-immediates", device.no_immediates, "Do not use immediates")->group(kDevice);
  command.add_flag("--checked", device.checked_shaders, "Keep bounds checks in shaders")->group(kDevice);
  command.add_option("--webgpu", device.webgpu_library, "Another WebGPU implementation: path of its shared library")->group(kDevice);
  command.add_flag("--verbose", verbose, "Say on standard error what is being done");
}

DeviceOptions DeviceArguments::apply() const {
  if (verbose) set_log_level(LogLevel::Debug);
  DeviceOptions options = device;
  options.baseline_limits = limits == "baseline";
  return options;
}

void ModelArguments::add_to(CLI::App& command, bool required) {
  command.add_option("MODEL", model, required ? "A GGUF file, an http(s) address, or a catalogue name" : "A GGUF file, an http(s) address, or a catalogue name; without one, a made-up model of usual shapes")->required(required);
  command.add_option("--ctx", context, "Tokens of context; 0: the model's own, at most 4096")->capture_default_str()->group(kModel);
  command.add_option("--precision", precision, "fast: measured shortcuts; f32: none")
      ->check(CLI::IsMember({"fast", "f32"}))->capture_default_str()->group(kModel);
  command.add_option("--kv", kv, "How keys and values are stored")
      ->check(CLI::IsMember({"auto", "f32", "f16", "q8_0", "q4_0"}))->capture_default_str()->group(kModel);
  command.add_option("--gpu-budget", budget, "Keep at most this much of the weights on the GPU, as in 512MiB; 0: no bound")
      ->check(CLI::Validator(check_size, "SIZE"))->group(kModel);
  command.add_option("--joined", joined, "Joining the steps of a layer into one dispatch; auto: on GPUs that are known to allow it")
      ->check(CLI::IsMember({"auto", "on", "off"}))->capture_default_str()->group(kModel);
  command.add_flag("--no-tuning", no_tuning, "Do not use the shapes of kernels that gull tune found")->group(kModel);
  device.add_to(command);
}

Result<LoadOptions> ModelArguments::options() const {
  LoadOptions options;
  options.device = device.apply();
  options.precision = precision == "f32" ? Precision::F32 : Precision::Fast;
  options.kv_type = kv_type(kv);
  options.context = context;
  options.joined = joined == "on" ? Joined::On : joined == "off" ? Joined::Off : Joined::Auto;
  options.cancel = &interrupted();
  if (!budget.empty()) {
    auto bytes = parse_bytes(budget);
    if (!bytes) return fail(bytes.error());
    options.gpu_budget = *bytes;
  }
  if (!no_tuning) options.tuning = read_tuning;
  return options;
}

Result<std::shared_ptr<Model>> ModelArguments::load() const {
  auto options = this->options();
  if (!options) return fail(options.error());
  auto path = find_model(model);
  if (!path) return fail(path.error());

  ProgressBar bar("loading");
  options->progress = [&bar](const Progress& p) { bar.update(p.stage, p.done, p.total, std::string_view(p.stage) != "compile"); };
  auto loaded = Model::load(*path, std::move(*options));
  if (loaded && (*loaded)->device().type == "software")
    print_notice(fmt::format("no GPU found: {} runs on the processor, slowly", (*loaded)->device().name));
  return loaded;
}

void GenerateArguments::add_to(CLI::App& command) {
  SamplingOptions& s = options.sampling;
  const auto add = [&command](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->capture_default_str()->group(kSampling);
  };
  add("-n,--max-tokens", options.max_tokens, "Tokens to make at most; -1: until the model ends or the context is full");
  add("--temp", s.temperature, "Temperature; 0: always the likeliest token")->check(CLI::NonNegativeNumber);
  add("--top-k", s.top_k, "Only the k likeliest tokens; 0: off");
  add("--top-p", s.top_p, "Only the likeliest tokens of this total probability; 1: off")->check(CLI::Range(0.0, 1.0));
  add("--min-p", s.min_p, "Only tokens of at least this share of the likeliest one's probability; 0: off")->check(CLI::Range(0.0, 1.0));
  add("--typical-p", s.typical_p, "Locally typical sampling; 1: off")->check(CLI::Range(0.0, 1.0));
  add("--seed", s.seed, "Makes sampling repeatable; 0: a fresh seed each time");
  add("--repeat-penalty", s.repeat_penalty, "Divides the scores of recent tokens; 1: off")->check(CLI::PositiveNumber);
  add("--repeat-last", s.repeat_last, "How many tokens count as recent");
  add("--presence-penalty", s.presence_penalty, "Taken from the score of each recent token; 0: off");
  add("--frequency-penalty", s.frequency_penalty, "Taken once for each time that a token is recent; 0: off");
  add("--dry-multiplier", s.dry_multiplier, "Penalty against repeated sequences (DRY); 0: off");
  add("--dry-base", s.dry_base, "How fast it grows with their length");
  add("--dry-allowed-length", s.dry_allowed_length, "Length that is not punished");
  add("--mirostat-tau", s.mirostat_tau, "Mirostat 2: the surprise to hold; 0: off");
  add("--mirostat-eta", s.mirostat_eta, "Mirostat 2: how fast it learns");
  command.add_option("--logit-bias", bias, "ID:BIAS, added to the score of a token; may be repeated")->allow_extra_args(false)->take_all()->group(kSampling);
  command.add_option("--stop", options.stop, "End before this text; may be repeated")->allow_extra_args(false)->take_all()->group(kSampling);
  command.add_flag("--ignore-eog", options.ignore_eog, "Go on where the model would end")->group(kSampling);
  command.add_option("--grammar", grammar_file, "File with a GBNF grammar that the output must follow")->group(kSampling);
  command.add_option("--json-schema", schema, "JSON Schema that the output must follow: a file, or the text itself")->group(kSampling);
}

Result<GenerateOptions> GenerateArguments::resolve() const {
  GenerateOptions resolved = options;
  resolved.cancel = &interrupted();
  for (const auto& text : bias) {
    auto entry = parse_bias(text);
    if (!entry) return fail(entry.error());
    resolved.sampling.logit_bias.push_back(*entry);
  }
  if (!grammar_file.empty() && !schema.empty())
    return fail_f(ErrorKind::InvalidArgument, "--grammar and --json-schema exclude each other");
  if (!grammar_file.empty()) {
    auto text = read_text_file(grammar_file);
    if (!text) return fail(text.error());
    resolved.grammar = std::move(*text);
  }
  if (const size_t start = schema.find_first_not_of(" \t\r\n"); start != std::string::npos) {
    auto text = schema[start] == '{' ? Result<std::string>(schema) : read_text_file(schema);
    if (!text) return fail(text.error());
    resolved.json_schema = std::move(*text);
  }
  return resolved;
}

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  static constexpr std::string_view separators = ", \t\r\n";
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(separators); at != std::string_view::npos; at = text.find_first_not_of(separators, at)) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc{} || stop != text.data() + end)
      return fail_f(ErrorKind::InvalidArgument, "'{}' is not a token id: write them as 1,2,3", text.substr(at, std::min<size_t>(end - at, 40)));
    ids.push_back(id);
    at = end;
  }
  return ids;
}

Result<void> check_ids(const std::vector<int32_t>& ids, uint32_t vocabulary) {
  for (const int32_t id : ids)
    if (id < 0 || static_cast<uint32_t>(id) >= vocabulary)
      return fail_f(ErrorKind::InvalidArgument, "token id {} is outside the vocabulary of {}", id, vocabulary);
  return {};
}

}  // namespace gull::app
