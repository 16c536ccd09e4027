#include "text/tokenizers/special_tokens.h"

#include <algorithm>

namespace gull::text {

SpecialTokens::SpecialTokens(const Vocabulary& v) : v_(v) {
  std::vector<std::pair<std::string_view, int32_t>> special;
  for (int32_t token = 0; token < v.size(); ++token) {
    if (v.has(token, kControl | kUserDefined | kUnknown)) special.emplace_back(v.text(token), token);
  }
  trie_ = Trie(std::move(special));
}

std::vector<int32_t> SpecialTokens::occurring(std::string_view text) const {
  std::vector<int32_t> found;
  if (trie_.empty()) return found;
  std::vector<bool> seen(static_cast<size_t>(v_.size()));
  for (size_t at = 0; at < text.size(); ++at) {
    trie_.match(text, at, [&](size_t, int32_t token) {
      if (seen[static_cast<size_t>(token)]) return;
      seen[static_cast<size_t>(token)] = true;
      found.push_back(token);
    });
  }
  std::sort(found.begin(), found.end(), [this](int32_t a, int32_t b) {
    size_t la = v_.text(a).size(), lb = v_.text(b).size();
    return la != lb ? la > lb : a < b;
  });
  return found;
}

}  // namespace gull::text
