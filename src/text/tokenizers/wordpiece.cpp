// BERT's WordPiece: words are cleaned, split at punctuation, and taken apart by the longest token that fits, from
// left to right. GGUF spells a piece that begins a word with "▁" before it, and others without BERT's "##".
// The cleaning is that of the original BERT tokenizer (BasicTokenizer), with utf8proc's Unicode tables.
#include <utf8proc.h>

#include <string>

#include "text/tokenizers/model.h"
#include "text/tokenizers/trie.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

bool is_space(uint32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return true;
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/// Characters that the cleaning drops: NUL, U+FFFD, controls, formats, surrogates, private and unassigned ones.
bool is_dropped(uint32_t c) {
  if (c == 0 || c == 0xFFFD) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN: return true;
    default: return false;
  }
}

bool is_punctuation(uint32_t c) {
  if (c < 128) return c > 32 && c < 127 && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const Vocabulary& v) : v_(v) {
    std::vector<std::pair<std::string_view, int32_t>> tokens;
    for (int32_t token = 0; token < v.size(); ++token) {
      if (v.plain(token) && v.text(token).size() <= kLongestSoughtToken) tokens.emplace_back(v.text(token), token);
    }
    tokens_ = Trie(std::move(tokens));
  }

  Result<void> encode(std::string_view text, bool, WordCache& cache, std::vector<int32_t>& out) const override {
    std::string word;
    auto flush = [&] {
      if (word.empty()) return;
      cache.append(word, out, [this](std::string_view w, std::vector<int32_t>& ids) { encode_word(w, ids); });
      word.clear();
    };
    for (size_t at = 0; at < text.size();) {
      CodePoint c = code_point(text, at);
      at += c.length;
      if (is_space(c.value)) {
        flush();
        continue;
      }
      if (is_dropped(c.value)) continue;
      bool alone = is_ideograph(c.value);
      if (alone) flush();
      add_normalized(c.value, word, flush);
      if (alone) flush();
    }
    flush();
    return {};
  }

  std::string decode(std::string_view text) const override { return unescape_spaces(text); }

 private:
  /// Appends a character in lower case and without accents where the model wants that; punctuation stands alone.
  template <class Flush>
  void add_normalized(uint32_t c, std::string& word, Flush&& flush) const {
    utf8proc_int32_t parts[32] = {static_cast<utf8proc_int32_t>(c)};
    utf8proc_ssize_t count = 1;
    if (v_.strip_accents && c >= 128) {
      int boundary = 0;
      count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, UTF8PROC_DECOMPOSE, &boundary);
      if (count < 1 || count > 32) return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      utf8proc_int32_t part = parts[i];
      if (v_.strip_accents && utf8proc_category(part) == UTF8PROC_CATEGORY_MN) continue;
      if (v_.lowercase) part = utf8proc_tolower(part);
      bool alone = is_punctuation(static_cast<uint32_t>(part));
      if (alone) flush();
      append_utf8(word, static_cast<uint32_t>(part));
      if (alone) flush();
    }
  }

  void encode_word(std::string_view word, std::vector<int32_t>& out) const {
    std::string text = std::string(escaped_space).append(word);
    size_t before = out.size();
    for (size_t at = 0; at < text.size();) {
      int32_t token = -1;
      size_t longest = 0;
      tokens_.match(text, at, [&](size_t length, int32_t found) { longest = length, token = found; });
      if (token < 0) {  // one unknown part makes the whole word unknown
        out.resize(before);
        if (v_.unk >= 0) out.push_back(v_.unk);
        return;
      }
      out.push_back(token);
      at += longest;
    }
  }

  const Vocabulary& v_;
  Trie tokens_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_wordpiece(Vocabulary& v, const gguf::File&) { return std::make_unique<WordPiece>(v); }

}  // namespace gull::text
