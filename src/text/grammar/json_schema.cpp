#include "text/grammar/json_schema.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "text/grammar/schema_merge.h"
#include "text/grammar/schema_parts.h"

namespace gull::text {
namespace {

using grammar::Json;
using grammar::gbnf_literal;

constexpr int kMaxDepth = 60;
constexpr size_t kMaxBytes = size_t{8} << 20;   // of the grammar

/// Writes rules while it walks over the schema. The first error is kept, and ends the walk.
class Converter {
 public:
  explicit Converter(const Json& root) : root_(root) {}

  Result<std::string> run() {
    const std::string value = schema(root_, "#", 0);
    if (error_) return fail(*error_);
    std::string out = "root ::= " + value + "\n";
    for (const auto& [name, body] : rules_) out += name + " ::= " + body + "\n";
    return out;
  }

 private:
  std::string stop(ErrorKind kind, const std::string& path, std::string message) {
    if (!error_) error_ = Error{kind, fmt::format("JSON schema, {}: {}", path, message)};
    return "\"\"";
  }
  std::string unsupported(const std::string& path, std::string message) { return stop(ErrorKind::Unsupported, path, std::move(message)); }
  std::string invalid(const std::string& path, std::string message) { return stop(ErrorKind::InvalidArgument, path, std::move(message)); }
  /// Well-formed, but no value fits: harmless where it may be left out (see may_be_impossible).
  std::string impossible(const std::string& path, std::string message) {
    impossible_ = impossible_ || !error_;
    return invalid(path, std::move(message));
  }
  std::string part(const Result<std::string>& r, const std::string& path) {
    if (r) return *r;
    return r.error().kind == ErrorKind::InvalidArgument ? impossible(path, r.error().message) : stop(r.error().kind, path, r.error().message);
  }
  /// schema(), or nothing where no value fits it.
  std::optional<std::string> may_be_impossible(const Json& s, const std::string& path, int depth) {
    if (error_) return "\"\"";   // an earlier error is not this schema's
    std::string out = schema(s, path, depth);
    if (!error_ || !impossible_) return out;
    error_.reset();
    impossible_ = false;
    return std::nullopt;
  }

  /// Adds a rule (the same body gets the same one), returns its name.
  std::string rule(const std::string& body) {
    const auto [it, fresh] = by_body_.emplace(body, "");
    if (!fresh) return it->second;
    bytes_ += body.size();
    if (bytes_ > kMaxBytes) return invalid("#", "the schema is too large");
    it->second = fmt::format("r{}", rules_.size());
    rules_.emplace_back(it->second, body);
    return it->second;
  }
  /// Adds a rule of a fixed name once.
  std::string named(const char* name, const char* body) {
    if (fixed_.emplace(name, true).second) rules_.emplace_back(name, body);
    return name;
  }

  // ---- white space and values of any form
  std::string ws() { return named("ws", "(\" \" | \"\\n\" [ \\t]{0,20})?"); }
  std::string character() {
    return named("char", "[^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([0-9A-CEFa-cef] [0-9A-Fa-f]{3} | [Dd] [0-7] [0-9A-Fa-f]{2}))");
  }
  std::string any_string() { return character(), named("string", "\"\\\"\" char* \"\\\"\""); }
  std::string any_number() {
    return named("number", "\"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?");
  }
  std::string any_value() {
    ws(), any_string(), any_number();
    named("member", "string \":\" ws value");
    named("object", "\"{\" ws (member (\",\" ws member)* ws)? \"}\"");
    named("array", "\"[\" ws (value (\",\" ws value)* ws)? \"]\"");
    return named("value", "object | array | string | number | \"true\" | \"false\" | \"null\"");
  }

