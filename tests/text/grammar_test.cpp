// Grammars: what they accept, what they refuse to compile, and which tokens they allow.
#include "text/grammar/grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

namespace {

using namespace gull::text;

std::shared_ptr<const Grammar> compiled(std::string_view gbnf) {
  auto grammar = Grammar::parse(gbnf);
  EXPECT_TRUE(grammar) << grammar.error().message << "\n" << gbnf;
  return grammar ? *grammar : nullptr;
}

/// "yes": a whole text; "begun": may become one; "no".
std::string judge(std::string_view gbnf, std::string_view text) {
  const auto grammar = compiled(gbnf);
  if (!grammar) return "error";
  GrammarState state(grammar);
  if (!state.advance(text)) return "no";
  return state.is_complete() ? "yes" : "begun";
}

std::string error_of(std::string_view gbnf) {
  const auto grammar = Grammar::parse(gbnf);
  return grammar ? "none" : grammar.error().message;
}

TEST(Gbnf, LiteralsAndSequences) {
  EXPECT_EQ(judge("root ::= \"ab\" \"c\"", "abc"), "yes");
  EXPECT_EQ(judge("root ::= \"ab\" \"c\"", "ab"), "begun");
  EXPECT_EQ(judge("root ::= \"ab\" \"c\"", "abd"), "no");
  EXPECT_EQ(judge("root ::= \"ab\" \"c\"", "abcc"), "no");
  EXPECT_EQ(judge("root ::= \"\"", ""), "yes");
  EXPECT_EQ(judge(R"(root ::= "\n\t\\\"\x41\u00e9\U0001F642é")", "\n\t\\\"Aé🙂é"), "yes");
}

TEST(Gbnf, AlternativesAndGroups) {
  const char* g = "root ::= (\"a\" | \"b\" \"c\" |) \"!\"";
  EXPECT_EQ(judge(g, "a!"), "yes");
  EXPECT_EQ(judge(g, "bc!"), "yes");
  EXPECT_EQ(judge(g, "!"), "yes");
  EXPECT_EQ(judge(g, "b!"), "no");
  EXPECT_EQ(judge("root ::= \"x\"* | \"y\"", "xxx"), "yes");
  EXPECT_EQ(judge("root ::= \"x\"* | \"y\"", "xy"), "no");   // a loop must not leak into its neighbours
  EXPECT_EQ(judge("root ::= (\"x\"? | \"y\") \"z\"", "xyz"), "no");
}

TEST(Gbnf, CharacterClasses) {
  EXPECT_EQ(judge("root ::= [a-cX]+", "abXc"), "yes");
  EXPECT_EQ(judge("root ::= [^a-c\\n]", "d"), "yes");
  EXPECT_EQ(judge("root ::= [^a-c\\n]", "b"), "no");
  EXPECT_EQ(judge("root ::= [^a-c\\n]", "\n"), "no");
  EXPECT_EQ(judge("root ::= [^a-c\\n]", "🙂"), "yes");
  EXPECT_EQ(judge("root ::= [a-]+", "a-"), "yes");
  EXPECT_EQ(judge("root ::= [\\]\\[\\\\^]+", "[]\\^"), "yes");
  EXPECT_EQ(judge("root ::= [а-я]+", "привет"), "yes");
  EXPECT_EQ(judge("root ::= [\\u4e00-\\u9fff]+", "你好"), "yes");
  EXPECT_EQ(judge("root ::= [\\U00010000-\\U0010FFFF]", "🙂"), "yes");
  EXPECT_EQ(judge("root ::= .", "é"), "yes");
  EXPECT_EQ(judge("root ::= .", "\n"), "yes");
  EXPECT_EQ(judge("root ::= .", "\xED\xA0\x80"), "no");      // a surrogate is no character
  EXPECT_EQ(judge("root ::= .", "\xC0\x80"), "no");          // overlong
  EXPECT_EQ(judge("root ::= .", "\xF4\x90"), "no");
  EXPECT_EQ(judge("root ::= .", "\xF0\x9F"), "begun");
}

TEST(Gbnf, EveryCodePointOfARangeAndNoOther) {
  const auto grammar = compiled("root ::= [\\u0070-\\u0905\\uD7F0-\\uE010\\uFFF0-\\U00010805\\U000FFFF0-\\U0010FFFF]");
  const GrammarState start(grammar);
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string s;
    if (c < 0x80) s += static_cast<char>(c);
    else if (c < 0x800) s += static_cast<char>(0xC0 | c >> 6);
    else if (c < 0x10000) s += static_cast<char>(0xE0 | c >> 12);
    else s += static_cast<char>(0xF0 | c >> 18), s += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    if (c >= 0x800) s += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    if (c >= 0x80) s += static_cast<char>(0x80 | (c & 0x3F));
    const bool wanted = (c >= 0x70 && c <= 0x905) || (c >= 0xD7F0 && c <= 0xE010) || (c >= 0xFFF0 && c <= 0x10805) || c >= 0xFFFF0;
    ASSERT_EQ(start.accepts(s), wanted) << c;
  }
}

