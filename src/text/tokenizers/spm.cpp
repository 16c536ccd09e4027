// SentencePiece's BPE ("llama"): neighbours merge when both together are a token, the best score first.
#include <array>
#include <cmath>
#include <limits>

#include "text/tokenizers/char_pairs.h"
#include "text/tokenizers/merge.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

class Spm : public TokenModel {
 public:
  explicit Spm(const Vocabulary& v) : v_(v) {
    for (int32_t token = 0; token < v.size(); ++token) {
      if (!v.plain(token)) continue;
      std::string_view text = v.text(token);
      longest_ = std::max(longest_, text.size());
      pairs_.add_inside(text);
    }
    for (int b = 0; b < 256; ++b) {
      char byte = static_cast<char>(b);
      int32_t token = byte_token(v, static_cast<uint8_t>(b));
      byte_id_[static_cast<size_t>(b)] = token >= 0 ? token : v.find_plain({&byte, 1});
    }
  }

  Result<void> encode(std::string_view text, bool after_special, WordCache& cache, std::vector<int32_t>& out) const override {
    std::string escaped = escape_spaces(text);
    if (after_special && v_.add_space_prefix) escaped.insert(0, escaped_space);
    pairs_.for_each_part(escaped, [&](std::string_view part) {
      cache.append(part, out, [this](std::string_view w, std::vector<int32_t>& ids) { encode_part(w, ids); });
    });
    return {};
  }

  std::string decode(std::string_view text) const override { return unescape_spaces(text); }

 private:
  void encode_part(std::string_view text, std::vector<int32_t>& out) const {
    std::vector<Symbol> symbols;
    for (size_t at = 0; at < text.size();) {
      size_t length = character_length(text, at);
      symbols.push_back({.begin = static_cast<uint32_t>(at), .length = static_cast<uint32_t>(length), .id = v_.find_plain(text.substr(at, length))});
      at += length;
    }
    link(symbols);
    merge_all(symbols, [&](const Symbol& l, const Symbol& r) -> Merge {
      size_t length = size_t{l.length} + r.length;
      int32_t token = length > longest_ ? -1 : v_.find_plain(text.substr(l.begin, length));
      if (token < 0) return {};
      double cost = -static_cast<double>(v_.score(token));
      return {std::isnan(cost) ? std::numeric_limits<double>::infinity() : cost, token};
    });
    for (const Symbol& symbol : symbols) {
      if (symbol.length == 0) continue;
      if (symbol.id >= 0) out.push_back(symbol.id);
      else append_bytes(text.substr(symbol.begin, symbol.length), out);
    }
  }

  /// A character that is no token: its bytes, or one unknown token where the vocabulary lacks one of them.
  void append_bytes(std::string_view character, std::vector<int32_t>& out) const {
    size_t before = out.size();
    for (char c : character) {
      int32_t token = byte_id_[static_cast<uint8_t>(c)];
      if (token < 0) {
        out.resize(before);
        if (v_.unk >= 0) out.push_back(v_.unk);
        return;
      }
      out.push_back(token);
    }
  }

  const Vocabulary& v_;
  CharPairs pairs_;
  size_t longest_ = 0;
  std::array<int32_t, 256> byte_id_{};
};

}  // namespace

int32_t byte_token(const Vocabulary& v, uint8_t byte) {
  constexpr char digits[] = "0123456789ABCDEF";
  const char text[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
  return v.find_plain({text, sizeof text});
}

int byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  int value = 0;
  for (char c : text.substr(3, 2)) {
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

Result<std::unique_ptr<TokenModel>> make_spm(Vocabulary& v, const gguf::File&) { return std::make_unique<Spm>(v); }

}  // namespace gull::text
