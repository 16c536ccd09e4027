// What stands between generated tokens and the reader: whole UTF-8 characters only, and stop strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gull::text {

/// Holds back the bytes of a character that has not fully arrived.
class Utf8Stream {
 public:
  /// Takes bytes, returns what is complete. Bytes that can never become a character come out as U+FFFD, one for each
  /// longest beginning of a character, as browsers and Python do it.
  std::string push(std::string_view bytes);
  /// The rest at the end; an unfinished character comes out as one U+FFFD.
  std::string finish();

 private:
  std::string pending_;
};

/// Finds stop strings across token borders: text that may still become a stop string is held back.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops = {});
  struct Out {
    std::string text;       ///< safe to show
    bool stopped = false;   ///< a stop string was found (and removed); nothing follows
    std::string stop;       ///< which
  };
  /// The stop string that is complete first wins (the longest of several), however the text is cut into pieces. After a
  /// stop every further push gives nothing but the stop again.
  Out push(std::string_view text);
  std::string finish();     ///< what was held back, when generation ends otherwise

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  std::string found_;       ///< the stop string that ended it
};

}  // namespace gull::text
