// Broken and hostile vocabularies: a clear error, or a tokenizer that works as far as it can; never a crash.
#include "base/log.h"
#include "tokenizer_strings.h"

namespace gull::text::test {
namespace {

using Ids = std::vector<int32_t>;

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    set_log([this](LogLevel level, std::string_view line) {
      if (level >= LogLevel::Warning) warnings.emplace_back(line);
    });
  }
  void TearDown() override { set_log(nullptr); }

  static gguf::Writer of_kind(const std::string& model, std::vector<std::string> tokens) {
    gguf::Writer w;
    w.set("general.architecture", "llama").set("tokenizer.ggml.model", model).set("tokenizer.ggml.tokens", tokens);
    return w;
  }

  static std::string error_of(const gguf::Writer& writer, ErrorKind kind) {
    auto made = make_tokenizer(writer);
    if (made) return "no error";
    EXPECT_EQ(made.error().kind, kind) << made.error().message;
    EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
    return made.error().message;
  }

  /// Encodes and decodes all sorts of text; only that it ends and gives ids of the vocabulary counts.
  static void exercise(const Tokenizer& t) {
    Strings strings;
    for (uint64_t i = 0; i < 200; ++i) {
      std::string text = strings.string(700, i);
      if (i % 4 == 0) text.resize(text.size() / 2);  // cuts characters
      if (i % 8 == 1) text += "\xF4\x90\x80\x80\xED\xA0\x80\xC0\xAF\xF8\x88";
      auto ids = t.encode(text, {i % 2 == 0, i % 3 == 0});
      ASSERT_TRUE(ids) << ids.error().message;
      for (int32_t id : *ids) ASSERT_TRUE(id >= 0 && id < t.size());
      t.decode(*ids, i % 2 == 1);
    }
    for (int32_t id : {-1, -2147483647 - 1, t.size(), 2147483647}) {
      EXPECT_EQ(t.piece(id, true), "");
      EXPECT_EQ(t.token_text(id), "");
      EXPECT_FALSE(t.is_control(id));
      EXPECT_FALSE(t.is_end_of_generation(id));
    }
    EXPECT_EQ(t.decode(Ids{-1, t.size()}), "");
  }

  std::vector<std::string> warnings;
};

TEST_F(Hostile, NoTokenizerAtAll) {
  gguf::Writer none;
  none.set("general.architecture", "llama");
  EXPECT_NE(error_of(none, ErrorKind::Unsupported).find("tokenizer.ggml.model is missing"), std::string::npos);
  for (const char* model : {"none", "no_vocab"}) {
    EXPECT_NE(error_of(gguf::Writer().set("tokenizer.ggml.model", model), ErrorKind::Unsupported).find("no tokenizer"), std::string::npos);
  }
  EXPECT_NE(error_of(of_kind("rwkv9", {"a"}), ErrorKind::Unsupported).find("\"rwkv9\""), std::string::npos);
}

