#include "text/tokenizers/pre_tokenizer.h"

#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

/// Appends pieces from one boundary to the next.
struct Cutter {
  std::vector<Piece>& out;
  uint32_t at;
  void cut(uint32_t boundary) {
    if (boundary > at) out.push_back({at, boundary});
    at = boundary;
  }
};

void cut_threes(std::string_view text, uint32_t base, Piece match, SplitMode mode, Cutter& cutter) {
  std::vector<uint32_t> starts;  // of characters
  for (uint32_t i = match.begin; i < match.end; i += static_cast<uint32_t>(character_length(text, i))) starts.push_back(base + i);
  bool isolate = mode == SplitMode::Threes;
  for (size_t i = 0; i < starts.size(); ++i) {
    if ((starts.size() - i) % 3 == 0 || (i == 0 && isolate)) cutter.cut(starts[i]);
  }
  if (isolate) cutter.cut(base + match.end);
}

}  // namespace

struct PreTokenizer::Step {
  Pattern pattern;
  SplitMode mode;
};

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

Result<PreTokenizer> PreTokenizer::create(std::span<const SplitStep> steps) {
  std::vector<Step> compiled;
  for (const SplitStep& step : steps) {
    auto pattern = Pattern::compile(step.pattern);
    if (!pattern) return fail(pattern.error());
    compiled.push_back({std::move(*pattern), step.mode});
  }
  return PreTokenizer(std::move(compiled));
}

Result<std::vector<Piece>> PreTokenizer::split(std::string_view text) const {
  std::vector<Piece> pieces, next, matches;
  if (text.empty()) return pieces;
  pieces.push_back({0, static_cast<uint32_t>(text.size())});
  Matcher matcher;
  for (const Step& step : steps_) {
    next.clear();
    for (Piece piece : pieces) {
      std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      if (auto ok = matcher.find(step.pattern, part, matches); !ok) return fail(ok.error());
      Cutter cutter{next, piece.begin};
      for (Piece match : matches) {
        if (step.mode == SplitMode::Isolate) {
          cutter.cut(piece.begin + match.begin);
          cutter.cut(piece.begin + match.end);
        } else {
          cut_threes(part, piece.begin, match, step.mode, cutter);
        }
      }
      cutter.cut(piece.end);
    }
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace gull::text
