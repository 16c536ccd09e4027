// What the filters on lists share.
#pragma once

#include <string>
#include <vector>

#include "text/jinja/run.h"

namespace gull::text::jinja {

/// The `attribute` argument of map, sort, join …: "a.b.0", a number, or none (the item itself).
class AttributePath {
 public:
  /// `attribute` may be nullptr or None; `missing` replaces what is undefined on the way.
  AttributePath(Run& run, const Value* attribute, const Value* missing = nullptr);
  AttributePath(Run& run, std::string_view path);
  Value get(const Value& item) const;

 private:
  void add(std::string_view path);
  Run& run_;
  std::vector<Value> parts_;
  const Value* missing_ = nullptr;
};

/// A copy of the items of anything iterable; empty after an error.
std::vector<Value> items_of(Run& run, const Value& value);

}  // namespace gull::text::jinja
