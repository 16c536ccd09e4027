// Streaming: characters split over tokens, stop strings split over tokens. The expected U+FFFD are those of Python's
// bytes.decode("utf-8", "replace").
#include "text/stream.h"

#include <gtest/gtest.h>

#include <random>

namespace {

using gull::text::StopMatcher;
using gull::text::Utf8Stream;
using Pieces = std::vector<std::string>;

Pieces pushed(const Pieces& tokens) {
  Utf8Stream stream;
  Pieces out;
  for (const auto& t : tokens) out.push_back(stream.push(t));
  out.push_back(stream.finish());
  return out;
}

TEST(Utf8Stream, AnEmojiSplitOverTokensComesOutWhole) {
  EXPECT_EQ(pushed({"a\xF0", "\x9F", "\x99", "\x82" "b"}), (Pieces{"a", "", "", "🙂b", ""}));
  EXPECT_EQ(pushed({"\xF0\x9F\x91\xA9\xE2\x80", "\x8D\xF0\x9F\x9A\x80"}), (Pieces{"👩", "\xE2\x80\x8D🚀", ""}));
  EXPECT_EQ(pushed({"gr\xC3", "\xBC\xC3", "\x9F" "e"}), (Pieces{"gr", "ü", "ße", ""}));
}

TEST(Utf8Stream, BytesThatAreNoCharacterAreReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(pushed({"a\xFF" "b"}), (Pieces{"a" + r + "b", ""}));
  EXPECT_EQ(pushed({"\x80\x80"}), (Pieces{r + r, ""}));
  EXPECT_EQ(pushed({"\xF0\x9F\x99", "x"}), (Pieces{"", r + "x", ""}));                    // one for a beginning
  EXPECT_EQ(pushed({"\xE2\x82", "\xE2\x82\xAC"}), (Pieces{"", r + "€", ""}));
  EXPECT_EQ(pushed({"\xC0\xAF"}), (Pieces{r + r, ""}));                                    // overlong
  EXPECT_EQ(pushed({"\xE0\x80\xAF"}), (Pieces{r + r + r, ""}));
  EXPECT_EQ(pushed({"\xED\xA0\x80"}), (Pieces{r + r + r, ""}));                            // a surrogate
  EXPECT_EQ(pushed({"\xF4\x90\x80\x80"}), (Pieces{r + r + r + r, ""}));                    // above U+10FFFF
  EXPECT_EQ(pushed({"\xF5", "\xC2"}), (Pieces{r, "", r}));                                 // unfinished at the end
  EXPECT_EQ(pushed({}), (Pieces{""}));
}

TEST(Utf8Stream, CutsDoNotChangeTheResult) {
  std::mt19937 random(7);
  const std::string alphabet = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\xFF\x80\xED\xA0\xF4\x90";
  for (int round = 0; round < 2000; round++) {
    std::string text;
    for (int i = 0; i < 12; i++) text += alphabet[random() % alphabet.size()];
    Utf8Stream whole, cut;
    std::string expected = whole.push(text);
    expected += whole.finish();
    std::string got;
    for (size_t i = 0; i < text.size();) {
      const size_t n = 1 + random() % 3;
      got += cut.push(std::string_view(text).substr(i, n));
      i += n;
    }
    ASSERT_EQ(got + cut.finish(), expected);
  }
}

struct Shown {
  std::string text, stop;
  bool operator==(const Shown&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Shown& s) { return out << s.text << " | " << s.stop; }

Shown run(const Pieces& stops, const Pieces& tokens) {
  StopMatcher matcher(stops);
  Shown shown;
  for (const auto& t : tokens) {
    const auto out = matcher.push(t);
    shown.text += out.text;
    if (out.stopped) return shown.stop = out.stop, shown;
  }
  shown.text += matcher.finish();
  return shown;
}

TEST(StopMatcher, AStopStringSplitOverThreeTokens) {
  StopMatcher matcher({"<end>"});
  EXPECT_EQ(matcher.push("hello <").text, "hello ");
  EXPECT_EQ(matcher.push("en").text, "");
  const auto out = matcher.push("d> more");
  EXPECT_TRUE(out.stopped);
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.stop, "<end>");
  EXPECT_TRUE(matcher.push("x").stopped);
  EXPECT_EQ(matcher.push("x").text, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, WhatOnlyLookedLikeAStopIsShown) {
  StopMatcher matcher({"abcd"});
  EXPECT_EQ(matcher.push("xab").text, "x");
  EXPECT_EQ(matcher.push("c").text, "");
  EXPECT_EQ(matcher.push("e").text, "abce");
  EXPECT_EQ(matcher.push("abc").text, "");
  EXPECT_EQ(matcher.finish(), "abc");
}

TEST(StopMatcher, OverlappingBeginnings) {
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b", "c"}), (Shown{"a", "aab"}));
  EXPECT_EQ(run({"abab!"}, {"ab", "ab", "ab", "!"}), (Shown{"ab", "abab!"}));
  EXPECT_EQ(run({"\n\nUser:"}, {"hi\n", "\n", "\nUser", ":"}), (Shown{"hi\n", "\n\nUser:"}));
}

TEST(StopMatcher, SeveralStops) {
  EXPECT_EQ(run({"###", "</s>"}, {"one <", "/s", ">##"}), (Shown{"one ", "</s>"}));
  EXPECT_EQ(run({"abcde", "bcd"}, {"xabcdef"}), (Shown{"xa", "bcd"}));         // complete first
  EXPECT_EQ(run({"abcde", "bcd"}, {"xa", "bc", "def"}), (Shown{"xa", "bcd"}));
  EXPECT_EQ(run({"cd", "abcd"}, {"xabcd"}), (Shown{"x", "abcd"}));             // together: the longest
  EXPECT_EQ(run({"ab", "abc"}, {"abc"}), (Shown{"", "ab"}));
  EXPECT_EQ(run({""}, {"a", "b"}), (Shown{"ab", ""}));                         // an empty stop is none
  EXPECT_EQ(run({}, {"a", "b"}), (Shown{"ab", ""}));
  EXPECT_EQ(run({"é", "🙂"}, {"caf", "è ", "🙂"}), (Shown{"cafè ", "🙂"}));
}

TEST(StopMatcher, CutsDoNotChangeTheResult) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; round++) {
    const auto word = [&](size_t n) {
      std::string s;
      for (size_t i = 0; i < n; i++) s += "ab"[random() % 2];
      return s;
    };
    const Pieces stops = {word(2 + random() % 4), word(2 + random() % 4), word(1 + random() % 6)};
    const std::string text = word(12);
    Pieces bytes, cuts;
    for (char c : text) bytes.emplace_back(1, c);
    for (size_t i = 0; i < text.size();) {
      const size_t n = 1 + random() % 4;
      cuts.push_back(text.substr(i, n));
      i += n;
    }
    ASSERT_EQ(run(stops, {text}), run(stops, bytes)) << text;
    ASSERT_EQ(run(stops, cuts), run(stops, bytes)) << text;
  }
}

}  // namespace
