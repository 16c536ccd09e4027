// Finds special tokens that are written out in a text, and cuts the text around them.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizers/trie.h"
#include "text/tokenizers/vocabulary.h"

namespace gull::text {

/// A special token (token ≥ 0), or the range of bytes of ordinary text between two of them.
struct Fragment {
  int32_t token = -1;
  size_t begin = 0, end = 0;
};

class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& v);

  /// The fragments of `text` in order. User-defined tokens are found everywhere, control and unknown tokens only
  /// where `may_be_control(begin, end)` says so. The longest token is looked for first, in the whole text; then the
  /// next, in what is left: as llama.cpp does.
  template <class Allowed>
  std::vector<Fragment> partition(std::string_view text, Allowed&& may_be_control) const {
    std::vector<Fragment> fragments;
    if (!text.empty()) fragments.push_back({-1, 0, text.size()});
    for (int32_t token : occurring(text)) {
      bool anywhere = v_.plain(token);
      cut_at(text, token, fragments, [&](size_t begin, size_t end) { return anywhere || may_be_control(begin, end); });
    }
    return fragments;
  }

 private:
  uint32_t step(uint32_t node, uint8_t byte) const;
  /// The special tokens that the text has somewhere, the longest first.
  std::vector<int32_t> occurring(std::string_view text) const;

  template <class Allowed>
  void cut_at(std::string_view text, int32_t token, std::vector<Fragment>& fragments, Allowed&& allowed) const {
    std::string_view wanted = v_.text(token);
    std::vector<Fragment> out;
    for (const Fragment& fragment : fragments) {
      size_t begin = fragment.begin, from = begin;
      while (fragment.token < 0) {
        size_t hit = text.substr(0, fragment.end).find(wanted, from);
        if (hit == std::string_view::npos) break;
        size_t after = hit + wanted.size();
        if (!allowed(hit, after)) {
          from = hit + 1;
          continue;
        }
        size_t end = hit;
        if (v_.has(token, kStripLeft)) while (end > begin && is_blank(text[end - 1])) --end;
        if (v_.has(token, kStripRight)) while (after < fragment.end && is_blank(text[after])) ++after;
        if (end > begin) out.push_back({-1, begin, end});
        out.push_back({token, hit, hit + wanted.size()});
        begin = from = after;
      }
      if (fragment.token >= 0 || begin < fragment.end) out.push_back({fragment.token, begin, fragment.end});
    }
    fragments.swap(out);
  }

  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  const Vocabulary& v_;
  // Aho and Corasick's automaton: one pass finds all tokens, however long.
  Trie trie_;
  std::vector<uint32_t> fallback_;  ///< node → that of its longest proper suffix in the trie
  std::vector<uint32_t> ending_;    ///< node → itself or the first on its way of fallbacks that ends a token, else the root
};

}  // namespace gull::text
