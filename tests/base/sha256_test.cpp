// SHA-256 against the examples of FIPS 180-4 / NIST CAVP, and against Python's hashlib over every length around a block's.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/sha256.h"

using namespace gull;

namespace {
std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
}  // namespace

TEST(Sha256, NistExamples) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(bytes("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::vector<std::byte>(1000000, std::byte{'a'})), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // CAVP SHA256ShortMsg, Len = 8 and 32.
  EXPECT_EQ(sha256_hex(bytes("\xd3")), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(sha256_hex(bytes("\x74\xba\x25\x21")), "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
}

// python3: hashlib.sha256(b"".join(hashlib.sha256(bytes((7 * i + n) % 256 for i in range(n))).hexdigest().encode() for n in range(301)))
TEST(Sha256, EveryLength) {
  Sha256 all;
  for (size_t n = 0; n <= 300; ++n) {
    std::vector<std::byte> message(n);
    for (size_t i = 0; i < n; ++i) message[i] = static_cast<std::byte>(7 * i + n);
    all.update(bytes(sha256_hex(message)));
  }
  EXPECT_EQ(all.hex(), "94bc81110d562891b0adac6bac4837f28ae9118c192446b6ac4414fdf4c6e629");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSame) {
  std::vector<std::byte> message(4096);
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i * i >> 3);
  const std::string whole = sha256_hex(message);
  for (size_t piece : {1, 3, 63, 64, 65, 127, 1000}) {
    Sha256 hash;
    for (size_t at = 0; at < message.size(); at += piece) hash.update(std::span(message).subspan(at, std::min(piece, message.size() - at)));
    EXPECT_EQ(hash.hex(), whole) << piece;
  }
}
