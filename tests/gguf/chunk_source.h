// A source that cannot be addressed, so that everything goes through reads; counts them.
#pragma once

#include <cstring>

#include "gull/gguf.h"

class ChunkSource final : public gull::ByteSource {
 public:
  ChunkSource(std::string name, std::vector<std::byte> bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  gull::Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return gull::fail(gull::ErrorKind::Internal, "a read beyond the end");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }
  size_t reads = 0;

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
};
