// What all tokenizers share: special tokens in the text, BOS and EOS, and the way back from ids to bytes.
#include "text/tokenizer.h"

#include <algorithm>

#include "base/log.h"
#include "text/tokenizers/model.h"
#include "text/tokenizers/special_tokens.h"
#include "text/tokenizers/utf8.h"
#include "text/tokenizers/vocabulary.h"

namespace gull::text {
namespace {

constexpr size_t kLongestText = size_t{256} << 20;  // bytes

/// The parts of a text that may name control tokens: ranges in order, touching ones joined.
class ControlRanges {
 public:
  explicit ControlRanges(std::span<const Span> spans) {
    size_t at = 0;
    for (const Span& span : spans) {
      size_t end = at + span.text.size();
      if (span.parse_special && end > at) {
        if (!ranges_.empty() && ranges_.back().end == at) ranges_.back().end = end;
        else ranges_.push_back({at, end});
      }
      at = end;
    }
  }
  /// Whether all of begin … end lies in one of them.
  bool operator()(size_t begin, size_t end) const {
    auto after = std::upper_bound(ranges_.begin(), ranges_.end(), begin, [](size_t b, const Range& range) { return b < range.begin; });
    return after != ranges_.begin() && std::prev(after)->end >= end;
  }

 private:
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> ranges_;
};

class VocabularyTokenizer final : public Tokenizer {
 public:
  static Result<std::shared_ptr<const Tokenizer>> create(const gguf::File& file) {
    auto vocabulary = load_vocabulary(file);
    if (!vocabulary) return fail(vocabulary.error());
    auto self = std::shared_ptr<VocabularyTokenizer>(new VocabularyTokenizer(std::move(*vocabulary)));
    auto model = make_model(self->v_, file);
    if (!model) return fail(model.error());
    self->model_ = std::move(*model);
    return self;
  }

  Result<std::vector<int32_t>> encode(std::string_view bytes, EncodeOptions options) const override {
    Span whole{bytes, options.parse_special};
    return encode_spans({&whole, 1}, options.add_special);
  }

  Result<std::vector<int32_t>> encode_spans(std::span<const Span> spans, bool add_special) const override {
    std::string joined;
    std::string_view text = spans.size() == 1 ? spans[0].text : std::string_view(joined = join(spans));
    if (text.size() > kLongestText) {
      return fail_f(ErrorKind::InvalidArgument, "a text of {} is too long to tokenize at once; the limit is {}", human_bytes(text.size()),
                    human_bytes(kLongestText));
    }
    std::vector<int32_t> ids;
    int32_t first = v_.bos, last = v_.eos;
    bool begin = v_.add_bos, end = v_.add_eos;
    if (v_.kind == TokenizerKind::WordPiece) begin = end = true, last = v_.sep;
    if (add_special && begin && first >= 0) ids.push_back(first);
    WordCache cache;
    bool after_special = true;
    for (const Fragment& fragment : special_.partition(text, ControlRanges(spans))) {
      after_special = fragment.token >= 0 || after_special;
      if (fragment.token >= 0) {
        ids.push_back(fragment.token);
        continue;
      }
      auto ok = model_->encode(text.substr(fragment.begin, fragment.end - fragment.begin), after_special, cache, ids);
      if (!ok) return fail(ok.error());
      after_special = false;
    }
    if (add_special && end && last >= 0) ids.push_back(last);
    return ids;
  }

  std::string piece(int32_t id, bool special) const override {
    if (id < 0 || id >= v_.size()) return "";
    if (v_.has(id, kControl | kUnknown)) return special || v_.has(id, kAlwaysShown) ? std::string(v_.text(id)) : "";
    if (v_.has(id, kUserDefined)) return std::string(v_.text(id));
    if (v_.has(id, kByte)) {
      int byte = byte_of_token_text(v_.text(id));
      return byte < 0 ? std::string(v_.text(id)) : std::string(1, static_cast<char>(byte));
    }
    return v_.has(id, kNormal) ? model_->decode(v_.text(id)) : "";
  }

  std::string decode(std::span<const int32_t> ids, bool special) const override {
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::string text = piece(ids[i], special);
      bool added_space = i == 0 && v_.add_space_prefix && text.starts_with(' ');
      out.append(added_space ? std::string_view(text).substr(1) : text);
    }
    return v_.kind == TokenizerKind::WordPiece ? without_loose_spaces(out) : out;
  }

  int32_t size() const override { return v_.size(); }
  int32_t bos() const override { return v_.bos; }
  int32_t eos() const override { return v_.eos; }
  int32_t pad() const override { return v_.pad; }
  bool add_bos() const override { return v_.kind == TokenizerKind::WordPiece ? v_.bos >= 0 : v_.add_bos && v_.bos >= 0; }
  bool add_eos() const override { return v_.kind == TokenizerKind::WordPiece ? v_.sep >= 0 : v_.add_eos && v_.eos >= 0; }
  bool is_control(int32_t id) const override { return id >= 0 && id < v_.size() && v_.has(id, kControl); }
  bool is_end_of_generation(int32_t id) const override {
    return std::binary_search(v_.end_of_generation.begin(), v_.end_of_generation.end(), id);
  }
  std::span<const int32_t> end_of_generation() const override { return v_.end_of_generation; }
  std::string_view token_text(int32_t id) const override { return id < 0 || id >= v_.size() ? std::string_view() : v_.text(id); }

 private:
  explicit VocabularyTokenizer(Vocabulary vocabulary) : v_(std::move(vocabulary)), special_(v_) {}

  static Result<std::unique_ptr<TokenModel>> make_model(Vocabulary& v, const gguf::File& file) {
    switch (v.kind) {
      case TokenizerKind::Bpe: return make_bpe(v, file);
      case TokenizerKind::Spm: return make_spm(v, file);
      case TokenizerKind::WordPiece: return make_wordpiece(v, file);
      case TokenizerKind::Unigram: return make_unigram(v, file);
    }
    return fail(ErrorKind::Internal, "a tokenizer of no kind");
  }

  static std::string join(std::span<const Span> spans) {
    std::string out;
    for (const Span& span : spans) out.append(span.text);
    return out;
  }

  /// WordPiece puts a space before every word, also before punctuation: takes those away that English does not have.
  static std::string without_loose_spaces(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      bool after_space = out.ends_with(' ') && out.size() > 1;
      std::string_view rest = text.substr(i);
      if (after_space && (c == '?' || c == '!' || c == '.' || c == ',')) out.pop_back();
      if (after_space && c == '\'') {
        if (rest.starts_with("' ")) {  // a lone apostrophe loses the space on both sides
          out.back() = '\'';
          ++i;
          continue;
        }
        if (rest.starts_with("'s") || rest.starts_with("'m") || rest.starts_with("'re") || rest.starts_with("'ve")) out.pop_back();
      }
      out.push_back(c);
    }
    return out;
  }

  Vocabulary v_;
  SpecialTokens special_;
  std::unique_ptr<TokenModel> model_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const gguf::File& file) { return VocabularyTokenizer::create(file); }

}  // namespace gull::text
