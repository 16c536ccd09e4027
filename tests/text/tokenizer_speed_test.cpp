// Encoding is linear in practice: ordinary text, and the long runs that make naive patterns and merges quadratic.
// Processor time is measured, not the clock, because tests run side by side.
#include <ctime>

#include "tokenizer_strings.h"

namespace gull::text::test {
namespace {

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__)
constexpr double kSeconds = 1;
#else
constexpr double kSeconds = 20;  // unoptimised, or under a sanitizer
#endif

double seconds_to_encode(const Tokenizer& tokenizer, const std::string& text, size_t& count) {
  std::clock_t begin = std::clock();
  auto ids = tokenizer.encode(text);
  double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_TRUE(ids) << ids.error().message;
  count = ids ? ids->size() : 0;
  return seconds;
}

std::string ordinary(size_t bytes) {
  Strings strings;
  std::string out;
  for (uint64_t i = 0; out.size() < bytes; ++i) out += strings.string(500, i);
  return out;
}

/// Words of which none comes twice.
std::string random_words(size_t bytes) {
  Random random(7);
  std::string out;
  while (out.size() < bytes) {
    for (uint64_t n = 3 + random.below(12); n > 0; --n) out.push_back(static_cast<char>('a' + random.below(26)));
    out.push_back(' ');
  }
  return out;
}

std::string repeated(std::string_view part, size_t times, std::string_view end = "") {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += part;
  return out.append(end);
}

std::string random_letters(size_t count) {
  Random random(8);
  std::string out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<char>('a' + random.below(26)));
  return out;
}

class Speed : public testing::TestWithParam<std::string> {
 protected:
  static TokenizerPtr open() {
    const std::string& name = GetParam();
    bool byte_level = name.starts_with("smollm2/");
    auto tokenizer = byte_level ? make_tokenizer(smollm2(name.substr(8))) : open_tokenizer(data("tokenizer/" + name + ".gguf"));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? *tokenizer : nullptr;
  }
};

TEST_P(Speed, OneMebibyteInASecond) {
  TokenizerPtr tokenizer = open();
  ASSERT_TRUE(tokenizer);
  for (const std::string& text : {ordinary(1 << 20), random_words(1 << 20)}) {
    size_t count = 0;
    EXPECT_LT(seconds_to_encode(*tokenizer, text, count), kSeconds);
    EXPECT_GT(count, 10000u);
  }
}

TEST_P(Speed, LongRunsInASecond) {
  TokenizerPtr tokenizer = open();
  ASSERT_TRUE(tokenizer);
  constexpr size_t n = 100'000;
  for (const std::string& text :
       {repeated("a", n), random_letters(n), repeated("A", n, "b"), repeated(" ", n, "x"), repeated(" ", n), repeated("\n", n, "x"),
        repeated(" \n", n / 2, "x"), repeated("\t ", n / 2, "x"), repeated("7", n, "x"), repeated("7", n), repeated("!", n, "x"), repeated("'", n),
        repeated("你好", n / 2), repeated("é", n, "E"), repeated("e\u0301", n / 2), repeated("a b ", n / 4), repeated("\u3000", n, "x"),
        repeated("🙂", n), repeated("한", n), repeated("▁", n), repeated("<|im_", n / 5), repeated("\xFF", n), repeated("İ", n), repeated(".,", n / 2)}) {
    size_t count = 0;
    EXPECT_LT(seconds_to_encode(*tokenizer, text, count), kSeconds) << text.substr(0, 12) << "…";
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& c : read_json(data("tokenizer/cases.json"))) {
    std::string vocabulary = c["vocabulary"];
    out.push_back(vocabulary == "smollm2" ? vocabulary + "/" + c["pre"].get<std::string>() : vocabulary);
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Speed, testing::ValuesIn(names()));

}  // namespace
}  // namespace gull::text::test
