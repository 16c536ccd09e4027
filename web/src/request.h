// What JavaScript asks for, as JSON, in gull's own terms. A missing or mistyped member takes the default of the option.
#pragma once

#include <nlohmann/json.hpp>

#include "gull/engine.h"

namespace gull::web {

using Json = nlohmann::ordered_json;

const Json& member(const Json& object, const char* key);   ///< null where absent
std::string text_of(const Json& object, const char* key, std::string fallback = {});
double number_of(const Json& object, const char* key, double fallback);
bool flag_of(const Json& object, const char* key, bool fallback = false);
/// Numbers of an array; whatever else is in it is left out.
std::vector<int32_t> ids_of(const Json& object, const char* key);

/// Errors: a size that is none, an unknown precision or KV type.
Result<LoadOptions> load_options(const Json& options);
GenerateOptions generate_options(const Json& options);
std::vector<Message> messages_of(const Json& messages);

/// Text for JSON: bytes that are not UTF-8 (a file's metadata may hold any) are replaced.
std::string dump(const Json& json);
Json to_json(const Error& error);
Json to_json(const Stats& stats);
Json to_json(const GenerateResult& result);
Json to_json(const Piece& piece);
Json describe(const Model& model);

}  // namespace gull::web
