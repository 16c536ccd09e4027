#include "text/tokenizers/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/log.h"
#include "text/tokenizers/utf8.h"

namespace gull::text {
namespace {

constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKiB = 256 * 1024;
constexpr size_t kJitStackStart = 32 * 1024, kJitStackLimit = 16 * 1024 * 1024;

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const { Free(p); }
};
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

/// PCRE2's own \s has U+180E, which is no White_Space since Unicode 6.3; so the class is written out.
std::string expand_spaces(std::string_view pattern) {
  constexpr std::string_view members = R"(\p{Z}\x09-\x0d\x85)";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      char escaped = pattern[++i];
      if (escaped == 's' && in_class) out.append(members);
      else if (escaped == 's' || escaped == 'S') out.append(escaped == 's' ? "[" : "[^").append(members).append("]");
      else out.append({c, escaped});
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out.push_back(c);
  }
  return out;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// What one call of split() needs of PCRE2.
struct Matcher {
  MatchContext context{pcre2_match_context_create(nullptr)};
  JitStack stack{pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr)};
  MatchData data{pcre2_match_data_create(1, nullptr)};

  Matcher() {
    if (!context) return;
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());  // none where PCRE2 has no JIT
  }

  /// The next match at or after `from`: its range, or none (begin == end). Errors are PCRE2's.
  Result<Piece> next(const pcre2_code* code, std::string_view text, uint32_t from) {
    auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int rc = pcre2_match(code, subject, text.size(), from, options, data.get(), context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT, data.get(), context.get());
    }
    if (rc == PCRE2_ERROR_NOMATCH) return Piece{};
    if (rc < 0) {
      return fail_f(ErrorKind::InvalidArgument, "cannot split the text into words at byte {}: {}; give it in shorter parts", from, pcre2_message(rc));
    }
    size_t* range = pcre2_get_ovector_pointer(data.get());
    return Piece{static_cast<uint32_t>(range[0]), static_cast<uint32_t>(range[1])};
  }
};

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
  Code code;
  SplitMode mode;
};

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

Result<PreTokenizer> PreTokenizer::create(std::span<const SplitStep> steps) {
  std::vector<Step> compiled;
  for (const SplitStep& step : steps) {
    std::string pattern = expand_spaces(step.pattern);
    int error = 0;
    size_t offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                            &error, &offset, nullptr));
    if (!code) return fail_f(ErrorKind::Internal, "pattern of a tokenizer: {} at {} in {}", pcre2_message(error), offset, pattern);
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT the interpreter does it
    compiled.push_back({std::move(code), step.mode});
  }
  return PreTokenizer(std::move(compiled));
}

Result<std::vector<Piece>> PreTokenizer::split(std::string_view text) const {
  std::vector<Piece> pieces, next;
  if (text.empty()) return pieces;
  pieces.push_back({0, static_cast<uint32_t>(text.size())});
  Matcher matcher;
  if (!matcher.context || !matcher.data) return fail(ErrorKind::OutOfMemory, "no memory to split a text into words");
  for (const Step& step : steps_) {
    next.clear();
    for (Piece piece : pieces) {
      std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
      Cutter cutter{next, piece.begin};
      for (uint32_t from = 0; from < part.size();) {
        auto match = matcher.next(step.code.get(), part, from);
        if (!match) return fail(match.error());
        if (match->end == 0) break;
        if (step.mode == SplitMode::Isolate) {
          cutter.cut(piece.begin + match->begin);
          cutter.cut(piece.begin + match->end);
        } else {
          cut_threes(part, piece.begin, *match, step.mode, cutter);
        }
        from = match->end;
      }
      cutter.cut(piece.end);
    }
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace gull::text
