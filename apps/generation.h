// What `run` and `chat` have in common: showing text as it comes, and the figures at the end.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "gull/engine.h"

namespace gull::app {

/// "prompt 31 tokens in 0.42 s (73.8 t/s), 120 tokens in 6.1 s (19.7 t/s), ended by eog"
std::string timings_line(const GenerateResult& result);
/// {prompt_tokens, cached_tokens, generated_tokens, load_s, prompt_s, generate_s, prompt_per_second, generate_per_second}
nlohmann::ordered_json timings_json(const Timings& timings);
/// {name, backend, type, driver}
nlohmann::ordered_json device_json(const DeviceInfo& device);

/// Bytes as JSON text; what is not UTF-8 is replaced.
std::string dump(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace gull::app
