// Values as text: Python's str() and repr(), and JSON.
#pragma once

#include <string>

#include "text/jinja/run.h"

namespace gull::text::jinja {

std::string int_to_string(Int i);
/// Python's repr of a float: the shortest digits that read back, "1.0", "1e+16", "inf".
std::string float_to_string(double d);

/// str(): what {{ value }} prints. Input stays marked as input; a list or dict with any input in it is input as a whole.
Text to_text(Run& run, const Value& value);
/// repr(): the same with strings quoted.
Text to_repr(Run& run, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool lines = false;                              ///< one item a line
  std::string indent, comma = ", ", colon = ": ";
};
/// json.dumps. Values that JSON cannot hold are an error. Input as a whole if there is any in it.
Text to_json(Run& run, const Value& value, const JsonStyle& style);

}  // namespace gull::text::jinja
