// Cuts a template into text and the tokens of its tags, with Jinja's rules for white space around tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "text/jinja/value.h"

namespace gull::text::jinja {

struct Token {
  enum Type { Data, PrintBegin, PrintEnd, BlockBegin, BlockEnd, Name, String, Integer, Float, Operator, End } type = End;
  int line = 1;
  std::string text;      ///< of data, names, operators; the value of strings
  Int integer = 0;
  double number = 0;
};

/// Where compiling fails: a message without the line, and the line.
struct SyntaxError {
  std::string message;
  int line = 1;
};
template <class T>
using Syntax = std::expected<T, SyntaxError>;

/// Tokens of a template with trim_blocks and lstrip_blocks on; always ends with an End token.
Syntax<std::vector<Token>> tokenize(std::string_view source);

}  // namespace gull::text::jinja
