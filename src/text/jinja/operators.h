// Python's operators on values. All errors go to the run; the result is undefined then.
#pragma once

#include <compare>
#include <functional>
#include <string_view>

#include "text/jinja/run.h"

namespace gull::text::jinja {

bool equal(Run& run, const Value& a, const Value& b);
/// a < b for numbers, strings, lists and tuples; other pairs are an error.
bool less(Run& run, const Value& a, const Value& b);
std::partial_ordering order(Run& run, const Value& a, const Value& b, std::string_view op);
/// One of == != < <= > >= in "not in".
bool compare(Run& run, std::string_view op, const Value& a, const Value& b);
/// One of + - * / // % **
Value binary(Run& run, std::string_view op, const Value& a, const Value& b);
Value negative(Run& run, const Value& v);
bool contains(Run& run, const Value& haystack, const Value& needle);

/// obj.name: attributes (methods) first, then keys. What is not there is undefined.
Value get_attribute(Run& run, const Value& object, std::string_view name);
/// obj[key]: keys first, then attributes.
Value get_item(Run& run, const Value& object, const Value& key);
/// obj[begin:end:step]; undefined parts were left out.
Value get_slice(Run& run, const Value& object, const Value& begin, const Value& end, const Value& step);

/// What `for` walks over: items, keys of a dict, characters of a string, nothing for undefined. Consumes generators.
/// Null after an error.
std::shared_ptr<Sequence> iterate(Run& run, const Value& value);

/// Calls f(position) for each match of a non-empty needle, overlapping ones too, in linear time; f returns false to end.
void each_match(std::string_view haystack, std::string_view needle, const std::function<bool(size_t)>& f);
/// The first match at or after `from`, or npos.
size_t find_first(std::string_view haystack, std::string_view needle, size_t from = 0);

/// Escapes & < > " ' unless the text is markup already.
Text escape_html(const Text& t);
/// a + b of strings.
Text join_texts(const Text& a, const Text& b);

}  // namespace gull::text::jinja
