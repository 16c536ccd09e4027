// Builds the tree of a template.
#pragma once

#include <string_view>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace gull::text::jinja {

/// Parses a whole template. Templates that need other templates (include, import, extends) are refused.
Syntax<Block> parse(std::string_view source);

}  // namespace gull::text::jinja
