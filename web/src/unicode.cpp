// The functions of utf8proc.h that gull calls, answered by the browser (web/lib/unicode.js).
#include <utf8proc.h>

extern "C" {

__attribute__((import_module("env"), import_name("gull_unicode")))
int32_t gull_unicode(int32_t question, int32_t code, int32_t* out, int32_t capacity);

utf8proc_category_t utf8proc_category(utf8proc_int32_t c) { return static_cast<utf8proc_category_t>(gull_unicode(0, c, nullptr, 0)); }
utf8proc_int32_t utf8proc_tolower(utf8proc_int32_t c) { return gull_unicode(1, c, nullptr, 0); }
utf8proc_int32_t utf8proc_toupper(utf8proc_int32_t c) { return gull_unicode(2, c, nullptr, 0); }
utf8proc_int32_t utf8proc_totitle(utf8proc_int32_t c) { return gull_unicode(3, c, nullptr, 0); }

/// Canonical decomposition only, which is all that the callers ask for.
utf8proc_ssize_t utf8proc_decompose_char(utf8proc_int32_t c, utf8proc_int32_t* out, utf8proc_ssize_t capacity, utf8proc_option_t, int*) {
  return gull_unicode(4, c, out, static_cast<int32_t>(capacity));
}
}
