// Values of the template language: Python's None, bool, int, float, str, list, tuple, dict, and objects with behaviour.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace gull::text::jinja {

class Run;
class Value;
struct Dict;
struct Sequence;

/// Wide enough for every 64-bit number of a request, signed or not; arithmetic beyond it is an error, not a wrap.
using Int = __int128;

/// What a call passes: f(1, 2, x=3).
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Something with attributes, or callable: macros, methods, `loop`, namespaces …
class Object {
 public:
  virtual ~Object() = default;
  /// Python's name of the type, for messages.
  virtual const char* type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Run& run, Args& args);
  /// Looks up an attribute; false where there is none.
  virtual bool attribute(Run& run, std::string_view name, Value& out);
  virtual Text print(Run& run) const;
  /// How deeply lists and dicts are nested in what it holds.
  virtual int depth() const { return 0; }
  /// The attributes that `set ns.x` may change; nullptr but for namespaces.
  virtual Dict* namespace_attributes() { return nullptr; }
};

enum class Kind : uint8_t { Undefined, None, Bool, Int, Float, String, Sequence, Dict, Object };

class Value {
 public:
  Value() = default;                                   ///< undefined, for no stated reason
  Value(bool b) : v_(b) {}
  Value(Int i) : v_(i) {}
  Value(int i) : v_(Int(i)) {}
  Value(size_t i) : v_(Int(i)) {}
  Value(double d) : v_(d) {}
  Value(const char*) = delete;                         ///< would become a bool: say text("…")
  Value(std::shared_ptr<const Text> s) : v_(std::move(s)) {}
  Value(std::shared_ptr<Sequence> s) : v_(std::move(s)) {}
  Value(std::shared_ptr<Dict> d) : v_(std::move(d)) {}
  Value(std::shared_ptr<Object> o) : v_(std::move(o)) {}
  static Value none() { Value v; v.v_ = NoneType{}; return v; }
  /// Undefined, with the message of the error that using it gives.
  static Value undefined(std::string why);

  Kind kind() const { return static_cast<Kind>(v_.index()); }
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return is(Kind::Undefined); }
  bool is_none() const { return is(Kind::None); }
  bool is_string() const { return is(Kind::String); }
  /// int or bool, as Python's int(): True is 1.
  bool is_integral() const { return is(Kind::Int) || is(Kind::Bool); }
  bool is_number() const { return is_integral() || is(Kind::Float); }

  bool as_bool() const { return std::get<bool>(v_); }
  Int as_int() const { return is(Kind::Bool) ? Int(as_bool()) : std::get<Int>(v_); }
  double as_float() const { return is(Kind::Float) ? std::get<double>(v_) : static_cast<double>(as_int()); }
  const Text& as_text() const { return *std::get<std::shared_ptr<const Text>>(v_); }
  std::string_view as_view() const { return as_text().view(); }
  Sequence& as_sequence() const { return *sequence_pointer(); }
  const std::shared_ptr<Sequence>& sequence_pointer() const { return std::get<std::shared_ptr<Sequence>>(v_); }
  Dict& as_dict() const { return *std::get<std::shared_ptr<Dict>>(v_); }
  Object& as_object() const { return *std::get<std::shared_ptr<Object>>(v_); }
  const std::shared_ptr<Object>& object_pointer() const { return std::get<std::shared_ptr<Object>>(v_); }

  /// Python's truth: empty things, zero, None and undefined are false; generators and objects are true.
  bool truthy() const;
  /// Python's name of the type ("str", "NoneType").
  const char* type_name() const;
  /// What an error about an undefined value says.
  std::string why_undefined() const;
  /// The same object in memory (the `sameas` test).
  bool same_as(const Value& other) const;
  /// How deeply lists and dicts are nested in it; 0 for plain values.
  int depth() const;

 private:
  struct NoneType {};
  struct UndefinedType { std::shared_ptr<const std::string> why; };
  std::variant<UndefinedType, NoneType, bool, Int, double, std::shared_ptr<const Text>, std::shared_ptr<Sequence>,
               std::shared_ptr<Dict>, std::shared_ptr<Object>> v_;
};

/// A list, tuple, range, view of a dict, or generator. Never changed once the template can see it, but for `next`.
struct Sequence {
  enum class Type : uint8_t { List, Tuple, Range, View, Generator };
  Type type = Type::List;
  bool group = false;               ///< a tuple of `groupby`: has .grouper and .list
  int depth = 1;
  std::vector<Value> items;
  std::string label;                ///< Range: how it prints; View: "dict_items" …
  size_t next = 0;                  ///< Generator: items already consumed
};

/// A dict in insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string, size_t> index;   ///< by dict_key()
  int depth = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Adds or replaces; false if the key cannot be hashed.
  bool set(const Value& key, Value value);
};

/// Encodes a hashable value so that equal values (1, 1.0, True) give equal bytes. False for lists, dicts.
bool dict_key(const Value& value, std::string& out);

/// Strings written by the template.
inline Value text(std::string s) { return std::make_shared<const Text>(std::move(s)); }
inline Value text(Text t) { return std::make_shared<const Text>(std::move(t)); }

}  // namespace gull::text::jinja
