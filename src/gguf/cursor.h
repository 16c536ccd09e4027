// A bounds-checked reader over the header of a ByteSource: in place where the source is addressable, else in growing chunks.
#pragma once

#include <string>
#include <vector>

#include "gguf/half.h"
#include "gull/gguf.h"

namespace gull::gguf {

/// Headers are a few MiB; what claims to be longer than this is refused instead of read.
inline constexpr uint64_t kMaxHeaderBytes = 256ull << 20;

/// The first failure sticks in `error()`; each method tells by its result whether it worked.
class Cursor {
 public:
  explicit Cursor(ByteSource& source);

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }

  /// The next `length` bytes, valid until the next call; nullptr when the file ends first, or cannot be read.
  const std::byte* take(uint64_t length, std::string_view what);

  template <class T>
  bool number(T& out, std::string_view what) {
    const std::byte* at = take(sizeof(T), what);
    if (at != nullptr) out = load_le<T>(at);
    return at != nullptr;
  }

  /// A string as GGUF stores it: u64 length, bytes. Longer than `limit` is an error.
  bool string(std::string& out, uint64_t limit, std::string_view what);

  /// Records "NAME: `what` (byte `at`)" and gives false.
  bool refuse(ErrorKind kind, uint64_t at, std::string_view what);
  Error& error() { return error_; }

 private:
  bool refill(uint64_t length);

  ByteSource& source_;
  uint64_t size_, position_ = 0;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> window_;   // bytes from window_start_ on
  uint64_t window_start_ = 0, chunk_ = 256 << 10;
  Error error_;
};

}  // namespace gull::gguf
