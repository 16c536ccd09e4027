// Byte-pair encoding by ranked merges. Byte-level models (GPT-2 and its descendants) write each byte as a printable
// character; Gemma 4 works on UTF-8 with "▁" for spaces.
#include <array>

#include "base/log.h"
#include "text/tokenizers/char_pairs.h"
#include "text/tokenizers/merge.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/pair_map.h"
#include "text/tokenizers/pre_tokenizer.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

/// The two parts of a merge: the text before and after its first space that is not its first character.
bool parse_merge(std::string_view merge, std::string_view& left, std::string_view& right) {
  size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 >= merge.size()) return false;
  left = merge.substr(0, space);
  right = merge.substr(space + 1);
  return true;
}

class Bpe : public TokenModel {
 public:
  Bpe(const Vocabulary& v, const PreType& type, PreTokenizer pre) : v_(v), type_(type), pre_(std::move(pre)) {}

  void add_merges(Vocabulary& v, const std::vector<std::string>& merges, const std::string& name) {
    merges_.reserve(merges.size());
    size_t broken = 0;
    std::string whole;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
      std::string_view left, right;
      if (!parse_merge(merges[rank], left, right)) {
        ++broken;
        continue;
      }
      whole.assign(left).append(right);
      int32_t token = v.find(whole);
      if (token >= 0 && !v.plain(token)) continue;  // ordinary text never becomes a control token
      auto a = static_cast<uint32_t>(v.strings.intern(left)), b = static_cast<uint32_t>(v.strings.intern(right));
      merges_.insert(a, b, {static_cast<int32_t>(rank), v.strings.intern(whole)});
      if (type_.escaped) pairs_.add_border(left, right);
    }
    if (broken) log(LogLevel::Warning, "{}: {} of {} merges are no pair of strings and are left out", name, broken, merges.size());
    for (int b = 0; b < 256; ++b) {
      auto byte = static_cast<uint8_t>(b);
      byte_string_[byte] = v.strings.find(byte_to_printable(byte));
      byte_id_[byte] = type_.escaped ? byte_token(v, byte) : token_of(byte_string_[byte]);
    }
  }

  Result<void> encode(std::string_view text, bool, WordCache& cache, std::vector<int32_t>& out) const override {
    std::string valid, escaped;
    text = sanitize_utf8(text, valid);
    if (type_.escaped) text = escaped = escape_spaces(text);
    auto words = pre_.split(text);
    if (!words) return fail(words.error());
    for (Piece piece : *words) {
      std::string_view word = text.substr(piece.begin, piece.end - piece.begin);
      if (type_.escaped) encode_line(word, cache, out);
      else cache.append(word, out, [this](std::string_view w, std::vector<int32_t>& ids) { encode_bytes(w, ids); });
    }
    return {};
  }

  std::string decode(std::string_view text) const override {
    if (type_.escaped) return unescape_spaces(text);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      CodePoint c = code_point(text, at);
      int byte = c.valid ? printable_to_byte(c.value) : -1;
      if (byte >= 0) out.push_back(static_cast<char>(byte));
      else out.append(text.substr(at, c.length));  // no byte of the alphabet: as it is written
      at += c.length;
    }
    return out;
  }

 private:
  struct Ranked {
    int32_t rank = 0, string = -1;
  };

  int32_t token_of(int32_t string) const {
    if (string < 0 || string >= static_cast<int32_t>(v_.string_token.size())) return -1;
    int32_t token = v_.string_token[static_cast<size_t>(string)];
    return token >= 0 && v_.plain(token) ? token : -1;
  }

  void merge(std::vector<Symbol>& symbols) const {
    link(symbols);
    merge_all(symbols, [this](const Symbol& l, const Symbol& r) -> Merge {
      if (l.id < 0 || r.id < 0) return {};
      const Ranked* found = merges_.find(static_cast<uint32_t>(l.id), static_cast<uint32_t>(r.id));
      return found ? Merge{static_cast<double>(found->rank), found->string} : Merge{};
    });
  }

  /// A word of a byte-level model.
  void encode_bytes(std::string_view word, std::vector<int32_t>& out) const {
    if (type_.ignore_merges) {
      std::string printable;
      for (char c : word) printable += byte_to_printable(static_cast<uint8_t>(c));
      int32_t token = v_.find_plain(printable);
      if (token >= 0) return out.push_back(token);
    }
    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (size_t i = 0; i < word.size(); ++i) {
      symbols.push_back({.begin = static_cast<uint32_t>(i), .length = 1, .id = byte_string_[static_cast<uint8_t>(word[i])]});
    }
    merge(symbols);
    append(symbols, word, out);
  }

  /// A line, or a run of line ends, of a model on escaped text. No merge crosses a border that no merge has, so the
  /// parts between such borders can be done (and remembered) one by one.
  void encode_line(std::string_view line, WordCache& cache, std::vector<int32_t>& out) const {
    if (line.find_first_not_of('\n') == std::string_view::npos) {
      int32_t token = v_.find_plain(line);
      if (token >= 0) return out.push_back(token);
    }
    pairs_.for_each_part(line, [&](std::string_view part) {
      cache.append(part, out, [this](std::string_view w, std::vector<int32_t>& ids) { encode_characters(w, ids); });
    });
  }

  void encode_characters(std::string_view word, std::vector<int32_t>& out) const {
    std::vector<Symbol> symbols;
    for (size_t at = 0; at < word.size();) {
      size_t length = character_length(word, at);
      symbols.push_back({.begin = static_cast<uint32_t>(at), .length = static_cast<uint32_t>(length), .id = v_.strings.find(word.substr(at, length))});
      at += length;
    }
    merge(symbols);
    append(symbols, word, out);
  }

  /// The tokens of the symbols; bytes for what is no token. Bytes without a token are lost, as in llama.cpp and in the
  /// tokenizers library: what such files name as their unknown token often ends the text.
  void append(const std::vector<Symbol>& symbols, std::string_view word, std::vector<int32_t>& out) const {
    for (const Symbol& symbol : symbols) {
      if (symbol.length == 0) continue;
      int32_t token = token_of(symbol.id);
      if (token >= 0) {
        out.push_back(token);
        continue;
      }
      for (char c : word.substr(symbol.begin, symbol.length)) {
        int32_t byte = byte_id_[static_cast<uint8_t>(c)];
        if (byte >= 0) out.push_back(byte);
      }
    }
  }

  const Vocabulary& v_;
  const PreType& type_;
  PreTokenizer pre_;
  PairMap<Ranked> merges_;  ///< (left string, right string) → rank and the string of both
  CharPairs pairs_;
  std::array<int32_t, 256> byte_string_{}, byte_id_{};
};

}  // namespace

Result<std::unique_ptr<TokenModel>> make_bpe(Vocabulary& v, const gguf::File& file) {
  const PreType* type = find_pre_type(v.pre);
  if (!type || v.pre.empty()) {
    log(LogLevel::Warning, "{}: {} (tokenizer.ggml.pre); text is split by the default pattern, which may not be the model's", file.name(),
        v.pre.empty() ? std::string("no pre-tokenizer named") : fmt::format("unknown pre-tokenizer \"{}\"", v.pre.substr(0, 60)));
    type = find_pre_type("default");
  }
  const gguf::Array* merges = file.get_array("tokenizer.ggml.merges");
  if (!merges || merges->kind != gguf::Array::Kind::String) {
    return fail_f(ErrorKind::BadFile, "{}: no merges (tokenizer.ggml.merges is missing or not an array of strings); convert the model again", file.name());
  }
  auto pre = PreTokenizer::create(type->steps);
  if (!pre) return fail(pre.error());
  auto bpe = std::make_unique<Bpe>(v, *type, std::move(*pre));
  bpe->add_merges(v, merges->strings, file.name());
  return bpe;
}

}  // namespace gull::text
