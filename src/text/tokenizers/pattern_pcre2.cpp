// Patterns by PCRE2. Browsers have web/src/pattern.cpp instead.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/log.h"
#include "text/tokenizers/pattern.h"

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

}  // namespace

struct Pattern::Impl {
  Code code;
};

Pattern::Pattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<Pattern> Pattern::compile(std::string_view text) {
  const std::string pattern = expand_spaces(text);
  int error = 0;
  size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                          &error, &offset, nullptr));
  if (!code) return fail_f(ErrorKind::Internal, "pattern of a tokenizer: {} at {} in {}", pcre2_message(error), offset, pattern);
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT the interpreter does it
  return Pattern(std::make_unique<Impl>(std::move(code)));
}

struct Matcher::Impl {
  MatchContext context{pcre2_match_context_create(nullptr)};
  JitStack stack{pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr)};
  MatchData data{pcre2_match_data_create(1, nullptr)};
};

Matcher::Matcher() : impl_(std::make_unique<Impl>()) {
  pcre2_match_context* context = impl_->context.get();
  if (!context) return;
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_set_heap_limit(context, kHeapLimitKiB);
  if (impl_->stack) pcre2_jit_stack_assign(context, nullptr, impl_->stack.get());  // none where PCRE2 has no JIT
}
Matcher::~Matcher() = default;

Result<void> Matcher::find(const Pattern& pattern, std::string_view text, std::vector<Piece>& out) {
  out.clear();
  Impl& m = *impl_;
  if (!m.context || !m.data) return fail(ErrorKind::OutOfMemory, "no memory to split a text into words");
  const pcre2_code* code = pattern.impl_->code.get();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  constexpr uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  for (size_t from = 0; from < text.size();) {
    int rc = pcre2_match(code, subject, text.size(), from, options, m.data.get(), m.context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
      rc = pcre2_match(code, subject, text.size(), from, options | PCRE2_NO_JIT, m.data.get(), m.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      return fail_f(ErrorKind::InvalidArgument, "cannot split the text into words at byte {}: {}; give it in shorter parts", from,
                    pcre2_message(rc));
    const size_t* range = pcre2_get_ovector_pointer(m.data.get());
    out.push_back({static_cast<uint32_t>(range[0]), static_cast<uint32_t>(range[1])});
    from = range[1];
  }
  return {};
}

}  // namespace gull::text