  // ---- schemas
  std::string schema(const Json& s, const std::string& path, int depth) {
    if (error_) return "\"\"";
    if (depth > kMaxDepth) return unsupported(path, "nested too deeply");
    if (s == Json(true)) return any_value();
    if (s == Json(false)) return impossible(path, "nothing fits the schema false");
    if (!s.is_object()) return invalid(path, "a schema must be an object or a boolean");
    if (s.contains("$ref")) return reference(s, path, depth);
    if (s.contains("allOf")) return all_of(s, path, depth);
    for (const char* combiner : {"anyOf", "oneOf"})
      if (s.contains(combiner)) return any_of(s, combiner, path, depth);
    check_keywords(s, path);
    if (s.contains("enum") || s.contains("const")) return values(s, path);
    return by_type(s, path, depth);
  }

  void check_keywords(const Json& s, const std::string& path) {
    static constexpr std::string_view known[] = {"type", "enum", "const", "properties", "required", "additionalProperties", "unevaluatedProperties",
        "minProperties", "maxProperties", "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "minLength",
        "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
    for (const auto& [key, unused] : s.items())
      if (!grammar::is_annotation(key) && std::find(std::begin(known), std::end(known), key) == std::end(known))
        return void(unsupported(path, fmt::format("the keyword '{}' is not supported", key)));
  }

  std::string reference(const Json& s, const std::string& path, int depth) {
    if (!s["$ref"].is_string()) return invalid(path, "$ref must be a string");
    const std::string name = s["$ref"];
    const Json* target = grammar::resolve(root_, name);
    if (!target) return unsupported(path, fmt::format("$ref '{}' points to nothing in this schema", name));
    Json rest = s;
    rest.erase("$ref");
    for (auto it = rest.begin(); it != rest.end();) it = grammar::is_annotation(it.key()) ? rest.erase(it) : std::next(it);
    if (!rest.empty()) {
      const auto both = grammar::merged(root_, *target, rest);
      return both ? schema(*both, path, depth + 1) : stop(both.error().kind, path, both.error().message);
    }
    if (impossible_references_.contains(name)) return impossible(path, fmt::format("nothing fits $ref '{}'", name));
    const auto [it, fresh] = references_.emplace(name, "");
    if (!fresh) return it->second;
    std::string& rule_name = it->second;   // references into a std::map stay valid
    rule_name = fmt::format("ref{}", references_.size());
    std::string body = schema(*target, name, depth + 1);
    if (error_ && impossible_) {   // rules that were already written may name it: give it a body without an end
      impossible_references_.insert(name);
      body = "\"-\" " + rule_name;
    }
    rules_.emplace_back(rule_name, body);
    return rule_name;
  }

  std::string all_of(const Json& s, const std::string& path, int depth) {
    if (!s["allOf"].is_array() || s["allOf"].empty()) return invalid(path, "allOf must be a list of schemas");
    Json all = s;
    all.erase("allOf");
    for (const Json& each : s["allOf"]) {
      auto both = grammar::merged(root_, all, each);
      if (!both) return stop(both.error().kind, path, "allOf: " + both.error().message);
      all = std::move(*both);
    }
    return schema(all, path, depth + 1);
  }

  std::string any_of(const Json& s, const char* combiner, const std::string& path, int depth) {
    const Json& branches = s[combiner];
    if (!branches.is_array() || branches.empty()) return invalid(path, fmt::format("{} must be a list of schemas", combiner));
    if (combiner == std::string_view("oneOf")) {
      for (size_t i = 0; i < branches.size(); i++)
        for (size_t k = 0; k < i; k++)
          if (!grammar::exclude_each_other(root_, branches[k], branches[i]))
            return unsupported(path, fmt::format("oneOf: the alternatives {} and {} may both fit one value; use anyOf, or tell them apart by type or by a const property", k, i));
    }
    Json base = s;
    base.erase(combiner);
    for (auto it = base.begin(); it != base.end();) it = grammar::is_annotation(it.key()) ? base.erase(it) : std::next(it);
    std::string out;
    for (size_t i = 0; i < branches.size() && !error_; i++) {
      const std::string here = fmt::format("{}/{}/{}", path, combiner, i);
      const auto both = base.empty() ? Result<Json>(branches[i]) : grammar::merged(root_, base, branches[i]);
      if (!both) return stop(both.error().kind, here, both.error().message);
      if (const auto alternative = may_be_impossible(*both, here, depth + 1)) out += (out.empty() ? "" : " | ") + *alternative;
    }
    return out.empty() ? impossible(path, fmt::format("nothing fits {}", combiner)) : rule(out);
  }

  /// enum and const: the values themselves.
  std::string values(const Json& s, const std::string& path) {
    for (const auto& [key, unused] : s.items())
      if (key != "type" && key != "enum" && key != "const" && !grammar::is_annotation(key))
        return unsupported(path, fmt::format("'{}' next to enum or const", key));
    Json one = Json::array();
    if (s.contains("const")) one.push_back(s["const"]);
    const Json& list = s.contains("enum") ? s["enum"] : one;
    if (!list.is_array()) return invalid(path, "enum must be a list");
    const auto types = grammar::types_of(s);
    std::string out;
    for (const Json& v : list) {
      const std::string type = grammar::type_of_value(v);
      if (s.contains("const") && v != s["const"]) continue;
      if (s.contains("type") && !types.contains(type) && !(type == "integer" && types.contains("number"))) continue;
      out += (out.empty() ? "" : " | ") + gbnf_literal(v.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    return out.empty() ? impossible(path, "no value of the enum fits") : rule(out);
  }

  std::string by_type(const Json& s, const std::string& path, int depth) {
    if (s.contains("type") && !s["type"].is_string() && !s["type"].is_array()) return invalid(path, "type must be a name or a list of names");
    auto types = grammar::types_of(s);
    if (types.empty()) return impossible(path, "no type fits");
    if (types.size() == 6 && !s.contains("type")) return any_value();
    if (types.contains("number")) types.erase("integer");
    std::string out;
    for (const std::string& type : types) {
      std::string one;
      if (type == "null") one = "\"null\"";
      else if (type == "boolean") one = "(\"true\" | \"false\")";
      else if (type == "integer" || type == "number") one = number(s, type == "integer", path);
      else if (type == "string") one = string(s, path);
      else if (type == "array") one = array(s, path, depth);
      else if (type == "object") one = object(s, path, depth);
      else return invalid(path, fmt::format("there is no type '{}'", type));
      out += (out.empty() ? "" : " | ") + one;
    }
    return types.size() == 1 ? out : rule(out);
  }

  // ---- numbers
  /// A bound as a whole number, rounded towards the inside where it is none and `rounds`.
  std::optional<int64_t> whole(const Json& s, const char* key, bool up, bool rounds, const std::string& path, bool& exact) {
    exact = true;
    if (!s.contains(key)) return std::nullopt;
    const Json& v = s[key];
    constexpr double limit = 9e17;
    if (!v.is_number() || v.get<double>() > limit || v.get<double>() < -limit) return unsupported(path, fmt::format("{} must be a number below 9e17", key)), std::nullopt;
    if (v.is_number_integer()) return v.get<int64_t>();
    const double d = v.get<double>(), down = static_cast<double>(static_cast<int64_t>(d) - (d < static_cast<double>(static_cast<int64_t>(d))));
    exact = d == down;
    if (!exact && !rounds) return unsupported(path, fmt::format("{} of a number must be whole", key)), std::nullopt;
    return static_cast<int64_t>(down) + (up && !exact);
  }

  std::string number(const Json& s, bool integer, const std::string& path) {
    if (s.contains("multipleOf") && !(s["multipleOf"] == Json(1) && integer)) return unsupported(path, "the keyword 'multipleOf' is not supported");
    bool exact = true;
    grammar::Bounds b;
    b.low = whole(s, "minimum", true, integer, path, exact);
    b.high = whole(s, "maximum", false, integer, path, exact);
    const auto above = whole(s, "exclusiveMinimum", true, integer, path, exact);
    if (above) {
      const int64_t low = *above + (integer && exact);
      if (!b.low || low > *b.low || (low == *b.low && !integer)) b.low = low, b.low_excluded = !integer;
    }
    const auto below = whole(s, "exclusiveMaximum", false, integer, path, exact);
    if (below) {
      const int64_t high = *below - (integer && exact);
      if (!b.high || high < *b.high || (high == *b.high && !integer)) b.high = high, b.high_excluded = !integer;
    }
    if (error_) return "\"\"";
    if (integer) return rule(part(grammar::integer_gbnf(b), path));
    return b.low || b.high ? rule(part(grammar::number_gbnf(b), path)) : any_number();
  }

  // ---- strings
  /// A count such as minLength; `fallback` where it is not given.
  uint64_t count(const Json& s, const char* key, uint64_t fallback, const std::string& path) {
    if (!s.contains(key)) return fallback;
    const Json& v = s[key];
    const bool fits = v.is_number() && v.get<double>() >= 0 && v.get<double>() <= 100000 && v.get<double>() == static_cast<double>(static_cast<int64_t>(v.get<double>()));
    if (!fits) unsupported(path, fmt::format("{} must be a whole number from 0 to 100000", key));
    return fits ? static_cast<uint64_t>(v.get<double>()) : fallback;
  }
  static constexpr uint64_t kUnlimited = UINT64_MAX;

  std::string string(const Json& s, const std::string& path) {
    const uint64_t least = count(s, "minLength", 0, path), most = count(s, "maxLength", kUnlimited, path);
    const bool counted = s.contains("minLength") || s.contains("maxLength");
    if (least > most) return impossible(path, "minLength is above maxLength");
    std::string body;
    for (const char* key : {"pattern", "format"}) {
      if (!s.contains(key)) continue;
      if (!s[key].is_string()) return invalid(path, fmt::format("{} must be a string", key));
      if (!body.empty()) return unsupported(path, "pattern and format together");
      if (counted) return unsupported(path, fmt::format("{} together with minLength or maxLength", key));
      const std::string text = s[key];
      body = part(key == std::string_view("pattern") ? grammar::pattern_gbnf(text, character()) : grammar::format_gbnf(text), path);
    }
    if (body.empty() && !counted) return any_string();
    if (body.empty()) body = character() + (most == kUnlimited ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most));
    return rule("\"\\\"\" " + body + " \"\\\"\"");
  }

  // ---- arrays
  std::string array(const Json& s, const std::string& path, int depth) {
    const uint64_t least = count(s, "minItems", 0, path);
    uint64_t most = count(s, "maxItems", kUnlimited, path);
    if (s.contains("uniqueItems") && s["uniqueItems"] != Json(false) && most > 1) return unsupported(path, "the keyword 'uniqueItems' is not supported");
    // Drafts before 2020 write a list in `items`, and `additionalItems` for the rest.
    const bool old_form = s.contains("items") && s["items"].is_array();
    const Json none = Json::array();
    const Json& first = old_form ? s["items"] : s.contains("prefixItems") ? s["prefixItems"] : none;
    if (!first.is_array()) return invalid(path, "prefixItems must be a list");
    const char* rest_key = old_form ? "additionalItems" : "items";
    const bool rest_given = s.contains(rest_key);
    if (rest_given && s[rest_key] == Json(false)) most = std::min<uint64_t>(most, first.size());
    else if (!rest_given && !first.empty()) most = std::min<uint64_t>(most, std::max<uint64_t>(least, first.size()));
    if (least > most) return impossible(path, "more items are needed than allowed");

    // An item that nothing fits ends the array before it.
    std::vector<std::string> items;
    for (uint64_t i = 0; i < std::min<uint64_t>(first.size(), most) && !error_; i++) {
      const auto item = may_be_impossible(first[i], fmt::format("{}/{}/{}", path, old_form ? "items" : "prefixItems", i), depth + 1);
      if (item) items.push_back(*item);
      else most = i;
    }
    const uint64_t fixed = items.size();
    std::string item;
    if (most > fixed) {
      const auto rest = rest_given ? may_be_impossible(s[rest_key], path + "/" + rest_key, depth + 1) : any_value();
      if (rest) item = *rest;
      else most = fixed;
    }
    if (least > most) return impossible(path, "more items are needed than can exist");
    ws();
    if (most == 0) return "\"[\" ws \"]\"";
    std::string tail;
    if (most > fixed) {
      if (fixed == 0) tail = item + " " + repeated("\",\" ws " + item, least ? least - 1 : 0, most == kUnlimited ? most : most - 1);
      else tail = repeated("\",\" ws " + item, least > fixed ? least - fixed : 0, most == kUnlimited ? most : most - fixed);
    }
    for (uint64_t i = fixed; i-- > 0;) {   // from the end: each optional item holds all that follow
      const std::string this_and_rest = items[i] + (tail.empty() ? "" : " " + tail);
      tail = i == 0 ? this_and_rest : rule("\",\" ws " + this_and_rest);
      if (i > 0 && i >= least) tail += "?";
    }
    return rule("\"[\" ws " + (least == 0 ? "(" + tail + " ws)?" : tail + " ws") + " \"]\"");
  }

  static std::string repeated(const std::string& what, uint64_t least, uint64_t most) {
    if (most == 0) return "";
    return "(" + what + ")" + (most == kUnlimited ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most));
  }

  // ---- objects
  struct Property {
    std::string member;   ///< "name": value
    bool required;
  };

  std::string object(const Json& s, const std::string& path, int depth) {
    const Json none = Json::object(), no_names = Json::array();
    const Json& properties = s.contains("properties") ? s["properties"] : none;
    const Json& required = s.contains("required") ? s["required"] : no_names;
    if (!properties.is_object() || !required.is_array()) return invalid(path, "properties must be an object, required a list");
    const Json extra = s.contains("additionalProperties") ? s["additionalProperties"] : Json(!s.contains("properties"));
    if (s.contains("unevaluatedProperties") && s["unevaluatedProperties"] != Json(false) && s["unevaluatedProperties"] != Json(true))
      return unsupported(path, "the keyword 'unevaluatedProperties' is not supported");

    std::vector<Property> list;
    std::vector<std::string> names;
    size_t needed = 0;
    const auto add = [&](const std::string& name, const Json& value, bool must) {
      names.push_back(name);
      const std::string key = Json(name).dump(-1, ' ', false, Json::error_handler_t::replace), here = path + "/properties/" + name;
      const auto written = must ? schema(value, here, depth + 1) : may_be_impossible(value, here, depth + 1);
      if (!written) return;   // optional, and nothing fits: never there
      list.push_back({rule(gbnf_literal(key + ":") + " ws " + *written), must});
      needed += must;
    };
    for (const auto& [name, value] : properties.items()) {
      add(name, value, std::find(required.begin(), required.end(), Json(name)) != required.end());
    }
    for (const Json& name : required) {
      if (!name.is_string()) return invalid(path, "required must be a list of names");
      if (properties.contains(name.get_ref<const std::string&>())) continue;
      if (std::find(names.begin(), names.end(), name.get<std::string>()) != names.end()) continue;
      if (s.contains("additionalProperties") && extra == Json(false)) return impossible(path, fmt::format("'{}' is required, but additionalProperties forbids it", name.get<std::string>()));
      add(name, s.contains("additionalProperties") ? extra : Json(true), true);
    }
    const bool open = extra != Json(false);
    if (count(s, "minProperties", 0, path) > needed) return unsupported(path, "'minProperties' above the number of required properties");
    if (count(s, "maxProperties", kUnlimited, path) < list.size() || (open && s.contains("maxProperties")))
      return unsupported(path, "'maxProperties' below the number of properties");
    ws();
    const auto value = open ? may_be_impossible(extra, path + "/additionalProperties", depth + 1) : std::nullopt;
    return members(list, value ? additional(*value, names, path) : "");
  }

  /// { members in order }: a rule for "the first one is still to come", and one for "some are already there", per place.
  std::string members(const std::vector<Property>& list, const std::string& another) {
    std::string later = another.empty() ? "" : "(\",\" ws " + another + ")*";
    std::string first = another.empty() ? "" : another + " " + later;
    bool can_be_empty = true;
    for (size_t i = list.size(); i-- > 0;) {
      const Property& p = list[i];
      if (!later.empty()) later = rule(later);
      const std::string with_this = p.member + (later.empty() ? "" : " " + later);
      if (p.required || first.empty()) first = with_this;
      else first = rule(with_this + " | " + first);
      can_be_empty = can_be_empty && !p.required;
      const std::string comma = "\",\" ws " + p.member;
      later = (p.required ? comma : "(" + comma + ")?") + (later.empty() ? "" : " " + later);
    }
    if (first.empty()) return "\"{\" ws \"}\"";
    // What may be left out as a whole may also be empty inside: `first` alone never is.
    return rule("\"{\" ws " + (can_be_empty ? "((" + first + ") ws)?" : "(" + first + ") ws") + " \"}\"");
  }

  /// A member that is none of the declared ones. Its name has no escapes, so that it cannot spell one of them differently.
  std::string additional(const std::string& value, const std::vector<std::string>& names, const std::string& path) {
    NameTree tree;
    for (const std::string& name : names) {
      if (name.size() > 400) return unsupported(path, "a property name is too long for additionalProperties");
      NameTree* at = &tree;
      for (size_t i = 0; i < name.size();) {
        size_t n = 1;
        while (i + n < name.size() && (static_cast<unsigned char>(name[i + n]) & 0xC0) == 0x80) n++;
        at = &at->next[name.substr(i, n)];
        i += n;
      }
      at->ends = true;
    }
    named("plain", "[^\"\\\\\\x00-\\x1F\\x7F]");
    return rule("\"\\\"\" " + other_names(tree) + " \"\\\"\" \":\" ws " + value);
  }

  struct NameTree {
    std::map<std::string, NameTree> next;   ///< by character
    bool ends = false;
  };

  /// All strings of plain characters but the names in the tree.
  std::string other_names(const NameTree& tree) {
    if (tree.next.empty()) return tree.ends ? "plain+" : "plain*";
    std::string others = "[^\"\\\\\\x00-\\x1F\\x7F", out;
    for (const auto& [character, below] : tree.next) {
      const unsigned char c = static_cast<unsigned char>(character[0]);
      if (c < 0x20 || c == 0x7F || c == '"' || c == '\\') continue;   // never written plainly
      others += character == "]" || character == "-" || character == "^" ? "\\" + character : character;
      out += gbnf_literal(character) + " " + other_names(below) + " | ";
    }
    out += others + "] plain*";
    return rule(tree.ends ? out : "(" + out + ")?");
  }

  const Json& root_;
  std::vector<std::pair<std::string, std::string>> rules_;
  std::unordered_map<std::string, std::string> by_body_;
  std::map<std::string, std::string> references_;
  std::set<std::string> impossible_references_;
  std::map<std::string, bool> fixed_;
  size_t bytes_ = 0;
  std::optional<Error> error_;
  bool impossible_ = false;           ///< the error only says that no value fits
};

}  // namespace

Result<std::string> json_schema_to_gbnf(std::string_view schema) {
  const Json root = Json::parse(schema, nullptr, false);
  if (root.is_discarded()) return fail(ErrorKind::InvalidArgument, "JSON schema: this is not JSON");
  return Converter(root).run();
}

}  // namespace gull::text
