// JSON Schema as a grammar of the JSON texts that it allows.
#pragma once

#include <string>
#include <string_view>

#include "gull/error.h"

namespace gull::text {

/// GBNF whose texts are all valid JSON and valid against the schema (2020-12, and what drafts 7 and 2019-09 call the same).
/// Not all valid texts can be written: properties come in the order of the schema, numbers have at most 16 digits, white
/// space is short, and an object has only its declared properties unless additionalProperties is given.
/// Errors (Unsupported) name a keyword that cannot be kept; InvalidArgument: no JSON, or a schema that nothing fits.
Result<std::string> json_schema_to_gbnf(std::string_view schema);

}  // namespace gull::text
