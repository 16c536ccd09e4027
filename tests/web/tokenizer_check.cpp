// The tokenizers with the browser's regular expressions and Unicode tables, for tokenizer.test.mjs.
#include "gull/gguf.h"
#include "text/tokenizer.h"

namespace {

std::shared_ptr<const gull::text::Tokenizer> tokenizer;
std::vector<int32_t> ids;

}  // namespace

extern "C" {

/// Opens the tokenizer of a file that lies in memory: 1, or 0.
__attribute__((export_name("open_tokenizer"))) int32_t open_tokenizer(const std::byte* bytes, uint32_t length) {
  auto file = gull::gguf::File::open(gull::memory_source("vocabulary", {bytes, bytes + length}));
  if (!file) return 0;
  auto opened = gull::text::Tokenizer::from_gguf(**file);
  if (!opened) return 0;
  tokenizer = std::move(*opened);
  return 1;
}

/// How many ids a text has, or −1.
__attribute__((export_name("encode"))) int32_t encode(const char* text, uint32_t length, int32_t add_special, int32_t parse_special) {
  auto made = tokenizer->encode({text, length}, {add_special != 0, parse_special != 0});
  if (!made) return -1;
  ids = std::move(*made);
  return static_cast<int32_t>(ids.size());
}

/// Those ids.
__attribute__((export_name("encoded"))) const int32_t* encoded() { return ids.data(); }
}
