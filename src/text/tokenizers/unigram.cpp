// SentencePiece's Unigram ("t5"): of all ways to split a text into tokens the one with the best sum of scores.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "text/tokenizers/charsmap.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/trie.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

constexpr double kUnknownPenalty = 10;  // below the worst score, as SentencePiece has it

class Unigram : public TokenModel {
 public:
  Unigram(const Vocabulary& v, Charsmap charsmap) : v_(v), charsmap_(std::move(charsmap)) {
    std::vector<std::pair<std::string_view, int32_t>> tokens, user;
    double worst = DBL_MAX;
    for (int32_t token = 0; token < v.size(); ++token) {
      if (v.has(token, kNormal)) worst = std::min(worst, static_cast<double>(v.score(token)));
      if (!v.plain(token) || v.text(token).size() > kLongestSoughtToken) continue;
      if (v.has(token, kNormal | kUserDefined | kUnused)) tokens.emplace_back(v.text(token), token);
      if (v.has(token, kUserDefined)) user.emplace_back(v.text(token), token);
    }
    unknown_score_ = (worst == DBL_MAX || std::isnan(worst) ? 0 : worst) - kUnknownPenalty;
    tokens_ = Trie(std::move(tokens));
    user_ = Trie(std::move(user));
  }

  Result<void> encode(std::string_view text, bool, WordCache&, std::vector<int32_t>& out) const override {
    best_split(normalized(text), out);
    return {};
  }

  std::string decode(std::string_view text) const override { return unescape_spaces(text); }

 private:
  /// Characters replaced by the model's map, spaces as "▁", one in front, runs of them joined where the model says so.
  std::string normalized(std::string_view text) const {
    std::string out;
    out.reserve(text.size() + text.size() / 4 + 8);
    bool in_word = false, begun = false;
    auto add = [&](std::string_view part) {
      for (char c : part) {
        if (c == ' ') {
          in_word = false;
          if (!v_.remove_extra_whitespaces) out.append(escaped_space);
          continue;
        }
        if (!in_word && (v_.remove_extra_whitespaces || (v_.add_space_prefix && !begun))) {
          out.append(escaped_space);
          begun = true;
        }
        in_word = true;
        out.push_back(c);
      }
    };
    for (size_t at = 0; at < text.size();) {
      size_t user = 0;
      user_.match(text, at, [&](size_t length, int32_t) { user = length; });
      if (user > 0) {
        add(text.substr(at, user));
        at += user;
        continue;
      }
      Charsmap::Replacement found = charsmap_.longest(text, at);
      if (found.consumed > 0) {
        add(found.text);
        at += found.consumed;
        continue;
      }
      CodePoint c = code_point(text, at);
      add(c.valid ? text.substr(at, c.length) : std::string_view("\xEF\xBF\xBD"));
      at += c.length;
    }
    return out;
  }

  /// Viterbi: the best way to reach each byte, and the token that ends there.
  void best_split(std::string_view text, std::vector<int32_t>& out) const {
    if (text.empty()) return;
    struct Best {
      double score = -DBL_MAX;
      int32_t token = -1;  ///< −1: unknown
      uint32_t length = 0;
    };
    std::vector<Best> best(text.size() + 1);
    best[0].score = 0;
    for (size_t at = 0; at < text.size();) {
      size_t character = character_length(text, at);
      double here = best[at].score;
      bool whole_character = false;
      auto reach = [&](size_t length, int32_t token, double score) {
        Best& there = best[at + length];
        if (there.length == 0 || here + score > there.score) there = {here + score, token, static_cast<uint32_t>(length)};
      };
      tokens_.match(text, at, [&](size_t length, int32_t token) {
        whole_character |= length == character;
        reach(length, token, v_.has(token, kUserDefined) ? 0.0 : static_cast<double>(v_.score(token)));
      });
      if (!whole_character) reach(character, -1, unknown_score_);
      at += character;
    }
    size_t first = out.size();
    for (size_t at = text.size(); at > 0; at -= best[at].length) {
      int32_t token = best[at].token >= 0 ? best[at].token : v_.unk;
      bool again = token == v_.unk && out.size() > first && out.back() == v_.unk;  // a run of unknowns is one
      if (token >= 0 && !again) out.push_back(token);
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }

  const Vocabulary& v_;
  Charsmap charsmap_;
  Trie tokens_, user_;
  double unknown_score_ = 0;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_unigram(Vocabulary& v, const gguf::File& file) {
  auto charsmap = Charsmap::load(file);
  if (!charsmap) return fail(charsmap.error());
  return std::make_unique<Unigram>(v, std::move(*charsmap));
}

}  // namespace gull::text
