#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gull::text::jinja {

Value Value::undefined(std::string why) {
  Value v;
  v.v_ = UndefinedType{std::make_shared<const std::string>(std::move(why))};
  return v;
}

std::string Value::why_undefined() const {
  const auto& why = std::get<UndefinedType>(v_).why;
  return why ? *why : "the value is undefined";
}

bool Value::truthy() const {
  switch (kind()) {
    case Kind::Undefined:
    case Kind::None: return false;
    case Kind::Bool: return as_bool();
    case Kind::Int: return as_int() != 0;
    case Kind::Float: return as_float() != 0;
    case Kind::String: return !as_text().empty();
    case Kind::Sequence: return as_sequence().type == Sequence::Type::Generator || !as_sequence().items.empty();
    case Kind::Dict: return !as_dict().items.empty();
    case Kind::Object: return true;
  }
  return false;
}

const char* Value::type_name() const {
  switch (kind()) {
    case Kind::Undefined: return "Undefined";
    case Kind::None: return "NoneType";
    case Kind::Bool: return "bool";
    case Kind::Int: return "int";
    case Kind::Float: return "float";
    case Kind::String: return as_text().markup ? "Markup" : "str";
    case Kind::Sequence:
      switch (as_sequence().type) {
        case Sequence::Type::List: return "list";
        case Sequence::Type::Tuple: return "tuple";
        case Sequence::Type::Range: return "range";
        case Sequence::Type::View: return as_sequence().label.c_str();
        case Sequence::Type::Generator: return "generator";
      }
      return "list";
    case Kind::Dict: return "dict";
    case Kind::Object: return as_object().type_name();
  }
  return "?";
}

bool Value::same_as(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::Undefined: return false;
    case Kind::None: return true;
    case Kind::Bool: return as_bool() == other.as_bool();
    case Kind::Int: return as_int() == other.as_int();
    case Kind::Float: return as_float() == other.as_float();
    case Kind::String: return as_view() == other.as_view();
    default: return v_.index() == other.v_.index() && [&] {
      if (is(Kind::Sequence)) return &as_sequence() == &other.as_sequence();
      if (is(Kind::Dict)) return &as_dict() == &other.as_dict();
      return &as_object() == &other.as_object();
    }();
  }
}

int Value::depth() const {
  if (is(Kind::Sequence)) return as_sequence().depth;
  if (is(Kind::Dict)) return as_dict().depth;
  return is(Kind::Object) ? as_object().depth() : 0;
}

bool dict_key(const Value& value, std::string& out) {
  // A tuple may hold one tuple many times, and so on inside: the bytes then grow exponentially with the depth.
  constexpr size_t max_key = size_t{64} << 20;
  if (out.size() > max_key) return false;
  auto put = [&](char tag, const void* bytes, size_t n) {
    out += tag;
    out.append(static_cast<const char*>(bytes), n);
  };
  switch (value.kind()) {
    case Kind::None: out += 'N'; return true;
    case Kind::Undefined: out += 'U'; return true;
    case Kind::Bool:
    case Kind::Int: {
      const Int i = value.as_int();
      put('i', &i, sizeof i);
      return true;
    }
    case Kind::Float: {
      const double d = value.as_float();
      if (std::floor(d) == d && std::fabs(d) < 1e30) return dict_key(Value(static_cast<Int>(d)), out);
      put('f', &d, sizeof d);
      return true;
    }
    case Kind::String: {
      const uint64_t n = value.as_text().size();   // the length keeps ("a", "b") and ("ab",) apart
      put('s', &n, sizeof n);
      out += value.as_view();
      return true;
    }
    case Kind::Sequence: {
      const Sequence& s = value.as_sequence();
      if (s.type == Sequence::Type::Range) return put('r', s.label.data(), s.label.size()), true;
      if (s.type != Sequence::Type::Tuple) return false;
      const uint64_t n = s.items.size();
      put('t', &n, sizeof n);
      for (const Value& item : s.items)
        if (!dict_key(item, out)) return false;
      return true;
    }
    case Kind::Object: {
      const Object* p = &value.as_object();
      put('o', &p, sizeof p);
      return true;
    }
    case Kind::Dict: return false;
  }
  return false;
}

const Value* Dict::find(const Value& key) const {
  std::string k;
  if (!dict_key(key, k)) return nullptr;
  auto it = index.find(k);
  return it == index.end() ? nullptr : &items[it->second].second;
}

const Value* Dict::find(std::string_view key) const {
  std::string k(1 + sizeof(uint64_t), 's');
  const uint64_t n = key.size();
  std::memcpy(k.data() + 1, &n, sizeof n);
  k += key;
  auto it = index.find(k);
  return it == index.end() ? nullptr : &items[it->second].second;
}

bool Dict::set(const Value& key, Value value) {
  std::string k;
  if (!dict_key(key, k)) return false;
  depth = std::max(depth, 1 + std::max(key.depth(), value.depth()));
  auto [it, fresh] = index.emplace(std::move(k), items.size());
  if (fresh) items.emplace_back(key, std::move(value));
  else items[it->second].second = std::move(value);
  return true;
}

}  // namespace gull::text::jinja
