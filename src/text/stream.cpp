#include "text/stream.h"

#include <algorithm>
#include <utility>

namespace gull::text {
namespace {

struct Sequence {
  size_t size;      ///< bytes that belong together
  enum { Whole, Broken, Unfinished } state;
};

/// The character at the beginning of `s` (not empty), by the table of well-formed UTF-8 of the Unicode standard.
Sequence next_character(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, Sequence::Whole};
  const size_t size = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
  if (size == 0) return {1, Sequence::Broken};
  // The second byte has a narrower range after some lead bytes: no overlong forms, no surrogates, nothing above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; i++) {
    if (i == s.size()) return {i, Sequence::Unfinished};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) return {i, Sequence::Broken};
  }
  return {size, Sequence::Whole};
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const Sequence c = next_character(std::string_view(pending_).substr(at));
    if (c.state == Sequence::Unfinished) break;
    out += c.state == Sequence::Whole ? std::string_view(pending_).substr(at, c.size) : kReplacement;
    at += c.size;
  }
  pending_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  return std::exchange(pending_, {}).empty() ? std::string() : std::string(kReplacement);
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

StopMatcher::Out StopMatcher::push(std::string_view text) {
  if (!found_.empty()) return {{}, true, found_};
  pending_ += text;
  const std::string* winner = nullptr;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = pending_.find(stop);
    if (at == std::string::npos) continue;
    const size_t its_end = at + stop.size();
    if (!winner || its_end < end || (its_end == end && stop.size() > winner->size())) winner = &stop, end = its_end;
  }
  if (winner) {
    found_ = *winner;
    std::string shown = pending_.substr(0, end - winner->size());
    pending_.clear();
    return {std::move(shown), true, found_};
  }
  size_t held = 0;   // the longest end of the text that begins a stop string
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > held; n--)
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) held = n;
  }
  Out out;
  out.text = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, pending_.size() - held);
  return out;
}

std::string StopMatcher::finish() { return std::exchange(pending_, {}); }

}  // namespace gull::text
