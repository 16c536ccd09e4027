#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <array>

#include "base/log.h"

namespace gull::text::grammar {
namespace {

constexpr int kMaxDepth = 30;

template <size_t n>
bool has_any(const Json& schema, const std::array<const char*, n>& keywords) {
  return std::any_of(keywords.begin(), keywords.end(), [&](const char* k) { return schema.contains(k); });
}

/// The schema behind its references, or nullptr when they lead nowhere or in a circle.
const Json* target(const Json& root, const Json& schema) {
  const Json* s = &schema;
  for (int i = 0; i < kMaxDepth; i++) {
    if (!s || !s->is_object() || !s->contains("$ref")) return s;
    const Json& reference = (*s)["$ref"];
    if (!reference.is_string()) return nullptr;
    s = resolve(root, reference.get_ref<const std::string&>());
  }
  return nullptr;
}

Json all_of(Json a, Json b) {
  Json out = Json::object();
  out["allOf"] = Json::array();
  out["allOf"].push_back(std::move(a));
  out["allOf"].push_back(std::move(b));
  return out;
}

/// The values of enum or const, or nullptr.
const Json* values_of(const Json& schema, Json& holder) {
  if (schema.contains("enum") && schema["enum"].is_array()) return &schema["enum"];
  if (!schema.contains("const")) return nullptr;
  holder = Json::array();
  holder.push_back(schema["const"]);
  return &holder;
}

bool requires_property(const Json& schema, const std::string& name) {
  if (!schema.contains("required") || !schema["required"].is_array()) return false;
  return std::find(schema["required"].begin(), schema["required"].end(), Json(name)) != schema["required"].end();
}

bool forbids_property(const Json& schema, const std::string& name) {
  const bool declared = schema.contains("properties") && schema["properties"].is_object() && schema["properties"].contains(name);
  return !declared && schema.contains("additionalProperties") && schema["additionalProperties"] == Json(false);
}

}  // namespace

bool is_annotation(std::string_view k) {
  static constexpr std::string_view known[] = {"title", "description", "default", "examples", "example", "$schema", "$id", "$comment", "$anchor", "deprecated",
                                               "readOnly", "writeOnly", "$defs", "definitions", "discriminator", "contentMediaType", "contentEncoding"};
  return std::find(std::begin(known), std::end(known), k) != std::end(known) || k.starts_with("x-");
}

std::string type_of_value(const Json& v) {
  if (v.is_null()) return "null";
  if (v.is_boolean()) return "boolean";
  if (v.is_string()) return "string";
  if (v.is_array()) return "array";
  if (v.is_object()) return "object";
  return v.is_number_integer() ? "integer" : "number";
}

std::set<std::string> types_of(const Json& schema) {
  std::set<std::string> out;
  if (schema.is_object()) {
    if (schema.contains("type")) {
      const Json& type = schema["type"];
      if (type.is_string()) out.insert(type.get<std::string>());
      if (type.is_array())
        for (const Json& t : type)
          if (t.is_string()) out.insert(t.get<std::string>());
      return out;
    }
    Json holder;
    if (const Json* values = values_of(schema, holder)) {
      for (const Json& v : *values) out.insert(type_of_value(v));
      return out;
    }
    if (has_any(schema, std::array{"properties", "required", "additionalProperties", "minProperties", "maxProperties"})) return {"object"};
    if (has_any(schema, std::array{"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})) return {"array"};
    if (has_any(schema, std::array{"minLength", "maxLength", "pattern", "format"})) return {"string"};
    if (has_any(schema, std::array{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) return {"number"};
  }
  return {"null", "boolean", "number", "string", "array", "object"};
}

const Json* resolve(const Json& root, std::string_view reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  const Json* at = &root;
  for (size_t i = 1; i < reference.size();) {
    if (reference[i] != '/') return nullptr;
    const size_t end = std::min(reference.find('/', i + 1), reference.size());
    std::string part;
    for (size_t k = i + 1; k < end; k++) {   // ~1 is /, ~0 is ~
      if (reference[k] == '~' && k + 1 < end) part += reference[++k] == '1' ? '/' : '~';
      else part += reference[k];
    }
    i = end;
    if (at->is_object() && at->contains(part)) {
      at = &(*at)[part];
    } else if (at->is_array() && !part.empty() && part.size() < 9 && part.find_first_not_of("0123456789") == part.npos) {
      size_t index = 0;
      for (char c : part) index = index * 10 + static_cast<size_t>(c - '0');
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      return nullptr;
    }
  }
  return at;
}

Result<Json> merged(const Json& root, const Json& first, const Json& second, int depth) {
  const Json *a = target(root, first), *b = target(root, second);
  if (!a || !b || depth > kMaxDepth) return fail(ErrorKind::Unsupported, "$ref: a reference that leads nowhere, or in a circle");
  if (a->is_boolean() || b->is_boolean()) {
    if (*a == Json(false) || *b == Json(false)) return Json(false);
    return a->is_boolean() ? *b : *a;
  }
  if (!a->is_object() || !b->is_object()) return fail(ErrorKind::InvalidArgument, "a schema must be an object or a boolean");
  Json out = *a;
  // Properties that one side forbids must not come in from the other.
  for (const auto& [closed, open] : {std::pair(a, b), std::pair(b, a)}) {
    if (!open->contains("properties") || !(*open)["properties"].is_object()) continue;
    for (const auto& [name, unused] : (*open)["properties"].items())
      if (forbids_property(*closed, name)) return fail(ErrorKind::Unsupported, "additionalProperties: false next to other properties of an allOf or anyOf");
  }
  const auto is_tuple = [](const Json& s) { return s.contains("prefixItems") || (s.contains("items") && s["items"].is_array()); };
  const auto speaks_of_items = [&](const Json& s) { return s.contains("items") || is_tuple(s); };
  if ((is_tuple(*a) && speaks_of_items(*b)) || (is_tuple(*b) && speaks_of_items(*a)))
    return fail(ErrorKind::Unsupported, "prefixItems next to other items of an allOf or anyOf");
  for (const auto& [key, theirs] : b->items()) {
    if (!out.contains(key) || out[key] == theirs || is_annotation(key)) {
      out[key] = theirs;
      continue;
    }
    Json& ours = out[key];
    const bool numbers = ours.is_number() && theirs.is_number();
    if (key == "type") {
      const auto x = types_of(out), y = types_of(*b);
      Json both = Json::array();
      for (const auto& t : x)
        if (y.contains(t) || (t == "integer" && y.contains("number"))) both.push_back(t);
      for (const auto& t : y)
        if (t == "integer" && x.contains("number") && !x.contains("integer")) both.push_back(t);
      ours = std::move(both);
    } else if (key == "properties" && ours.is_object() && theirs.is_object()) {
      for (const auto& [name, schema] : theirs.items()) ours[name] = ours.contains(name) ? all_of(ours[name], schema) : schema;
    } else if (key == "required" && ours.is_array() && theirs.is_array()) {
      for (const Json& name : theirs)
        if (std::find(ours.begin(), ours.end(), name) == ours.end()) ours.push_back(name);
    } else if (key == "enum" && ours.is_array() && theirs.is_array()) {
      Json both = Json::array();
      for (const Json& v : ours)
        if (std::find(theirs.begin(), theirs.end(), v) != theirs.end()) both.push_back(v);
      ours = std::move(both);
    } else if (numbers && (key == "minimum" || key == "exclusiveMinimum" || key == "minLength" || key == "minItems" || key == "minProperties")) {
      if (theirs > ours) ours = theirs;
    } else if (numbers && (key == "maximum" || key == "exclusiveMaximum" || key == "maxLength" || key == "maxItems" || key == "maxProperties")) {
      if (theirs < ours) ours = theirs;
    } else if (key == "items" || key == "additionalProperties") {
      if (ours == Json(false) || theirs == Json(false)) ours = false;
      else ours = all_of(ours, theirs);
    } else if (key == "allOf" && ours.is_array() && theirs.is_array()) {
      ours.insert(ours.end(), theirs.begin(), theirs.end());
    } else {
      return fail_f(ErrorKind::Unsupported, "{}: two schemas that must both hold give different values", key);
    }
  }
  // What is a declared property for one side is an additional one for the other.
  for (const auto& [other, declaring] : {std::pair(a, b), std::pair(b, a)}) {
    if (!other->contains("additionalProperties") || !(*other)["additionalProperties"].is_object()) continue;
    if (!declaring->contains("properties") || !(*declaring)["properties"].is_object()) continue;
    for (const auto& [name, unused] : (*declaring)["properties"].items()) {
      const bool known = other->contains("properties") && (*other)["properties"].is_object() && (*other)["properties"].contains(name);
      if (!known) out["properties"][name] = all_of(out["properties"][name], (*other)["additionalProperties"]);
    }
  }
  return out;
}

bool exclude_each_other(const Json& root, const Json& first, const Json& second, int depth) {
  const Json *a = target(root, first), *b = target(root, second);
  if (!a || !b || depth > 4) return false;
  if (*a == Json(false) || *b == Json(false)) return true;
  if (!a->is_object() || !b->is_object()) return false;
  const auto x = types_of(*a), y = types_of(*b);
  const bool a_is_typed = a->contains("type") || a->contains("enum") || a->contains("const");
  const bool b_is_typed = b->contains("type") || b->contains("enum") || b->contains("const");
  const auto meets = [](const std::set<std::string>& p, const std::set<std::string>& q) {
    return std::any_of(p.begin(), p.end(), [&](const std::string& t) {
      return q.contains(t) || (t == "integer" && q.contains("number")) || (t == "number" && q.contains("integer"));
    });
  };
  if (a_is_typed && b_is_typed && !meets(x, y)) return true;
  Json a_holder, b_holder;
  const Json *p = values_of(*a, a_holder), *q = values_of(*b, b_holder);
  if (p && q && std::none_of(p->begin(), p->end(), [&](const Json& v) { return std::find(q->begin(), q->end(), v) != q->end(); })) return true;
  if (x != std::set<std::string>{"object"} || y != x || !a_is_typed || !b_is_typed) return false;
  for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!one->contains("required") || !(*one)["required"].is_array()) continue;
    for (const Json& name : (*one)["required"]) {
      if (!name.is_string()) continue;
      const std::string& key = name.get_ref<const std::string&>();
      if (forbids_property(*other, key)) return true;
      const auto property = [&](const Json* s) -> const Json* {
        return s->contains("properties") && (*s)["properties"].is_object() && (*s)["properties"].contains(key) ? &(*s)["properties"][key] : nullptr;
      };
      if (requires_property(*other, key) && property(one) && property(other) && exclude_each_other(root, *property(one), *property(other), depth + 1)) return true;
    }
  }
  return false;
}

}  // namespace gull::text::grammar
