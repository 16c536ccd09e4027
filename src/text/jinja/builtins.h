// What the language brings along: filters, tests, methods of the types, global functions.
#pragma once

#include <string_view>
#include <unordered_map>

#include "text/jinja/run.h"

namespace gull::text::jinja {

using Filter = Value (*)(Run&, const Value& subject, Args&);
using Test = bool (*)(Run&, const Value& subject, Args&);
using Method = Value (*)(Run&, const Value& self, Args&);
template <class F>
using Table = std::unordered_map<std::string_view, F>;

bool has_filter(std::string_view name);
bool has_test(std::string_view name);
/// subject | name(args). An unknown name is an error of the run.
Value call_filter(Run& run, std::string_view name, const Value& subject, Args& args);
bool call_test(Run& run, std::string_view name, const Value& subject, Args& args);

/// A method of a str, dict, list or tuple, bound to it.
bool find_method(const Value& self, std::string_view name, Value& out);
/// Whether Python's type has a method of this name that changes the object: those are refused.
bool modifies(const Value& self, std::string_view name);

/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
const Table<Value>& globals();

/// Sets an attribute of a namespace; other objects, and names that begin with an underscore, are refused.
void set_namespace(Run& run, const Value& ns, const std::string& name, const Value& value);

/// str | trim, replace and so on are methods and filters alike.
Text strip(const Text& t, const Value* characters, bool left, bool right);
Text replaced(Run& run, const Text& t, const Text& old, const Text& fresh, int64_t count);
Text upper(const Text& t);
Text lowered(const Text& t);
Text capitalized(const Text& t);
std::vector<Text> lines_of(Run& run, const Text& t, bool keep_ends);

// The tables that the files of the filters add up to.
const Table<Filter>& text_filters();
const Table<Filter>& number_filters();
const Table<Filter>& sequence_filters();

}  // namespace gull::text::jinja
