// ByteSource over bytes in memory.
#include <cstring>

#include "base/log.h"
#include "gguf/sources.h"

namespace gull {
namespace {

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<std::byte> owned, std::span<const std::byte> bytes)
      : name_(std::move(name)), owned_(std::move(owned)), bytes_(owned_.empty() ? bytes : std::span<const std::byte>(owned_)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  bool local() const override { return true; }

  Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    if (auto inside = gguf::check_range(*this, offset, out.size()); !inside) return inside;
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

  std::span<const std::byte> view(uint64_t offset, uint64_t length) override {
    if (!gguf::check_range(*this, offset, length)) return {};
    return bytes_.subspan(offset, length);
  }

 private:
  std::string name_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

}  // namespace

std::shared_ptr<ByteSource> memory_source(std::string name, std::vector<std::byte> bytes) {
  return std::make_shared<MemorySource>(std::move(name), std::move(bytes), std::span<const std::byte>{});
}

namespace gguf {

std::shared_ptr<ByteSource> borrowed_source(std::string name, std::span<const std::byte> bytes) {
  return std::make_shared<MemorySource>(std::move(name), std::vector<std::byte>{}, bytes);
}

Result<void> check_range(const ByteSource& source, uint64_t offset, uint64_t length) {
  if (offset <= source.size() && length <= source.size() - offset) return {};
  return fail_f(ErrorKind::Io, "{}: cannot read {} bytes at byte {}: it ends at byte {}", source.name(), length, offset,
                source.size());
}

}  // namespace gguf
}  // namespace gull
