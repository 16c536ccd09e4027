// String formatting: "%s %d" % (…) and "{} {x!r:>5}".format(…).
#pragma once

#include "text/jinja/run.h"

namespace gull::text::jinja {

/// Python's % on strings; `values` is a tuple, a dict (for %(name)s), or one value.
Value format_percent(Run& run, const Text& format, const Value& values);
/// Python's str.format, with the lookups of the sandbox.
Value format_braces(Run& run, const Text& format, const Args& args);

}  // namespace gull::text::jinja
