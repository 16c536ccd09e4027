// Schemas as data: references, what two schemas ask together, and whether they exclude each other.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "gull/error.h"

namespace gull::text::grammar {

using Json = nlohmann::ordered_json;

/// Keywords that ask for nothing.
bool is_annotation(std::string_view keyword);

/// The types that a schema allows: of "null", "boolean", "integer", "number", "string", "array", "object".
/// Without `type`, those of its enum or const, else the type that its keywords speak of, else all.
std::set<std::string> types_of(const Json& schema);
std::string type_of_value(const Json& value);

/// What "#/a/b" points to, or nullptr.
const Json* resolve(const Json& root, std::string_view reference);

/// One schema that asks what both ask. Errors name the keyword that cannot be joined.
Result<Json> merged(const Json& root, const Json& a, const Json& b, int depth = 0);

/// Whether surely no value fits both. `depth` bounds the search.
bool exclude_each_other(const Json& root, const Json& a, const Json& b, int depth = 0);

}  // namespace gull::text::grammar
