#include "gguf/cursor.h"

#include <algorithm>

#include "base/log.h"

namespace gull::gguf {
namespace {
constexpr uint64_t kMaxChunk = 4 << 20;
}

Cursor::Cursor(ByteSource& source) : source_(source), size_(source.size()), window_(source.view(0, source.size())) {}

bool Cursor::refuse(ErrorKind kind, uint64_t at, std::string_view what) {
  error_ = {kind, fmt::format("{}: {} (byte {})", source_.name(), what, at)};
  return false;
}

const std::byte* Cursor::take(uint64_t length, std::string_view what) {
  if (length > remaining()) {
    error_ = {ErrorKind::BadFile, fmt::format("{}: is truncated: {} at byte {} needs {} bytes, but the file ends at byte {}",
                                              source_.name(), what, position_, length, size_)};
    return nullptr;
  }
  if (position_ + length > kMaxHeaderBytes) {
    refuse(ErrorKind::BadFile, position_, fmt::format("{}: the header goes on beyond {}", what, human_bytes(kMaxHeaderBytes)));
    return nullptr;
  }
  if (position_ + length > window_start_ + window_.size() && !refill(length)) return nullptr;
  const std::byte* at = window_.data() + (position_ - window_start_);
  position_ += length;
  return at;
}

bool Cursor::refill(uint64_t length) {
  const uint64_t wanted = std::min(std::max(length, chunk_), remaining());
  chunk_ = std::min(chunk_ * 2, kMaxChunk);
  // What is left of the old window moves to the front; only what is new is read.
  const uint64_t kept = window_start_ + window_.size() - position_;
  std::copy(window_.end() - static_cast<ptrdiff_t>(kept), window_.end(), buffer_.begin());
  buffer_.resize(std::max<uint64_t>(wanted, kept));
  window_start_ = position_;
  window_ = {};
  if (auto read = source_.read(position_ + kept, std::span(buffer_).subspan(kept)); !read) {
    error_ = std::move(read.error());
    return false;
  }
  window_ = buffer_;
  return true;
}

bool Cursor::string(std::string& out, uint64_t limit, std::string_view what) {
  const uint64_t at = position_;
  uint64_t length = 0;
  if (!number(length, what)) return false;
  if (length > remaining())
    return refuse(ErrorKind::BadFile, at,
                  fmt::format("{} claims {} bytes, but only {} are left in the file", what, length, remaining()));
  if (length > limit)
    return refuse(ErrorKind::BadFile, at, fmt::format("{} claims {} bytes; at most {} make sense", what, length, limit));
  const std::byte* bytes = take(length, what);
  if (bytes == nullptr) return false;
  out.assign(reinterpret_cast<const char*>(bytes), length);
  return true;
}

}  // namespace gull::gguf
