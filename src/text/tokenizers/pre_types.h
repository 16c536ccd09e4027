// The splits of text into words that byte-level BPE models were trained with, by the names that GGUF files use for
// them (tokenizer.ggml.pre).
#pragma once

#include <span>
#include <string_view>

namespace gull::text {

/// What a match of a pattern does to the piece of text that it was found in.
enum class SplitMode {
  Isolate,      ///< the match becomes a piece of its own, and so does what lies between two matches
  Threes,       ///< the same, and the match is cut into groups of three characters, counted from its end
  ThreesWithin, ///< only those cuts
};

struct SplitStep {
  std::string_view pattern;  ///< PCRE2; `\s` means Unicode White_Space
  SplitMode mode = SplitMode::Isolate;
};

struct PreType {
  std::span<const SplitStep> steps;  ///< applied one after the other, each to all pieces of the one before
  bool ignore_merges = false;        ///< a word that is a token as a whole needs no merges
  bool add_bos = false;              ///< default of add_bos_token
  bool no_default_bos = false;       ///< no BOS unless the file names one
  bool escaped = false;              ///< works on UTF-8 with "▁" for spaces, not on GPT-2's byte alphabet
};

/// The type with this name, or nullptr. "" and "default" are names too.
const PreType* find_pre_type(std::string_view name);

}  // namespace gull::text
