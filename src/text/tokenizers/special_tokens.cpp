#include "text/tokenizers/special_tokens.h"

#include <algorithm>

namespace gull::text {

SpecialTokens::SpecialTokens(const Vocabulary& v) : v_(v) {
  std::vector<std::pair<std::string_view, int32_t>> special;
  for (int32_t token = 0; token < v.size(); ++token) {
    if (v.has(token, kControl | kUserDefined | kUnknown)) special.emplace_back(v.text(token), token);
  }
  trie_ = Trie(std::move(special));
  fallback_.assign(trie_.size(), Trie::kRoot);
  ending_.assign(trie_.size(), Trie::kRoot);
  for (uint32_t node = 0; node < trie_.size(); ++node) {  // level by level: shorter suffixes are done
    ending_[node] = trie_.value(node) >= 0 ? node : ending_[fallback_[node]];
    trie_.for_each_edge(node, [&](uint8_t byte, uint32_t child) {
      if (node != Trie::kRoot) fallback_[child] = step(fallback_[node], byte);
    });
  }
}

uint32_t SpecialTokens::step(uint32_t node, uint8_t byte) const {
  for (;; node = fallback_[node]) {
    uint32_t next = trie_.step(node, byte);
    if (next != Trie::kRoot || node == Trie::kRoot) return next;
  }
}

std::vector<int32_t> SpecialTokens::occurring(std::string_view text) const {
  std::vector<int32_t> found;
  if (trie_.size() == 1) return found;
  std::vector<bool> seen(trie_.size());
  uint32_t node = Trie::kRoot;
  for (char c : text) {
    node = step(node, static_cast<uint8_t>(c));
    // A token that was seen before was followed by its suffixes then.
    for (uint32_t end = ending_[node]; end != Trie::kRoot && !seen[end]; end = ending_[fallback_[end]]) {
      seen[end] = true;
      found.push_back(trie_.value(end));
    }
  }
  std::sort(found.begin(), found.end(), [this](int32_t a, int32_t b) {
    size_t la = v_.text(a).size(), lb = v_.text(b).size();
    return la != lb ? la > lb : a < b;
  });
  return found;
}

}  // namespace gull::text
