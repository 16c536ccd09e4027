#include "generation.h"

#include <fmt/format.h>

namespace gull::app {
namespace {

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

}  // namespace

std::string timings_line(const GenerateResult& result) {
  const Timings& t = result.timings;
  const uint32_t computed = t.prompt_tokens - std::min(t.prompt_tokens, t.cached_tokens);
  std::string line = fmt::format("prompt {} tokens", t.prompt_tokens);
  if (t.cached_tokens) line += fmt::format(" ({} kept)", t.cached_tokens);
  line += fmt::format(" in {:.2f} s ({:.1f} t/s), {} tokens in {:.2f} s ({:.1f} t/s)", t.prompt_s, rate(computed, t.prompt_s),
                      t.generated_tokens, t.generate_s, rate(t.generated_tokens, t.generate_s));
  return line + ", ended by " + to_string(result.stop);
}

nlohmann::ordered_json timings_json(const Timings& t) {
  const uint32_t computed = t.prompt_tokens - std::min(t.prompt_tokens, t.cached_tokens);
  return {{"prompt_tokens", t.prompt_tokens}, {"cached_tokens", t.cached_tokens}, {"generated_tokens", t.generated_tokens},
          {"load_s", t.load_s}, {"prompt_s", t.prompt_s}, {"generate_s", t.generate_s},
          {"prompt_per_second", rate(computed, t.prompt_s)}, {"generate_per_second", rate(t.generated_tokens, t.generate_s)}};
}

nlohmann::ordered_json device_json(const DeviceInfo& device) {
  return {{"name", device.name}, {"backend", device.backend}, {"type", device.type}, {"driver", device.driver}};
}

std::string dump(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace gull::app
