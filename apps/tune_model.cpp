#include "tune_model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gguf/writer.h"

namespace gull::app {
namespace {

struct Sizes { uint32_t hidden, ffn, heads, kv_heads, head_dim, vocabulary; };
constexpr uint32_t kLayers = 2;

struct Entry {
  std::string name;
  gguf::Type type;
  std::vector<uint64_t> dims;
};

std::vector<Entry> entries(const Sizes& s) {
  std::vector<Entry> out;
  const auto matrix = [&](std::string name, uint32_t k, uint32_t rows) { out.push_back({std::move(name), gguf::Type::Q4_K, {k, rows}}); };
  const auto vector = [&](std::string name) { out.push_back({std::move(name), gguf::Type::F32, {s.hidden}}); };
  matrix("token_embd.weight", s.hidden, s.vocabulary), vector("output_norm.weight"), matrix("output.weight", s.hidden, s.vocabulary);
  for (uint32_t l = 0; l < kLayers; ++l) {
    const std::string p = "blk." + std::to_string(l) + ".";
    vector(p + "attn_norm.weight"), vector(p + "ffn_norm.weight");
    matrix(p + "attn_q.weight", s.hidden, s.heads * s.head_dim);
    matrix(p + "attn_k.weight", s.hidden, s.kv_heads * s.head_dim), matrix(p + "attn_v.weight", s.hidden, s.kv_heads * s.head_dim);
    matrix(p + "attn_output.weight", s.heads * s.head_dim, s.hidden);
    matrix(p + "ffn_gate.weight", s.hidden, s.ffn), matrix(p + "ffn_up.weight", s.hidden, s.ffn), matrix(p + "ffn_down.weight", s.ffn, s.hidden);
  }
  return out;
}

size_t bytes_of(const Entry& e) {
  const auto& traits = *gguf::type_traits(e.type);
  size_t n = 1;
  for (const uint64_t d : e.dims) n *= d;
  return n / traits.block * traits.bytes;
}

}  // namespace

Result<std::shared_ptr<gguf::File>> made_up_model(bool small) {
  const Sizes s = small ? Sizes{512, 1536, 8, 2, 64, 256} : Sizes{4096, 14336, 32, 8, 128, 1024};
  gguf::Writer writer;
  writer.set("general.architecture", "llama").set("general.name", "made up").set("llama.block_count", kLayers).set("llama.context_length", uint32_t{4096});
  writer.set("llama.embedding_length", s.hidden).set("llama.feed_forward_length", s.ffn).set("llama.attention.head_count", s.heads);
  writer.set("llama.attention.head_count_kv", s.kv_heads).set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set("llama.rope.dimension_count", s.head_dim).set("llama.rope.freq_base", 500000.0f);
  const auto all = entries(s);
  size_t most = 0;
  for (const Entry& e : all) most = std::max(most, bytes_of(e));
  const std::vector<std::byte> zeros(most);
  for (const Entry& e : all) writer.tensor(e.name, e.type, e.dims, std::span(zeros).first(bytes_of(e)));
  auto bytes = writer.bytes();
  if (!bytes) return fail(bytes.error());
  return gguf::File::open(memory_source("made-up.gguf", std::move(*bytes)));
}

}  // namespace gull::app
