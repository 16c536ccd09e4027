// SentencePiece's precompiled character map: which sequences of bytes are replaced by which before splitting.
// Format (sentencepiece's normalizer.cc, Darts-clone's double array): u32 size of the array in bytes; the array of
// u32 units; NUL-terminated replacements. A unit holds: bits 10…30 an offset (times 256 when bit 9 is set), bit 8
// "a string ends here", bits 0…7 the byte that leads to it; bit 31 marks a value instead: where the replacement begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"
#include "gull/gguf.h"

namespace gull::text {

class Charsmap {
 public:
  struct Replacement {
    std::string_view text;
    size_t consumed = 0;  ///< bytes of the text that it stands for; 0: none found
  };

  /// The map in the file's metadata; an empty one where there is none. Errors: broken sizes.
  static Result<Charsmap> load(const gguf::File& file);
  /// The longest sequence at `at` that has a replacement.
  Replacement longest(std::string_view text, size_t at) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace gull::text