TEST(Gbnf, Repetition) {
  EXPECT_EQ(judge("root ::= \"a\"{3}", "aaa"), "yes");
  EXPECT_EQ(judge("root ::= \"a\"{3}", "aaaa"), "no");
  EXPECT_EQ(judge("root ::= \"a\"{2,}", "a"), "begun");
  EXPECT_EQ(judge("root ::= \"a\"{2,}", "aaaaaaa"), "yes");
  EXPECT_EQ(judge("root ::= \"a\"{1,3}", "aaa"), "yes");
  EXPECT_EQ(judge("root ::= \"a\"{1,3}", "aaaa"), "no");
  EXPECT_EQ(judge("root ::= \"a\"{,2} \"b\"", "b"), "yes");
  EXPECT_EQ(judge("root ::= \"a\"{,2} \"b\"", "aaab"), "no");
  EXPECT_EQ(judge("root ::= \"a\"{0,0}", ""), "yes");
  EXPECT_EQ(judge("root ::= (\"a\"* \"b\"?){2,3}", "aabaab"), "yes");
  EXPECT_EQ(judge("root ::= (\"a\"?)*", "aaa"), "yes");
  EXPECT_EQ(judge("root ::= (\"ab\" | \"a\")+ \"b\"", "abaabb"), "yes");
}

TEST(Gbnf, RulesCommentsAndLines) {
  const char* g =
      "# a comment\n"
      "root  ::= item (\",\" # inside\n"
      "   item)*\n"
      "item ::= \"x\"\n"
      "  | other-1   # alternatives may go on\n"
      "\n"
      "other-1 ::=\n"
      "   [0-9]+ |\n"
      "   \"(\" root \")\"\r\n";
  EXPECT_EQ(judge(g, "x,12,(x,(3)),x"), "yes");
  EXPECT_EQ(judge(g, "x,12,(x,(3),x"), "begun");
  EXPECT_EQ(judge(g, "x,,"), "no");
}