TEST_F(Hostile, ArraysMissingOrOfTheWrongKind) {
  EXPECT_NE(error_of(gguf::Writer().set("tokenizer.ggml.model", "llama"), ErrorKind::BadFile).find("tokenizer.ggml.tokens"), std::string::npos);
  EXPECT_NE(error_of(of_kind("llama", {}), ErrorKind::BadFile).find("tokenizer.ggml.tokens"), std::string::npos);
  gguf::Writer numbers;
  numbers.set("tokenizer.ggml.model", "llama").set("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
  EXPECT_NE(error_of(numbers, ErrorKind::BadFile).find("array of strings"), std::string::npos);
  EXPECT_NE(error_of(of_kind("gpt2", {"a"}), ErrorKind::BadFile).find("merges"), std::string::npos);
  EXPECT_NE(error_of(of_kind("gpt2", {"a"}).set("tokenizer.ggml.merges", std::vector<float>{1}), ErrorKind::BadFile).find("merges"), std::string::npos);
  auto three = [] { return of_kind("llama", {"a", "b", "c"}); };
  EXPECT_NE(error_of(three().set("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1}), ErrorKind::BadFile).find("2 entries for 3 tokens"), std::string::npos);
  EXPECT_NE(error_of(three().set("tokenizer.ggml.scores", std::vector<float>{1}), ErrorKind::BadFile).find("1 entries for 3 tokens"), std::string::npos);
  EXPECT_NE(error_of(three().set("tokenizer.ggml.token_type", std::vector<std::string>{"x", "y", "z"}), ErrorKind::BadFile).find("token_type"), std::string::npos);
}

TEST_F(Hostile, TypesAsBytesAndScoresAsIntegersAreRead) {
  auto w = of_kind("llama", {"<unk>", "<s>", "</s>", "a", "b", "ab", "▁"});
  w.set("tokenizer.ggml.token_type", std::vector<uint8_t>{2, 3, 3, 1, 1, 1, 1, 77}).set("tokenizer.ggml.scores", std::vector<int32_t>{0, 0, 0, -2, -3, -1, -4});
  auto t = make_tokenizer(w);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(*(*t)->encode("ab"), (Ids{1, 6, 5}));
  EXPECT_TRUE((*t)->is_control(2));
  exercise(**t);
}

TEST_F(Hostile, ScoresMissing) {
  for (const char* model : {"llama", "t5"}) {
    auto t = make_tokenizer(of_kind(model, {"<pad>", "</s>", "<unk>", "a", "b", "ab", "▁"}));
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_NE(warnings.back().find("scores"), std::string::npos);
    exercise(**t);
  }
}

TEST_F(Hostile, ScoresThatAreNoNumbers) {
  for (const char* model : {"llama", "t5"}) {
    float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    auto w = of_kind(model, {"<pad>", "</s>", "<unk>", "a", "b", "ab", "▁", "the"});
    w.set("tokenizer.ggml.scores", std::vector<float>{nan, inf, -inf, nan, -inf, inf, nan, 3e38f});
    auto t = make_tokenizer(w);
    ASSERT_TRUE(t) << t.error().message;
    exercise(**t);
  }
}

TEST_F(Hostile, EmptyAndEqualTokens) {
  for (const char* model : {"llama", "t5", "bert", "gpt2", "gemma4"}) {
    auto w = of_kind(model, {"", "a", "a", "", "b", "▁a", "ab", "ab", ""});
    w.set("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, 3, 4, 1, 1, 1, 4, 2}).set("tokenizer.ggml.merges", std::vector<std::string>{"a b", "a b"});
    auto t = make_tokenizer(w);
    ASSERT_TRUE(t) << model << ": " << t.error().message;
    EXPECT_EQ((*t)->size(), 9);
    EXPECT_FALSE(warnings.empty());
    exercise(**t);
  }
}

TEST_F(Hostile, MergesThatMakeNoSense) {
  auto w = of_kind("gpt2", {"a", "b", "ab", "Ġ"});
  w.set("tokenizer.ggml.merges", std::vector<std::string>{"", " ", "  ", "a", "a ", " b", "x y", "xy z", "a b", "a b c", "ab ab", "\xFF \xFE", std::string("\0 a", 3)});
  auto t = make_tokenizer(w);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(*(*t)->encode("ab", {.add_special = false}), (Ids{2}));
  exercise(**t);
}

TEST_F(Hostile, HugeToken) {
  std::string huge(3'000'000, 'x');
  for (const char* model : {"llama", "t5", "bert", "gpt2", "gemma4"}) {
    auto w = of_kind(model, {"<unk>", huge, "x", "xx", "▁" + huge});
    w.set("tokenizer.ggml.token_type", std::vector<int32_t>{2, 4, 1, 1, 1}).set("tokenizer.ggml.merges", std::vector<std::string>{"x x", huge + " x"});
    auto t = make_tokenizer(w);
    ASSERT_TRUE(t) << model << ": " << t.error().message;
    EXPECT_TRUE((*t)->encode(std::string(20'000, 'x')));
    EXPECT_TRUE((*t)->encode(huge + "y"));
  }
}

TEST_F(Hostile, IdsOutOfRange) {
  auto w = of_kind("llama", {"a", "▁"});
  w.set("tokenizer.ggml.bos_token_id", uint32_t{5}).set("tokenizer.ggml.eos_token_id", uint32_t{4000000000u}).set("tokenizer.ggml.padding_token_id", int32_t{-1});
  w.set("tokenizer.ggml.unknown_token_id", "zero").set("tokenizer.ggml.add_bos_token", true).set("tokenizer.ggml.add_eos_token", true);
  w.set("tokenizer.ggml.eot_token_id", int64_t{-7}).set("tokenizer.ggml.fim_pad_token_id", uint64_t{1} << 40);
  auto t = make_tokenizer(w);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ((*t)->eos(), -1);
  EXPECT_EQ((*t)->pad(), -1);
  EXPECT_EQ((*t)->bos(), 1);  // the default, which is a token here
  EXPECT_EQ(*(*t)->encode("a"), (Ids{1, 1, 0}));
  EXPECT_TRUE((*t)->end_of_generation().empty());
  exercise(**t);
}

TEST_F(Hostile, BrokenCharacterMap) {
  auto with_map = [](std::vector<uint8_t> map) {
    auto w = of_kind("t5", {"<pad>", "</s>", "<unk>", "a", "▁"});
    return w.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2}).set("tokenizer.ggml.precompiled_charsmap", map);
  };
  for (const auto& map : std::vector<std::vector<uint8_t>>{{1}, {1, 2, 3}, {255, 255, 255, 255, 0}, {3, 0, 0, 0, 1, 2, 3, 0}, {8, 0, 0, 0, 1, 1, 1, 1}}) {
    EXPECT_NE(error_of(with_map(map), ErrorKind::BadFile).find("precompiled_charsmap"), std::string::npos);
  }
  Random random(3);  // arrays of chance, replacements without an end
  for (int round = 0; round < 200; ++round) {
    std::vector<uint8_t> map{0, 1, 0, 0};
    for (int i = 0; i < 256 + 20; ++i) map.push_back(static_cast<uint8_t>(random.below(round % 2 ? 256 : 4)));
    auto t = make_tokenizer(with_map(map));
    ASSERT_TRUE(t) << t.error().message;
    exercise(**t);
  }
}

TEST_F(Hostile, VocabulariesOfChance) {
  Random random(11);
  Strings strings;
  for (int round = 0; round < 60; ++round) {
    const char* model = std::array{"llama", "t5", "bert", "gpt2", "gemma4"}[static_cast<size_t>(round % 5)];
    std::vector<std::string> tokens, merges;
    std::vector<int32_t> types;
    std::vector<float> scores;
    for (int i = 0; i < 300; ++i) {
      std::string text = strings.string(800, random.below(1000));
      tokens.push_back(text.substr(random.below(text.size() + 1), random.below(5)));
      types.push_back(static_cast<int32_t>(random.below(9)) - 1);
      scores.push_back(static_cast<float>(random.below(100)) - 90);
      merges.push_back(tokens[random.below(tokens.size())] + " " + tokens[random.below(tokens.size())]);
    }
    auto w = of_kind(model, tokens);
    w.set("tokenizer.ggml.token_type", types).set("tokenizer.ggml.scores", scores).set("tokenizer.ggml.merges", merges);
    auto t = make_tokenizer(w);
    ASSERT_TRUE(t) << t.error().message;
    exercise(**t);
  }
}

}  // namespace
}  // namespace gull::text::test
