// The generated strings of the tokenizer tests: the same ones as tokenizer_strings.py makes.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizers/utf8.h"
#include "tokenizer_files.h"

namespace gull::text::test {

/// splitmix64
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t n) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % n;
  }

 private:
  uint64_t state_;
};

class Strings {
 public:
  Strings() : tables_(read_json(data("tokenizer/strings.json"))) {}

  std::string string(uint64_t seed, uint64_t index) const {
    Random random(seed * 1000003 + index);
    std::string out;
    for (uint64_t parts = 1 + random.below(16); parts > 0; --parts) out += part(random);
    return out;
  }

 private:
  std::string pick(Random& random, const char* table) const {
    const auto& items = tables_[table];
    return items[random.below(items.size())];
  }

  static void append_code_point(Random& random, const nlohmann::json& range, std::string& out) {
    uint64_t first = range[0], last = range[1];
    append_utf8(out, static_cast<uint32_t>(first + random.below(last - first + 1)));
  }

  const nlohmann::json& pick_range(Random& random, const char* table) const { return tables_[table][random.below(tables_[table].size())]; }

  std::string word(Random& random) const {
    std::string text = pick(random, "words");
    uint64_t style = random.below(8);
    for (size_t i = 0; i < (style == 0 ? text.size() : style == 1 ? 1 : 0); ++i) {
      if (text[i] >= 'a' && text[i] <= 'z') text[i] = static_cast<char>(text[i] - 32);
    }
    return (random.below(4) ? " " : "") + text;
  }

  static std::string characters(Random& random, char first, uint64_t kinds, uint64_t longest) {
    std::string out;
    for (uint64_t n = 1 + random.below(longest); n > 0; --n) out.push_back(static_cast<char>(static_cast<uint64_t>(first) + random.below(kinds)));
    return out;
  }

  std::string script(Random& random) const {
    std::string out;
    const auto& range = pick_range(random, "ranges");
    for (uint64_t n = 1 + random.below(4); n > 0; --n) {
      random.below(1);  // the Python side picks this one range again
      append_code_point(random, range, out);
    }
    return out;
  }

  std::string marked(Random& random) const {
    std::string out;
    append_code_point(random, pick_range(random, "ranges"), out);
    for (uint64_t n = 1 + random.below(2); n > 0; --n) append_code_point(random, pick_range(random, "marks"), out);
    return out;
  }

  std::string part(Random& random) const {
    uint64_t kind = random.below(20);
    if (kind < 6) return word(random);
    if (kind < 7) return characters(random, 'a', 26, 8);
    if (kind < 8) return characters(random, '0', 10, 7);
    if (kind < 10) return pick(random, "punctuation");
    if (kind < 13) return pick(random, "spaces");
    if (kind < 14) return pick(random, "contractions");
    if (kind < 16) return script(random);
    if (kind < 17) return marked(random);
    if (kind < 19) return pick(random, "snippets");
    return pick(random, "special");
  }

  nlohmann::json tables_;
};

/// FNV-1a, 64 bits, over each list's length and ids as little-endian 32-bit numbers.
class IdsHash {
 public:
  void add(const std::vector<int32_t>& ids) {
    add(static_cast<uint32_t>(ids.size()));
    for (int32_t id : ids) add(static_cast<uint32_t>(id));
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  void add(uint32_t number) {
    for (int i = 0; i < 4; ++i, number >>= 8) hash_ = (hash_ ^ (number & 0xFF)) * 0x100000001B3u;
  }
  uint64_t hash_ = 0xCBF29CE484222325u;
};

/// SmolLM2's vocabulary from its compact form (make_tokenizer_vocabularies.py describes it), with another `pre`.
inline gguf::Writer smollm2(const std::string& pre = "smollm") {
  std::ifstream in(data("tokenizer/smollm2.vocab"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::string> tokens, merges;
  size_t at = 0;
  for (size_t end = bytes.find("\n\n"); at <= end;) {
    size_t line = bytes.find('\n', at);
    tokens.push_back(bytes.substr(at, line - at));
    at = line + 1;
  }
  ++at;
  auto u16 = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i]) | static_cast<uint8_t>(bytes[i + 1]) << 8); };
  for (; at + 4 <= bytes.size(); at += 4) {
    std::string left = tokens.at(u16(at)), right = tokens.at(u16(at + 2));
    merges.push_back(left + " " + right);
    tokens.push_back(left + right);
  }
  std::vector<int32_t> types(tokens.size(), 1);
  std::fill(types.begin(), types.begin() + 17, 3);
  gguf::Writer writer;
  writer.set("general.architecture", "llama").set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
  writer.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", types).set("tokenizer.ggml.merges", merges);
  writer.set("tokenizer.ggml.bos_token_id", uint32_t{1}).set("tokenizer.ggml.eos_token_id", uint32_t{2});
  writer.set("tokenizer.ggml.unknown_token_id", uint32_t{0}).set("tokenizer.ggml.padding_token_id", uint32_t{2});
  writer.set("tokenizer.ggml.add_bos_token", false).set("tokenizer.ggml.add_space_prefix", false);
  return writer;
}

}  // namespace gull::text::test