TEST(Gbnf, RecursionAndAmbiguity) {
  EXPECT_EQ(judge("root ::= \"(\" root \")\" | \"\"", "((()))"), "yes");
  EXPECT_EQ(judge("root ::= \"(\" root \")\" | \"\"", "((())"), "begun");
  EXPECT_EQ(judge("root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"", "aaabcb"), "yes");
  EXPECT_EQ(judge("root ::= e\ne ::= t (\"+\" t)*\nt ::= \"n\" | \"(\" e \")\"", "n+(n+n)+((n))"), "yes");
  EXPECT_EQ(judge("root ::= a b\na ::= \"x\"? \nb ::= \"x\"? \"y\"", "xxy"), "yes");
  EXPECT_EQ(judge("root ::= a a a\na ::= \"x\" | \"\"", "xx"), "yes");
  EXPECT_EQ(judge("root ::= a \"!\"\na ::= b\nb ::= c | \"\"\nc ::= \"q\" a", "qqq!"), "yes");   // calls at the end
  EXPECT_EQ(judge("root ::= x | y\nx ::= z \"1\"\ny ::= z \"2\"\nz ::= \"z\" z | \"\"", "zzz2"), "yes");
}

TEST(Gbnf, AmbiguousGrammarsStayFast) {
  GrammarState state(compiled("root ::= \"a\" root \"b\" | \"a\" root \"c\" | (\"a\" | \"aa\")* root2 \nroot2 ::= \"\" | \"d\""));
  const std::clock_t start = std::clock();
  EXPECT_TRUE(state.advance(std::string(300, 'a')));
  for (int i = 0; i < 300; i++) EXPECT_TRUE(state.advance(i % 3 ? "b" : "c"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10.0);
}

TEST(Gbnf, DeepNestingNeedsNoStack) {
  GrammarState state(compiled("root ::= \"[\" root \"]\" | \"x\""));
  EXPECT_TRUE(state.advance(std::string(200000, '[') + "x"));
  EXPECT_TRUE(state.advance(std::string(199999, ']')));
  EXPECT_FALSE(state.is_complete());
  EXPECT_TRUE(state.advance("]"));
  EXPECT_TRUE(state.is_complete());
  EXPECT_TRUE(state.is_finished());
}

TEST(Gbnf, LongTextsKeepTheCacheSmall) {
  GrammarState state(compiled("root ::= (\"(\" [a-z]{1,40} \")\" | root2)* \nroot2 ::= \"<\" root \">\""));
  std::mt19937 random(3);
  int open = 0;
  for (int i = 0; i < 100000; i++) {
    const int change = random() % 3 == 0 ? 1 : open && random() % 2 ? -1 : 0;
    std::string word(2 + random() % 40, 'q');
    word.front() = '(', word += ')';
    ASSERT_TRUE(state.advance(change > 0 ? "<" : change < 0 ? ">" : word));
    open += change;
  }
  EXPECT_EQ(state.is_complete(), open == 0);
  EXPECT_TRUE(state.advance(std::string(static_cast<size_t>(open), '>')));
  EXPECT_TRUE(state.is_complete());
}

TEST(Gbnf, ErrorsNameTheirPlace) {
  EXPECT_EQ(error_of("root ::= \"a\"\nfoo ::= bar"), "grammar, line 2: rule 'bar' is not defined");
  EXPECT_EQ(error_of("foo ::= \"a\""), "grammar: there is no rule 'root'");
  EXPECT_EQ(error_of(""), "grammar: there is no rule 'root'");
  EXPECT_EQ(error_of("root ::= \"a\"\n\nroot ::= \"b\""), "grammar, line 3: rule 'root' is defined twice");
  EXPECT_EQ(error_of("root ::= root \"a\" | \"b\""), "grammar, line 1: rule 'root' calls itself before it reads anything (left recursion); use x* or recursion at the end");
  EXPECT_EQ(error_of("root ::= \"x\" a\na ::= n b\nn ::= \"\" | \"q\"\nb ::= a \"z\" | \"y\"").rfind("grammar, line 2: rule 'a' calls itself", 0), 0u);
  EXPECT_EQ(error_of("root ::= \"a\" root").rfind("grammar: 'root' can never end", 0), 0u);
  EXPECT_EQ(error_of("root ::= \"a"), "grammar, line 1: a literal is not closed");
  EXPECT_EQ(error_of("root ::= [a"), "grammar, line 1: a character class is not closed");
  EXPECT_EQ(error_of("root ::= (\"a\""), "grammar, line 1: expected ')'");
  EXPECT_EQ(error_of("root ::= \"a\")"), "grammar, line 1: unexpected ')'");
  EXPECT_EQ(error_of("root ::= \"\\q\""), "grammar, line 1: unknown escape '\\q'");
  EXPECT_EQ(error_of("root ::= [z-a]"), "grammar, line 1: a range in a character class is the wrong way round");
  EXPECT_EQ(error_of("root ::= \"a\"{3,1}"), "grammar, line 1: {3,1} has a maximum below its minimum");
  EXPECT_EQ(error_of("root ::= \"a\"{x}"), "grammar, line 1: expected a number after '{'");
  EXPECT_EQ(error_of("root = \"a\""), "grammar, line 1: expected '::=' after 'root'");
  EXPECT_EQ(error_of("root ::= \"\\uD800\""), "grammar, line 1: U+D800 is no character");
  EXPECT_EQ(error_of("root ::= \"\xFF\""), "grammar, line 1: the grammar is not valid UTF-8");
}

TEST(Gbnf, HostileGrammarsAreRefused) {
  const auto repeat = [](std::string_view s, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; i++) out += s;
    return out;
  };
  EXPECT_NE(error_of("root ::= " + repeat("(", 100000) + "\"a\"" + repeat(")", 100000)), "none");
  EXPECT_NE(error_of("root ::= \"a\"" + repeat("?", 100000)), "none");
  EXPECT_NE(error_of("root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000}"), "none");
  EXPECT_NE(error_of("root ::= \"a\"{1000000000}"), "none");
  EXPECT_NE(error_of("root ::= (" + repeat("\"a\"? ", 5000) + ")*"), "none");
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20000; i++) chain += fmt::format("r{} ::= r{}\n", i, i + 1);
  chain += "r20000 ::= \"x\"";
  GrammarState state(compiled(chain));
  EXPECT_TRUE(state.advance("x"));
  EXPECT_TRUE(state.is_complete());
}

TEST(Gbnf, DeadEndsAreNeverEntered) {
  // "b" leads into a rule without an end, so it must not be offered.
  EXPECT_EQ(judge("root ::= \"a\" | \"b\" forever\nforever ::= \"c\" forever", "b"), "no");
  EXPECT_EQ(judge("root ::= \"a\" | \"b\" forever\nforever ::= \"c\" forever", "a"), "yes");
}

// ---- tokens
std::vector<int> allowed(const GrammarState& state, const TokenTrie& trie, size_t n) {
  const auto bits = state.allowed_tokens(trie);
  std::vector<int> out;
  for (size_t i = 0; i < n; i++)
    if (bits[i / 32] >> (i % 32) & 1) out.push_back(static_cast<int>(i));
  return out;
}

TEST(TokenTrie, AllowsTokensThatFit) {
  const std::vector<std::string> pieces = {"", "a", "ab", "abc", "b", "abx", "ab", "\xF0\x9F", "\x99\x82", "\xF0", "c🙂"};
  const TokenTrie trie(pieces);
  GrammarState state(compiled("root ::= \"ab\" \"c\"? [🙂-🙃]"));
  EXPECT_EQ(allowed(state, trie, pieces.size()), (std::vector<int>{1, 2, 3, 6}));
  ASSERT_TRUE(state.advance("ab"));
  EXPECT_EQ(allowed(state, trie, pieces.size()), (std::vector<int>{7, 9, 10}));
  ASSERT_TRUE(state.advance("\xF0\x9F"));
  EXPECT_EQ(allowed(state, trie, pieces.size()), (std::vector<int>{8}));
  ASSERT_TRUE(state.advance("\x99\x82"));
  EXPECT_EQ(allowed(state, trie, pieces.size()), std::vector<int>());
  EXPECT_TRUE(state.is_complete());
  EXPECT_TRUE(state.is_finished());
}

TEST(TokenTrie, AFailedAdvanceChangesNothing) {
  GrammarState state(compiled("root ::= \"abc\""));
  GrammarState copy = state;
  EXPECT_FALSE(state.advance("abx"));
  EXPECT_TRUE(state.advance("abc"));
  EXPECT_TRUE(copy.accepts("abc"));
  EXPECT_FALSE(copy.is_complete());
}

std::vector<std::string> random_vocabulary(std::mt19937& random, std::string_view alphabet, size_t n) {
  std::vector<std::string> pieces;
  for (size_t i = 0; i < n; i++) {
    std::string piece;
    for (size_t k = 1 + random() % 5; k > 0; k--) piece += alphabet[random() % alphabet.size()];
    pieces.push_back(piece);
  }
  return pieces;
}

TEST(TokenTrie, TheMaskIsWhatTryingEachTokenGives) {
  std::mt19937 random(5);
  const char* grammars[] = {
      "root ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= [a-c]+ \":\" v\nv ::= root | [0-9]{1,3} | \"\\\"\" [^\"]* \"\\\"\"",
      "root ::= e\ne ::= t ([+] t)*\nt ::= [0-9] | \"{\" e \"}\" | \"a\" e \"b\" | \"a\" e \"c\"",
      "root ::= (\"a\" | \"ab\" | \"abc\")* (\"b\" | \"c\"){2,3} .*",
  };
  for (const char* gbnf : grammars) {
    const auto pieces = random_vocabulary(random, "abc{}:,\"12+\xC3\xA9", 2000);
    const TokenTrie trie(pieces);
    for (int walk = 0; walk < 10; walk++) {
      GrammarState state(compiled(gbnf));
      for (int step = 0; step < 30; step++) {
        const auto mask = allowed(state, trie, pieces.size());
        std::vector<int> tried;
        for (size_t i = 0; i < pieces.size(); i++)
          if (state.accepts(pieces[i])) tried.push_back(static_cast<int>(i));
        ASSERT_EQ(mask, tried);
        if (mask.empty()) break;
        ASSERT_TRUE(state.advance(pieces[static_cast<size_t>(mask[random() % mask.size()])]));
      }
    }
  }
}

TEST(TokenTrie, ALargeVocabularyIsMaskedQuickly) {
  std::mt19937 random(9);
  std::vector<std::string> pieces = random_vocabulary(random, "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ.,:{}[]\"0123456789", 150000);
  const TokenTrie trie(pieces);
  GrammarState state(compiled("root ::= \"[\" (s (\",\" s)*)? \"]\"\ns ::= \"\\\"\" [^\"\\\\]* \"\\\"\""));
  const std::clock_t start = std::clock();
  size_t total = 0;
  for (int i = 0; i < 100; i++) {
    ASSERT_TRUE(state.advance(i == 0 ? "[\"a" : "b\",\"a"));
    total += allowed(state, trie, pieces.size()).size();
  }
  EXPECT_GT(total, 100u * 50000u);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5.0);   // one mask, then the cache
}

}  // namespace
