// Models that are split over several files: which part a file is, and whether a set of parts is whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gguf/parser.h"

namespace gull::gguf {

/// A name as gguf-split makes it: PREFIX-00002-of-00003.gguf, where a URL's query may follow.
struct SplitName {
  std::string prefix, suffix;   ///< suffix: ".gguf" and what follows
  uint32_t number = 1, count = 1;   ///< number counts from 1
  std::string of(uint32_t number) const;
};
std::optional<SplitName> parse_split_name(std::string_view name);

/// One parsed file of a model.
struct ParsedSource {
  std::shared_ptr<ByteSource> source;
  Part part;
};
Result<ParsedSource> parse_source(std::shared_ptr<ByteSource> source);

/// Parts that a file's "split.count" says there are; 1 for a model in one file. Errors: a count or number that makes no sense.
Result<uint32_t> split_count(const ParsedSource& parsed);

/// Sorts the parts by "split.no" and sets TensorInfo::part. Errors: parts missing (which), given twice, of another
/// model, of other counts; tensors missing or occurring twice.
Result<std::vector<ParsedSource>> order_parts(std::vector<ParsedSource> parts);

}  // namespace gull::gguf
