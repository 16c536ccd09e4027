// SHA-256 (FIPS 180-4), to check downloads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gull {

/// Incremental: `update` any number of times, then `hex` once.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  /// The digest as 64 lower-case hexadecimal digits. The object starts afresh afterwards.
  std::string hex();

 private:
  void block(const std::byte* bytes);

  std::array<uint32_t, 8> state_ = kStart;
  std::array<std::byte, 64> pending_ = {};   // the bytes after the last whole block
  uint64_t length_ = 0;                      // bytes so far
  static constexpr std::array<uint32_t, 8> kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

/// The digest of bytes that are all there.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace gull
