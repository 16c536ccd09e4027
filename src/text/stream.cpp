#include "text/stream.h"

#include <algorithm>
#include <utility>

namespace gull::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Looks at the character at the front: its length, 0 while bytes are missing, or −1 where it can never become one.
/// Well-formed sequences as Unicode 15, table 3-7 lists them.
int character(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const int length = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : -1;
  if (length < 0) return -1;
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) >= bytes.size()) return 0;
    const unsigned char low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at(i) < low || at(i) > high) return -1;
  }
  return length;
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const int length = character(std::string_view(pending_).substr(at));
    if (length == 0) break;
    if (length < 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    out.append(pending_, at, static_cast<size_t>(length));
    at += static_cast<size_t>(length);
  }
  pending_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  const bool rest = !pending_.empty();
  pending_.clear();
  return rest ? std::string(kReplacement) : std::string();
}

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

StopMatcher::Out StopMatcher::push(std::string_view text) {
  pending_ += text;
  // The stop string that begins first wins; of those that begin together, the longest.
  size_t first = std::string::npos;
  const std::string* found = nullptr;
  for (const std::string& stop : stops_) {
    const size_t at = pending_.find(stop);
    if (at < first || (at == first && found && stop.size() > found->size())) first = at, found = &stop;
  }
  if (found) {
    Out out{pending_.substr(0, first), true, *found};
    pending_.clear();
    return out;
  }
  // The longest tail that may still grow into a stop string stays back.
  size_t hold = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > hold; --n)
      if (std::string_view(pending_).substr(pending_.size() - n) == std::string_view(stop).substr(0, n)) hold = n;
  Out out{pending_.substr(0, pending_.size() - hold), false, {}};
  pending_.erase(0, pending_.size() - hold);
  return out;
}

std::string StopMatcher::finish() { return std::exchange(pending_, {}); }

}  // namespace gull::text
