// The patterns of pre-tokenizers, matched by the browser's own regular expressions (web/lib/patterns.js).
#include "text/tokenizers/pattern.h"

#include "base/log.h"

#define GULL_IMPORT(name) __attribute__((import_module("env"), import_name(#name)))

extern "C" {
/// Its number; −1: it is none.
GULL_IMPORT(gull_pattern) int32_t gull_pattern(const char* pattern, uint32_t length);
/// How many matches; −1: too many steps.
GULL_IMPORT(gull_find) int32_t gull_find(int32_t pattern, const char* text, uint32_t length);
/// Those of the last gull_find.
GULL_IMPORT(gull_found) void gull_found(gull::text::Piece* matches);
}

namespace gull::text {

static_assert(sizeof(Piece) == 8);

struct Pattern::Impl {
  int32_t number;
};

Pattern::Pattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

Result<Pattern> Pattern::compile(std::string_view text) {
  const int32_t number = gull_pattern(text.data(), static_cast<uint32_t>(text.size()));
  if (number < 0) return fail_f(ErrorKind::Internal, "pattern of a tokenizer: this browser does not take {}", text);
  return Pattern(std::make_unique<Impl>(number));
}

struct Matcher::Impl {};
Matcher::Matcher() = default;
Matcher::~Matcher() = default;

Result<void> Matcher::find(const Pattern& pattern, std::string_view text, std::vector<Piece>& out) {
  out.clear();
  const int32_t count = gull_find(pattern.impl_->number, text.data(), static_cast<uint32_t>(text.size()));
  if (count < 0) return fail(ErrorKind::InvalidArgument, "cannot split the text into words: give it in shorter parts");
  out.resize(static_cast<size_t>(count));
  gull_found(out.data());
  return {};
}

}  // namespace gull::text
