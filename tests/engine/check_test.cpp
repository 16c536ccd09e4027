// What a header alone can tell: the figures of known models, and files that must be refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/writer.h"
#include "gull/engine.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using testing::HasSubstr;

std::shared_ptr<gguf::File> open(const std::string& name) {
  auto file = gguf::File::open_path(test::data("fixtures/models/" + name));
  return file ? *file : nullptr;
}

TEST(CheckModel, FiguresOfAPlainModel) {
  // 2 layers, hidden 64, 2 key-value heads of 16, feed-forward 96, vocabulary 288, untied, all F32:
  // q, k, v, o: 64·64 + 2·64·32 + 64·64; gate, up, down: 3·64·96; two norms of 64; embedding, output, last norm.
  const uint64_t layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64;
  auto check = check_model(*open("llama.f32.gguf"));
  ASSERT_TRUE(check) << check.error().message;
  EXPECT_EQ(check->weights, 4 * (2 * layer + 2 * 288 * 64 + 64));
  EXPECT_EQ(check->kv_per_token_f16, 2u * 2 * 2 * 16 * 2);
  EXPECT_EQ(check->kv_per_token_f32, 2 * check->kv_per_token_f16);
  EXPECT_EQ(check->states, 0u);
  EXPECT_EQ(check->layers, 2u);
  EXPECT_EQ(check->context, 512u);
  EXPECT_FALSE(check->embedding);
}

TEST(CheckModel, SharedCachesAndStates) {
  // Layers 3 to 5 read the caches of 1 and 2: two windowed layers and a global one of 16 and 32 floats have their own.
  auto gemma = check_model(*open("gemma4-e2b.f16.gguf"));
  ASSERT_TRUE(gemma) << gemma.error().message;
  EXPECT_EQ(gemma->kv_per_token_f16, (16u + 16 + 32) * 2 * 2);
  // Two layers of 64 channels: 3 inputs of a convolution and 8 states each.
  auto mamba = check_model(*open("mamba.f16.gguf"));
  ASSERT_TRUE(mamba) << mamba.error().message;
  EXPECT_EQ(mamba->kv_per_token_f16, 0u);
  EXPECT_EQ(mamba->states, 2u * 64 * (3 + 8) * 4);
  auto bert = check_model(*open("bert-bge.f16.gguf"));
  ASSERT_TRUE(bert) << bert.error().message;
  EXPECT_TRUE(bert->embedding);
}

/// A tiny llama's header with one thing changed; no tensor has data worth reading.
struct Change {
  std::string architecture = "llama";
  std::string leave_out;                      ///< a tensor
  std::string add;                            ///< a tensor of 32 floats
  std::string rope_scaling;
  uint32_t experts = 0, heads = 2;
  float softcap = 0;
  gguf::Type type = gguf::Type::F32;          ///< of blk.0.attn_q.weight
};

Result<ModelCheck> check(const Change& change) {
  gguf::Writer writer;
  const std::string a = change.architecture + ".";
  writer.set("general.architecture", change.architecture);
  writer.set(a + "block_count", uint32_t{1}).set(a + "embedding_length", uint32_t{32}).set(a + "feed_forward_length", uint32_t{32});
  writer.set(a + "attention.head_count", change.heads).set(a + "context_length", uint32_t{64});
  if (!change.rope_scaling.empty()) writer.set(a + "rope.scaling.type", change.rope_scaling);
  if (change.experts) writer.set(a + "expert_count", change.experts);
  if (change.softcap > 0) writer.set(a + "attn_logit_softcapping", change.softcap);
  static const std::vector<std::byte> zeros(32 * 32 * 8);
  const auto tensor = [&](const std::string& name, std::vector<uint64_t> dims, gguf::Type type = gguf::Type::F32) {
    uint64_t elements = 1;
    for (uint64_t d : dims) elements *= d;
    const auto* traits = gguf::type_traits(type);
    if (name != change.leave_out) writer.tensor(name, type, dims, std::span(zeros).first(elements / traits->block * traits->bytes));
  };
  for (const char* name : {"token_embd.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight", "blk.0.attn_output.weight",
                           "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"})
    tensor(name, {32, 32});
  tensor("blk.0.attn_q.weight", {32, 32}, change.type);
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) tensor(name, {32});
  if (!change.add.empty()) tensor(change.add, {32});
  auto bytes = writer.bytes();
  if (!bytes) return fail(bytes.error());
  auto file = gguf::File::open(memory_source("tiny.gguf", std::move(*bytes)));
  if (!file) return fail(file.error());
  return check_model(**file);
}

void expect_refusal(const Change& change, ErrorKind kind, const char* part) {
  auto result = check(change);
  ASSERT_FALSE(result) << part;
  EXPECT_EQ(result.error().kind, kind) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(part));
  EXPECT_THAT(result.error().message, HasSubstr("tiny.gguf"));
}

TEST(CheckModel, RefusesByName) {
  ASSERT_TRUE(check({})) << check({}).error().message;
  expect_refusal({.architecture = "starcoder"}, ErrorKind::Unsupported, "starcoder");
  expect_refusal({.leave_out = "blk.0.attn_v.weight"}, ErrorKind::BadFile, "blk.0.attn_v.weight");
  expect_refusal({.leave_out = "output_norm.weight"}, ErrorKind::BadFile, "output_norm.weight");
  expect_refusal({.add = "blk.0.attn_gate.weight"}, ErrorKind::Unsupported, "blk.0.attn_gate.weight");
  expect_refusal({.rope_scaling = "spiral"}, ErrorKind::Unsupported, "spiral");
  expect_refusal({.softcap = 30.0f}, ErrorKind::Unsupported, "attn_logit_softcapping");
  expect_refusal({.experts = 4}, ErrorKind::BadFile, "expert_used_count");
  expect_refusal({.heads = 0}, ErrorKind::BadFile, "head_count");
  expect_refusal({.heads = 3}, ErrorKind::BadFile, "attn_q.weight");
  expect_refusal({.type = gguf::Type::F64}, ErrorKind::Unsupported, "F64");
}

TEST(CheckModel, LeavesOtherModalitiesAside) {
  EXPECT_TRUE(check({.add = "v.blk.0.attn_q.weight"}));
  EXPECT_TRUE(check({.add = "mm.input_projection.weight"}));
}

}  // namespace
}  // namespace gull
