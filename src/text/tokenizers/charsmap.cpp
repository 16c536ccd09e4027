#include "text/tokenizers/charsmap.h"

#include "base/log.h"

namespace gull::text {
namespace {
constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
constexpr size_t kLongestReplacement = 256;  // bytes; NFKC needs 33. A hostile map would blow a text up.

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t label_of(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
bool ends_here(uint32_t unit) { return unit >> 8 & 1; }
}  // namespace

Result<Charsmap> Charsmap::load(const gguf::File& file) {
  Charsmap map;
  const gguf::Array* array = file.get_array(kKey);
  if (!array || array->size() == 0) return map;
  std::string bytes;
  bytes.reserve(array->size());
  for (uint64_t byte : array->unsigneds) bytes.push_back(static_cast<char>(byte));
  for (int64_t byte : array->signeds) bytes.push_back(static_cast<char>(byte));
  auto u32 = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
    return value;
  };
  size_t size = bytes.size() >= 4 ? u32(0) : 0;
  if (bytes.size() < 4 || size % 4 != 0 || size > bytes.size() - 4) {
    return fail_f(ErrorKind::BadFile, "{}: {} is broken: an array of {} bytes in {}", file.name(), kKey, size, bytes.size());
  }
  for (size_t at = 4; at < 4 + size; at += 4) map.units_.push_back(u32(at));
  map.replacements_ = bytes.substr(4 + size);
  return map;
}

Charsmap::Replacement Charsmap::longest(std::string_view text, size_t at) const {
  Replacement best;
  if (units_.empty()) return best;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = at; i < text.size() && text[i] != 0; ++i) {
    auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!ends_here(unit)) continue;
    if (node >= units_.size()) break;
    size_t from = units_[node] & 0x7FFFFFFF;
    size_t end = from < replacements_.size() ? replacements_.find('\0', from) : std::string::npos;
    if (end == std::string::npos || end - from > kLongestReplacement) break;  // a broken map: what was found so far
    best = {std::string_view(replacements_).substr(from, end - from), i + 1 - at};
  }
  return best;
}

}  // namespace gull::text
