// Writes GGUF files (version 3): for tests, converters and fixtures.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "gull/gguf.h"

namespace gull::gguf {

/// Collects metadata and tensors, in order, then gives the file. `set` takes the C++ types that GGUF has: 8- to 64-bit
/// integers (use uint32_t and so on, the type decides what is stored), float, double, bool, strings, and vectors of these.
class Writer {
 public:
  Writer& set(std::string key, const auto& value) {
    entry(std::move(key));
    append_number(kind(value));
    append(value);
    return *this;
  }
  /// Sets "general.alignment", here and for the tensors.
  Writer& alignment(uint32_t bytes);
  /// Adds a tensor; dims[0] is the row length. `data` is copied when the file is made: it must live until then.
  Writer& tensor(std::string name, Type type, std::vector<uint64_t> dims, std::span<const std::byte> data);

  /// The whole file. Errors: a key or name used twice, data that do not fit the dimensions and type, more than 4 dimensions.
  Result<std::vector<std::byte>> bytes() const;
  /// Writes it to a path, replacing what was there.
  Result<void> save(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    Type type;
    std::vector<uint64_t> dims;
    std::span<const std::byte> data;
  };

  static constexpr uint32_t kind(uint8_t) { return 0; }
  static constexpr uint32_t kind(int8_t) { return 1; }
  static constexpr uint32_t kind(uint16_t) { return 2; }
  static constexpr uint32_t kind(int16_t) { return 3; }
  static constexpr uint32_t kind(uint32_t) { return 4; }
  static constexpr uint32_t kind(int32_t) { return 5; }
  static constexpr uint32_t kind(float) { return 6; }
  static constexpr uint32_t kind(bool) { return 7; }
  static constexpr uint32_t kind(std::string_view) { return 8; }
  static constexpr uint32_t kind(const std::string&) { return 8; }
  static constexpr uint32_t kind(const char*) { return 8; }
  template <class T>
  static constexpr uint32_t kind(const std::vector<T>&) { return 9; }
  static constexpr uint32_t kind(uint64_t) { return 10; }
  static constexpr uint32_t kind(int64_t) { return 11; }
  static constexpr uint32_t kind(double) { return 12; }

  void entry(std::string key);
  void append_bytes(const void* bytes, size_t length);
  void append_number(auto value) {
    static_assert(std::is_arithmetic_v<decltype(value)>);
    append_bytes(&value, sizeof value);
  }
  void append(std::string_view text) {
    append_number(static_cast<uint64_t>(text.size()));
    append_bytes(text.data(), text.size());
  }
  void append(const char* text) { append(std::string_view(text)); }
  void append(const std::string& text) { append(std::string_view(text)); }
  void append(auto number) requires std::is_arithmetic_v<decltype(number)> { append_number(number); }
  template <class T>
  void append(const std::vector<T>& values) {
    append_number(kind(T{}));
    append_number(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) append(static_cast<const T&>(value));
  }

  std::vector<std::string> keys_;
  std::vector<std::byte> metadata_;   // encoded entries
  std::vector<Tensor> tensors_;
  uint32_t alignment_ = 32;
};

}  // namespace gull::gguf
