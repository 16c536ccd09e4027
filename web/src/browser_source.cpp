#include "browser_source.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

extern "C" {
// Fills `out` from byte `offset` of a source. 0, or 1 + an ErrorKind, and then `message` holds a line of text.
__attribute__((import_module("env"), import_name("gull_read")))
int32_t gull_read(int32_t source, double offset, std::byte* out, uint32_t length, char* message, uint32_t message_size);
}

namespace gull::web {
namespace {

constexpr uint64_t kWindow = 256u << 10;   // one request brings this much of a header
constexpr uint64_t kSmall = 64u << 10;     // reads up to this go through the window

class BrowserSource : public ByteSource {
 public:
  BrowserSource(int32_t id, std::string name, uint64_t size) : id_(id), name_(std::move(name)), size_(size) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }

  Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    if (out.size() > size_ || offset > size_ - out.size())
      return fail_f(ErrorKind::BadFile, "{}: ends at byte {}, {} bytes at {} were wanted: the file is cut short", name_, size_, out.size(), offset);
    if (out.empty()) return {};
    if (out.size() > kSmall) return fetch(offset, out);
    if (offset < window_start_ || offset + out.size() > window_start_ + window_.size()) {
      window_.resize(std::min(kWindow, size_ - offset));
      window_start_ = offset;
      if (auto ok = fetch(offset, window_); !ok) {
        window_.clear();
        return ok;
      }
    }
    std::memcpy(out.data(), window_.data() + (offset - window_start_), out.size());
    return {};
  }

 private:
  Result<void> fetch(uint64_t offset, std::span<std::byte> out) const {
    char message[600] = "";
    const int32_t status = gull_read(id_, static_cast<double>(offset), out.data(), static_cast<uint32_t>(out.size()), message, sizeof message);
    if (status == 0) return {};
    return fail(static_cast<ErrorKind>(status - 1), message);
  }

  int32_t id_;
  std::string name_;
  uint64_t size_;
  std::vector<std::byte> window_;
  uint64_t window_start_ = 0;
};

}  // namespace

std::shared_ptr<ByteSource> browser_source(int32_t id, std::string name, uint64_t size) {
  return std::make_shared<BrowserSource>(id, std::move(name), size);
}

}  // namespace gull::web
