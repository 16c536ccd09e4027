// Mutated files: whatever the bytes, opening one gives a model whose tensors can all be read, or one clear line, and takes
// no memory that the file does not account for. Deterministic; GULL_FUZZ_ROUNDS sets how many rounds are run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "gguf/allocations.h"
#include "gguf/chunk_source.h"
#include "gguf/row_layout.h"
#include "gguf/test_files.h"
#include "gguf/writer.h"

using namespace gull;
using namespace gull::gguf;

namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> seeds() {
  std::vector<Bytes> out = {read_file(data_path("gguf_py.gguf"))};
  for (const char* name : {"unsupported-arch", "split-part-2-only", "tensor-data-past-eof", "tensor-unknown-type-99",
                           "alignment-3", "array-len-2e62"})
    out.push_back(read_file(data_path(std::string("malformed/") + name + ".gguf")));
  return out;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  Bytes operator()(const std::vector<Bytes>& from) {
    Bytes bytes = from[random_() % from.size()];
    for (uint32_t n = random_() % 4 + 1; n > 0 && !bytes.empty(); --n) change(bytes, from);
    return bytes;
  }

 private:
  size_t at(const Bytes& bytes) { return random_() % bytes.size(); }

  void change(Bytes& bytes, const std::vector<Bytes>& from) {
    static constexpr uint64_t kNumbers[] = {0,        1,        2,   3,          4,          5,          7,    8,     9,
                                            12,       13,       31,  32,         33,         255,        256,  65535, 1u << 20,
                                            1u << 30, ~0u >> 1, ~0u, 1ull << 32, 1ull << 61, 1ull << 63, ~0ull};
    const size_t i = at(bytes);
    switch (random_() % 6) {
      case 0: bytes[i] ^= static_cast<std::byte>(1u << random_() % 8); break;
      case 1: bytes[i] = static_cast<std::byte>(random_()); break;
      case 2: {
        const uint64_t number = kNumbers[random_() % std::size(kNumbers)];
        std::memcpy(&bytes[i], &number, std::min<size_t>(random_() % 2 ? 4 : 8, bytes.size() - i));
        break;
      }
      case 3: bytes.resize(i); break;
      case 4: {
        const Bytes& other = from[random_() % from.size()];
        const size_t j = at(other), n = std::min<size_t>({random_() % 64 + 1, other.size() - j, bytes.size() - i});
        std::copy_n(other.begin() + static_cast<ptrdiff_t>(j), n, bytes.begin() + static_cast<ptrdiff_t>(i));
        break;
      }
      case 5:
        bytes.erase(bytes.begin() + static_cast<ptrdiff_t>(i),
                    bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), i + random_() % 16)));
        break;
    }
  }

  std::mt19937 random_;
};

/// Everything that a loader would do with an opened file.
void use(const File& file) {
  for (const auto& [key, value] : file.metadata()) ASSERT_EQ(file.find(key), &value);
  for (const TensorInfo& tensor : file.tensors()) {
    ASSERT_EQ(file.tensor(tensor.name), &tensor);
    Bytes raw(tensor.bytes);
    ASSERT_TRUE(file.read(tensor, 0, raw));
    std::vector<float> weights(tensor.elements());
    (void)dequantize(tensor.type, raw, weights);
    if (const auto layout = row_layout(tensor.type, tensor.dims[0])) {
      Bytes out(tensor.rows() * layout->row_bytes);
      relay_rows(*layout, raw, out);
    }
  }
}

}  // namespace

TEST(Fuzz, MutatedFiles) {
  const char* wanted = std::getenv("GULL_FUZZ_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 60000;
  const auto corpus = seeds();
  Mutator mutate(20261130);
  int opened = 0;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const Bytes bytes = mutate(corpus);
    std::shared_ptr<ByteSource> source = std::make_shared<ChunkSource>("x.gguf", bytes);
    if (round % 2) source = memory_source("x.gguf", bytes);
    allocations::reset();
    const auto file = File::open(std::move(source));
    ASSERT_LE(allocations::largest, 16 * bytes.size() + 4096);
    if (file) {
      ++opened;
      use(**file);
    } else {
      const std::string& message = file.error().message;
      ASSERT_TRUE(message.starts_with("x.gguf: ")) << message;
      ASSERT_LT(message.size(), 500u);
      ASSERT_EQ(std::count_if(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }), 0)
          << message;
      ASSERT_NE(file.error().kind, ErrorKind::Internal) << message;
    }
  }
  EXPECT_GT(opened, rounds / 50) << "too few mutants get past the header to test what is behind it";
}
