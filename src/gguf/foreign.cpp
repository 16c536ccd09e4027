#include "gguf/foreign.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "gguf/half.h"

namespace gull::gguf {

std::string describe_foreign(std::span<const std::byte> head) {
  if (head.empty()) return "is empty: fetch it again";
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const auto begins = [&](std::string_view prefix) { return text.starts_with(prefix); };

  if (begins("version https://git-lfs"))
    return "is a Git LFS pointer, not the model itself: run 'git lfs pull', or download the file";
  const size_t first = text.starts_with("\xEF\xBB\xBF") ? 3 : text.find_first_not_of(" \t\r\n");
  if (first < text.size() && text[first] == '<')
    return "is an HTML or XML page, not a GGUF file: the download saved a web page instead of the model";
  if (begins("FUGG")) return "is a byte-swapped GGUF file: gull reads little-endian GGUF";
  for (std::string_view old : {"ggml", "ggmf", "ggjt", "ggla", "lmgg", "fmgg", "tjgg", "algg"})
    if (begins(old)) return "is a GGML file from before GGUF: convert the model again with a current converter";
  if (begins("PK\x03\x04")) return "is a ZIP archive (perhaps a PyTorch checkpoint), not a GGUF file: convert it first";
  if (begins("\x1F\x8B") || begins("\x28\xB5\x2F\xFD") || begins("BZh") ||
      begins("\xFD"
             "7zXZ"))
    return "is compressed: unpack it first";
  if (head.size() > 9 && load_le<uint64_t>(head.data()) < (1u << 28) && text[8] == '{')
    return "is a safetensors file, not a GGUF file: convert it first";
  if (first < text.size() && text[first] == '{')
    return "is JSON text, not a GGUF file: perhaps an error message that was saved as the model";
  if (std::all_of(head.begin(), head.end(), [](std::byte b) { return b == std::byte{0}; }))
    return "begins with zeros, not with 'GGUF': an unfinished download?";
  std::string bytes;
  for (std::byte b : head.first(std::min<size_t>(head.size(), 4))) bytes += fmt::format(" {:02x}", static_cast<unsigned>(b));
  return fmt::format("is not a GGUF file: it begins with{} instead of 'GGUF'", bytes);
}

}  // namespace gull::gguf
