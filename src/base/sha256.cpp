#include "base/sha256.h"

#include <algorithm>
#include <bit>

namespace gull {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* at) {
  return static_cast<uint32_t>(at[0]) << 24 | static_cast<uint32_t>(at[1]) << 16 | static_cast<uint32_t>(at[2]) << 8 | static_cast<uint32_t>(at[3]);
}

}  // namespace

void Sha256::block(const std::byte* bytes) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = big_endian(bytes + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[t - 7] + (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t change[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += change[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  const size_t held = length_ % 64;
  length_ += bytes.size();
  if (held != 0) {
    const size_t taken = std::min(64 - held, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    if (held + taken < 64) return;
    block(pending_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

std::string Sha256::hex() {
  // One bit, zeros, and the length in bits: the message then ends a block (5.1.1).
  const uint64_t bits = length_ * 8;
  std::array<std::byte, 72> tail = {std::byte{0x80}};
  const size_t padding = (length_ % 64 < 56 ? 56 : 120) - length_ % 64;
  for (size_t i = 0; i < 8; ++i) tail[padding + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  update(std::span(tail).first(padding + 8));

  std::string out;
  for (uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15];
  *this = Sha256();
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace gull
