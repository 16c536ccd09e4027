// A source that cannot be addressed: counts reads, can be slow, and can fail.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "gull/gguf.h"

namespace gull::test {

class CountingSource final : public ByteSource {
 public:
  explicit CountingSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    bytes_read += out.size();
    if (delay_ms) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    if (failures > 0 && failures-- > 0) return fail(ErrorKind::Io, name_ + ": the network is away");
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return fail(ErrorKind::Internal, "a read beyond the end");
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

  std::atomic<uint64_t> reads = 0, bytes_read = 0;
  std::atomic<int> delay_ms = 0, failures = 0;

 private:
  std::string name_ = "counted.gguf";
  std::vector<std::byte> bytes_;
};

}  // namespace gull::test
