// Every call of the weight cache, on the device that is there: what lies on the GPU is compared with the file's bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <unistd.h>

#include "gguf/writer.h"
#include "weights/counting_source.h"
#include "weights/watched_device.h"
#include "weights/weight_cache.h"

namespace gull::weights {
namespace {

using gguf::Type;
using test::CountingSource;
using testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

/// Types whose rows the GPU has as the file does, so that contents can be compared byte by byte.
struct Source {
  Bytes matrix = random_bytes(300 * 64 * 4, 1), half = random_bytes(96 * 32 * 2, 2), quantised = random_bytes(40 * 144, 3),
        experts = random_bytes(6 * 8 * 32 * 4, 4), vector = random_bytes(64 * 4, 5), odd = random_bytes(5 * 33 * 2, 6);
  Bytes half_vector;
  Bytes file() {
    half_vector.clear();
    // 1.0, −2.0, 0.5 and so on: 16-bit floats whose values are known.
    for (uint16_t bits : {0x3c00, 0xc000, 0x3800, 0x7bff, 0x0001})
      half_vector.push_back(static_cast<std::byte>(bits & 255)), half_vector.push_back(static_cast<std::byte>(bits >> 8));
    gguf::Writer w;
    w.set("general.architecture", "llama");
    w.tensor("token_embd.weight", Type::F32, {64, 300}, matrix);
    for (int layer : {0, 1, 2, 10, 11}) {
      const std::string p = "blk." + std::to_string(layer) + ".";
      w.tensor(p + "attn_norm.weight", Type::F32, {64}, vector);
      w.tensor(p + "ffn_up.weight", Type::F16, {32, 96}, half);
    }
    w.tensor("blk.1.ffn_up_exps.weight", Type::F32, {32, 8, 6}, experts);
    w.tensor("quantised.weight", Type::Q4_K, {256, 40}, quantised);
    w.tensor("odd.weight", Type::F16, {33, 5}, odd);
    w.tensor("half.weight", Type::F16, {5}, half_vector);
    auto bytes = w.bytes();
    EXPECT_TRUE(bytes) << bytes.error().message;
    return *bytes;
  }
};

class Cache : public testing::Test {
 protected:
  void SetUp() override { open(std::make_shared<CountingSource>(source.file()), {}); }

  void open(std::shared_ptr<ByteSource> bytes, Options options) {
    counting = std::dynamic_pointer_cast<CountingSource>(bytes);
    open_file(gguf::File::open(bytes), options);
    if (counting) counting->reads = counting->bytes_read = 0;   // the header is not of interest
  }

  void open_file(const Result<std::shared_ptr<gguf::File>>& file, Options options) {
    cache.reset();
    ASSERT_TRUE(file) << file.error().message;
    cache = std::make_unique<WeightCache>(watched.device, *file, options);
  }

  Bytes contents(const gpu::BufferRef& buffer) {
    Bytes out(buffer->size());
    auto ok = watched.device->read(*buffer, 0, std::span<std::byte>(out));
    EXPECT_TRUE(ok) << ok.error().message;
    return out;
  }
  uint64_t ledger() const { return watched.device->ledger().use().weights; }
  /// The source, on disk.
  std::string saved(const Bytes& file) {
    path = std::filesystem::temp_directory_path() / ("gull-weights-" + std::to_string(::getpid()) + ".gguf");
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    return path;
  }
  void TearDown() override {
    if (!path.empty()) std::filesystem::remove(path);
  }
  static Bytes part(const Bytes& all, size_t from, size_t n) { return {all.begin() + from, all.begin() + from + n}; }

  /// A Plan with one step that reads the tensor (as the kernels' Plans do).
  std::unique_ptr<dispatch::Plan> plan_that_reads(std::string_view name) { return plan_that_reads(std::vector<std::string>{std::string(name)}); }
  /// A Plan with a segment for each tensor.
  std::unique_ptr<dispatch::Plan> plan_that_reads(const std::vector<std::string>& names) {
    gpu::PipelineDesc desc{"reader", R"(
@group(0) @binding(0) var<storage, read> w: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3<u32>) { if (g.x < arrayLength(&y)) { y[g.x] = w[g.x]; } }
)", {gpu::BindingKind::ReadStorage, gpu::BindingKind::Storage}};
    auto pipeline = watched.device->create_pipeline(desc);
    EXPECT_TRUE(pipeline) << pipeline.error().message;
    result = *watched.device->create_buffer(64, gpu::kStorage | gpu::kCopySrc, gpu::Memory::Activations, "result");
    auto plan = std::make_unique<dispatch::Plan>(watched.device);
    for (size_t i = 0; i < names.size(); ++i) {
      if (i) plan->begin_segment();
      plan->add({*pipeline, {(*cache->tensor(names[i]))->tiles[0], result}, {1}, {1}, {1}, {}});
    }
    return plan;
  }
  void replay(dispatch::Plan& plan) {
    auto ensured = cache->ensure(plan.residents(0));
    ASSERT_TRUE(ensured) << ensured.error().message;
    auto commands = watched.device->begin();
    auto ok = plan.run(*commands, {1, 1, 1});
    ASSERT_TRUE(ok) << ok.error().message;
    ASSERT_TRUE(watched.device->submit(std::move(*commands)));
  }

  test::WatchedDevice watched;
  Source source;
  std::shared_ptr<CountingSource> counting;
  std::unique_ptr<WeightCache> cache;
  gpu::BufferRef result;
  std::filesystem::path path;
};

TEST_F(Cache, BufferIsUploadedOnFirstUseAndTheSameAfterwards) {
  EXPECT_EQ(counting->reads, 0u);
  auto first = cache->buffer("token_embd.weight");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(contents(*first), source.matrix);
  EXPECT_EQ(counting->bytes_read, source.matrix.size());
  EXPECT_EQ(cache->cached_count(), 1u);
  EXPECT_EQ(cache->cached_bytes(), source.matrix.size());
  EXPECT_EQ(ledger(), source.matrix.size());
  auto again = cache->buffer("token_embd.weight");
  EXPECT_EQ((*again)->id(), (*first)->id());
  EXPECT_EQ(counting->bytes_read, source.matrix.size());
  EXPECT_EQ(cache->counters().uploads, 1u);
}

TEST_F(Cache, AbsentTensors) {
  auto absent = cache->buffer_opt("blk.7.attn_norm.weight");
  ASSERT_TRUE(absent);
  EXPECT_EQ(*absent, nullptr);
  auto error = cache->buffer("blk.7.attn_norm.weight");
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().kind, ErrorKind::NotFound);
  EXPECT_THAT(error.error().message, HasSubstr("'blk.7.attn_norm.weight'"));
  EXPECT_FALSE(cache->type("nothing"));
  EXPECT_FALSE(cache->tiles("nothing"));
  EXPECT_FALSE(cache->tile("nothing", 0));
  EXPECT_FALSE(cache->expert("nothing", 0));
  EXPECT_TRUE(cache->buffer_opt("blk.0.attn_norm.weight"));
}

TEST_F(Cache, LookUpsUploadNothing) {
  EXPECT_EQ(*cache->type("quantised.weight"), Type::Q4_K);
  EXPECT_EQ(*cache->type("half.weight"), Type::F16);
  EXPECT_EQ(cache->cached_count(), 0u);
  EXPECT_EQ(cache->cached_bytes(), 0u);
  EXPECT_EQ(ledger(), 0u);
  EXPECT_EQ(counting->reads, 0u);
}

/// Rows of one Q4_K block (gguf/row_layout.h): the first 16 of each 32 bytes of nibbles, the second 16, then the scales.
Bytes in_planes(const Bytes& blocks) {
  Bytes out;
  for (size_t row = 0; row < blocks.size(); row += 144)
    for (size_t from : {16, 48, 80, 112, 32, 64, 96, 128, 0})
      out.insert(out.end(), blocks.begin() + static_cast<ptrdiff_t>(row + from), blocks.begin() + static_cast<ptrdiff_t>(row + from + 16));
  return out;
}

TEST_F(Cache, WorksOverEverySource) {
  const Bytes file = source.file();
  saved(file);
  for (auto& bytes : {memory_source("memory", file), *mapped_file_source(path), *file_source(path)}) {
    open(bytes, {});
    EXPECT_EQ(contents(*cache->buffer("token_embd.weight")), source.matrix) << bytes->name();
    EXPECT_EQ(contents(*cache->buffer("quantised.weight")), in_planes(source.quantised));
    EXPECT_EQ(contents(*cache->buffer("blk.10.ffn_up.weight")), source.half);
    // What was read before reads the same after its pages were given back.
    cache->drop_prefix("");
    EXPECT_EQ(contents(*cache->buffer("token_embd.weight")), source.matrix);
  }
}

TEST_F(Cache, RowsInPlanesAreTheSameFromEverySource) {
  // Larger than what is read at once, and laid out otherwise than in the file: 32 quants of a block, then its scale.
  const size_t blocks = 2000 * 8;
  const Bytes raw = random_bytes(blocks * 34, 7);
  gguf::Writer w;
  w.set("general.architecture", "llama").tensor("planes.weight", Type::Q8_0, {256, 2000}, raw);
  const Bytes file = *w.bytes();
  Bytes want(2000 * 272);
  for (size_t b = 0; b < blocks; ++b) {
    std::byte* const row = want.data() + b / 8 * 272;
    std::copy_n(raw.begin() + static_cast<ptrdiff_t>(b * 34 + 2), 32, row + b % 8 * 32);
    std::copy_n(raw.begin() + static_cast<ptrdiff_t>(b * 34), 2, row + 256 + b % 8 * 2);
  }
  saved(file);
  for (auto& bytes : {memory_source("memory", file), *mapped_file_source(path), *file_source(path), std::shared_ptr<ByteSource>(std::make_shared<CountingSource>(file))}) {
    open(bytes, {});
    EXPECT_TRUE(contents(*cache->buffer("planes.weight")) == want) << bytes->name();
  }
}

TEST_F(Cache, PartsOfASplitModel) {
  const auto part = [](uint16_t number, const std::string& name, Type type, const std::vector<uint64_t>& dims, const Bytes& data) {
    gguf::Writer w;
    if (number == 0) w.set("general.architecture", "llama");
    w.set("split.no", number).set("split.count", uint16_t{2}).set("split.tensors.count", int32_t{2});
    w.tensor(name, type, dims, data);
    return std::make_shared<CountingSource>(*w.bytes());
  };
  open_file(gguf::File::open({part(1, "quantised.weight", Type::Q4_K, {256, 40}, source.quantised), part(0, "token_embd.weight", Type::F32, {64, 300}, source.matrix)}), {});
  EXPECT_EQ(contents(*cache->buffer("quantised.weight")), in_planes(source.quantised));
  EXPECT_EQ(contents(*cache->buffer("token_embd.weight")), source.matrix);
}

TEST_F(Cache, AFileThatIsCutShortIsOneClearError) {
  const Bytes file = source.file();
  saved(file);
  const uint64_t budget = source.matrix.size() + source.half.size() + 6 * source.vector.size();
  for (const uint64_t bound : {uint64_t{0}, budget}) {
    saved(file);
    open_file(gguf::File::open_path(path), {.budget = bound});
    auto before = cache->buffer("blk.0.ffn_up.weight");
    ASSERT_TRUE(before) << before.error().message;
    std::filesystem::resize_file(path, file.size() / 2);
    for (const char* name : {"token_embd.weight", "quantised.weight"}) {
      auto after = cache->buffer(name);
      ASSERT_FALSE(after) << name;
      EXPECT_EQ(after.error().kind, ErrorKind::Io);
      EXPECT_THAT(after.error().message, testing::AllOf(testing::StartsWith(path.string() + ": was "), testing::EndsWith("while it was in use: load it again")));
    }
    EXPECT_EQ(contents(*before), source.half);
    EXPECT_EQ(cache->cached_count(), 1u);
    before->reset();
    cache.reset();
    EXPECT_EQ(ledger(), 0u);
  }
}

TEST_F(Cache, VectorsBecomeF32AndShortRowsArePadded) {
  const Bytes vector = contents(*cache->buffer("half.weight"));
  ASSERT_EQ(vector.size(), 32u * 4);   // a whole group of 32
  const float expected[] = {1.0f, -2.0f, 0.5f, 65504.0f, 5.9604644775390625e-8f};
  for (size_t i = 0; i < 32; ++i) {
    float value;
    std::memcpy(&value, vector.data() + 4 * i, 4);
    EXPECT_EQ(value, i < 5 ? expected[i] : 0.0f) << i;
  }
  const Bytes odd = contents(*cache->buffer("odd.weight"));
  ASSERT_EQ(odd.size(), 5u * 128);   // 33 weights of 2 bytes, in rows of 64
  for (size_t row = 0; row < 5; ++row) EXPECT_EQ(part(odd, row * 128, 66), part(source.odd, row * 66, 66));
}

TEST_F(Cache, TilesAreWholeRowsWithinTheBound) {
  auto tiles = cache->tiles("token_embd.weight", 100 * 256);
  ASSERT_TRUE(tiles) << tiles.error().message;
  uint64_t next = 0;
  for (const TileBuffer& tile : *tiles) {
    EXPECT_EQ(tile.first_row, next);
    EXPECT_LE(tile.buffer->size(), 100u * 256);
    EXPECT_EQ(contents(tile.buffer), part(source.matrix, next * 256, tile.rows * 256));
    next += tile.rows;
  }
  EXPECT_EQ(next, 300u);
  EXPECT_EQ(counting->reads, tiles->size()) << "one request a tile";
  EXPECT_EQ(cache->cached_count(), tiles->size());
  EXPECT_EQ(cache->cached_bytes(), source.matrix.size());
  auto again = cache->tiles("token_embd.weight", 100 * 256);
  EXPECT_EQ(again->front().buffer->id(), tiles->front().buffer->id());
  EXPECT_EQ(cache->tiles("token_embd.weight", 3 * 256)->size(), 100u);
  // In one piece, it is the same memory as buffer()'s.
  auto whole = cache->tiles("quantised.weight", 1 << 20);
  EXPECT_EQ(whole->size(), 1u);
  EXPECT_EQ(whole->front().buffer->id(), (*cache->buffer("quantised.weight"))->id());
}

TEST_F(Cache, ARowLargerThanATileIsAnError) {
  auto tiles = cache->tiles("token_embd.weight", 255);
  ASSERT_FALSE(tiles);
  EXPECT_THAT(tiles.error().message, HasSubstr("one row of 'token_embd.weight' takes 256 B, a tile may have 255 B"));
  EXPECT_EQ(ledger(), 0u);
}

TEST_F(Cache, ABufferLargerThanATileSaysToUseTiles) {
  open(std::make_shared<CountingSource>(source.file()), {.max_tile = 4096});
  auto whole = cache->buffer("token_embd.weight");
  ASSERT_FALSE(whole);
  EXPECT_THAT(whole.error().message, HasSubstr("take it in tiles"));
}

TEST_F(Cache, ALooseTileBelongsToItsCaller) {
  auto tile = cache->tile("token_embd.weight", 2, 64 * 256);
  ASSERT_TRUE(tile) << tile.error().message;
  EXPECT_EQ(tile->first_row, 128u);
  EXPECT_EQ(tile->rows, 64u);
  EXPECT_EQ(contents(tile->buffer), part(source.matrix, 128 * 256, 64 * 256));
  EXPECT_EQ(cache->cached_count(), 0u);
  EXPECT_EQ(ledger(), 64u * 256);
  auto second = cache->tile("token_embd.weight", 2, 64 * 256);
  EXPECT_NE(second->buffer->id(), tile->buffer->id());
  tile->buffer.reset(), second->buffer.reset();
  EXPECT_EQ(ledger(), 0u);
  auto error = cache->tile("token_embd.weight", 5, 64 * 256);
  ASSERT_FALSE(error);
  EXPECT_THAT(error.error().message, HasSubstr("has 5 tiles, there is no number 5"));
}

TEST_F(Cache, ExpertsAreSingleMatrices) {
  for (uint64_t e : {4, 0, 5}) {
    auto expert = cache->expert("blk.1.ffn_up_exps.weight", e);
    ASSERT_TRUE(expert) << expert.error().message;
    EXPECT_EQ(expert->first_row, e * 8);
    EXPECT_EQ(contents(expert->buffer), part(source.experts, e * 1024, 1024));
  }
  EXPECT_EQ(cache->cached_count(), 3u);
  EXPECT_EQ(cache->cached_bytes(), 3u * 1024);
  auto error = cache->expert("blk.1.ffn_up_exps.weight", 6);
  ASSERT_FALSE(error);
  EXPECT_THAT(error.error().message, HasSubstr("has 6 matrices, there is no number 6"));
}

TEST_F(Cache, AnExpertLargerThanATileIsAnError) {
  open(std::make_shared<CountingSource>(source.file()), {.max_tile = 512});
  auto expert = cache->expert("blk.1.ffn_up_exps.weight", 0);
  ASSERT_FALSE(expert);
  EXPECT_THAT(expert.error().message, HasSubstr("one matrix of 'blk.1.ffn_up_exps.weight' is larger than the 512 B that one tile may have"));
  EXPECT_EQ(ledger(), 0u);
}

TEST_F(Cache, PrefixesMatchWholeParts) {
  for (int layer : {0, 1, 2, 10, 11}) ASSERT_TRUE(cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight"));
  ASSERT_TRUE(cache->buffer("blk.1.attn_norm.weight"));
  const uint64_t before = ledger();
  EXPECT_EQ(cache->drop_prefix("blk.1"), 2u);   // not blk.10, not blk.11
  EXPECT_EQ(cache->cached_count(), 4u);
  EXPECT_EQ(ledger(), before - source.half.size() - source.vector.size());
  EXPECT_EQ(cache->drop_prefix("blk.10."), 1u);
  EXPECT_EQ(cache->drop_prefix("blk.1"), 0u);
  EXPECT_EQ(cache->drop_prefix("blk.2.ffn"), 0u);   // no whole part
  EXPECT_EQ(cache->drop_prefix_destroy("blk.2.ffn_up.weight"), 1u);
  EXPECT_EQ(cache->drop_prefix_destroy("blk"), 2u);
  EXPECT_EQ(cache->cached_bytes(), 0u);
  EXPECT_EQ(ledger(), 0u);
  EXPECT_EQ(contents(*cache->buffer("blk.1.ffn_up.weight")), source.half) << "and it comes back when it is wanted";
}

TEST_F(Cache, DropLayers) {
  for (int layer : {0, 1, 2, 10, 11}) ASSERT_TRUE(cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight"));
  ASSERT_TRUE(cache->buffer("token_embd.weight"));
  EXPECT_EQ(cache->drop_layers_destroy(2, 2), 0u);
  EXPECT_EQ(cache->drop_layers_destroy(5, 1), 0u);
  const int waits = watched.idle_waits;
  EXPECT_EQ(cache->drop_layers_destroy(1, 11), 3u);
  EXPECT_EQ(watched.idle_waits, waits + 1) << "one pass waits once";
  EXPECT_EQ(watched.destroyed, 3);
  EXPECT_EQ(cache->cached_count(), 3u);
  EXPECT_EQ(ledger(), source.matrix.size() + 2 * source.half.size());
}

TEST_F(Cache, DroppingIsSafeWhileWorkIsInFlight) {
  auto plan = plan_that_reads("blk.1.ffn_up.weight");
  cache->attach(plan.get());
  replay(*plan);
  EXPECT_EQ(cache->drop_prefix("blk.1"), 1u);   // the GPU may not have begun
  EXPECT_EQ(watched.destroyed, 0);
  EXPECT_EQ(watched.groups_released, 1) << "a bind group would keep the memory";
  EXPECT_EQ(contents(result), part(source.half, 0, 64));
  replay(*plan);   // uploads anew, and makes a new bind group
  EXPECT_EQ(contents(result), part(source.half, 0, 64));
  cache->detach(plan.get());
}

TEST_F(Cache, BindGroupsGoBeforeBuffersAreDestroyed) {
  auto one = plan_that_reads("blk.1.ffn_up.weight"), two = plan_that_reads("blk.1.ffn_up.weight"), other = plan_that_reads("blk.2.ffn_up.weight");
  std::vector<Attached> attached;
  for (auto* plan : {one.get(), two.get(), other.get()}) {
    attached.emplace_back(*cache, *plan);
    replay(*plan);
  }
  EXPECT_EQ(cache->drop_layers_destroy(1, 2), 1u);
  EXPECT_EQ(watched.complaint, "");
  EXPECT_EQ(watched.destroyed, 1);
  EXPECT_EQ(watched.groups_released, 2) << "both Plans that named the victim, and no other";
  replay(*one);
  EXPECT_EQ(contents(result).size(), 64u);
  EXPECT_EQ(cache->drop_prefix_destroy("blk"), 2u);
  EXPECT_EQ(watched.complaint, "");
  EXPECT_EQ(watched.destroyed, 3);
}

TEST_F(Cache, TheWatcherWouldNotice) {
  auto plan = plan_that_reads("blk.1.ffn_up.weight");
  replay(*plan);   // and is not attached
  cache->drop_prefix_destroy("blk.1");
  EXPECT_EQ(watched.complaint, "a buffer was destroyed that a bind group names");
}

TEST_F(Cache, ConcurrentFirstUsesUploadOnce) {
  counting->delay_ms = 30;
  std::vector<std::thread> threads;
  std::vector<uint64_t> ids(8);
  for (size_t i = 0; i < ids.size(); ++i)
    threads.emplace_back([&, i] {
      auto buffer = cache->buffer("token_embd.weight");
      if (buffer) ids[i] = (*buffer)->id();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(ids, testing::Each(ids[0]));
  EXPECT_EQ(counting->bytes_read, source.matrix.size());
  EXPECT_EQ(cache->counters().uploads, 1u);
  EXPECT_EQ(cache->cached_count(), 1u);
  EXPECT_EQ(cache->cached_bytes(), source.matrix.size());
  EXPECT_EQ(ledger(), source.matrix.size());
}

TEST_F(Cache, ConcurrentFirstUsesOfTilesAndExpertsUploadOnce) {
  for (const uint64_t budget : {uint64_t{0}, source.matrix.size() + 6 * 1024 + 6 * source.vector.size()}) {
    SCOPED_TRACE(budget);
    open(std::make_shared<CountingSource>(source.file()), {.budget = budget});
    counting->delay_ms = 10;
    std::vector<std::thread> threads;
    std::vector<std::vector<TileBuffer>> tiles(6);
    std::vector<TileBuffer> experts(6);
    for (size_t i = 0; i < 6; ++i)
      threads.emplace_back([&, i] {
        if (auto held = cache->tiles("token_embd.weight", 64 * 256)) tiles[i] = std::move(*held);
        if (auto held = cache->expert("blk.1.ffn_up_exps.weight", i / 3)) experts[i] = std::move(*held);
      });
    for (auto& thread : threads) thread.join();
    for (size_t i = 0; i < 6; ++i) {
      ASSERT_EQ(tiles[i].size(), 5u);
      for (size_t t = 0; t < 5; ++t) EXPECT_EQ(tiles[i][t].buffer->id(), tiles[0][t].buffer->id());
      ASSERT_TRUE(experts[i].buffer);
      EXPECT_EQ(experts[i].buffer->id(), experts[i / 3 * 3].buffer->id());
    }
    EXPECT_EQ(cache->counters().uploads, 7u);
    EXPECT_EQ(counting->bytes_read, source.matrix.size() + 2 * 1024);
    EXPECT_EQ(ledger(), source.matrix.size() + 2 * 1024);
  }
}

TEST_F(Cache, AFailedReadLeavesNothingBehind) {
  counting->failures = 1;
  counting->delay_ms = 20;
  std::atomic<int> good = 0, bad = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { ++(cache->buffer("quantised.weight") ? good : bad); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad, 1) << "one met the failure; who waited tried again";
  EXPECT_EQ(good, 3);
  EXPECT_EQ(ledger(), source.quantised.size());
  cache->drop_prefix_destroy("");
  counting->failures = 1;
  auto error = cache->tiles("token_embd.weight", 64 * 256);
  ASSERT_FALSE(error);
  EXPECT_THAT(error.error().message, HasSubstr("the network is away"));
  auto again = cache->tiles("token_embd.weight", 64 * 256);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(contents(again->back().buffer), part(source.matrix, 256 * 256, 44 * 256));
}

TEST_F(Cache, LoadingTellsProgressAndCanBeCancelled) {
  std::vector<TileRef> tiles;
  for (const char* name : {"token_embd.weight", "blk.0.ffn_up.weight", "quantised.weight"}) tiles.push_back((*cache->tensor(name))->tiles[0]);
  std::vector<uint64_t> steps;
  uint64_t total = 0;
  auto ok = cache->load(tiles, [&](uint64_t done, uint64_t all) { return steps.push_back(done), total = all, true; });
  ASSERT_TRUE(ok) << ok.error().message;
  EXPECT_EQ(total, source.matrix.size() + source.half.size() + source.quantised.size());
  EXPECT_EQ(steps.front(), 0u);
  EXPECT_EQ(steps.back(), total);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  cache->drop_prefix_destroy("");
  auto cancelled = cache->load(tiles, [&](uint64_t done, uint64_t) { return done == 0; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().kind, ErrorKind::Cancelled);
  EXPECT_EQ(ledger(), cache->cached_bytes()) << "buffers of what was not reached are gone";
  EXPECT_TRUE(cache->load(tiles, {}));
}

// ---- under a budget -------------------------------------------------------------------------------------------------

TEST_F(Cache, TheBudgetHoldsAtEveryMoment) {
  const uint64_t budget = 3 * source.half.size() + 6 * source.vector.size();
  open(std::make_shared<CountingSource>(source.file()), {.budget = budget});
  ASSERT_TRUE(cache->bounded());
  for (int round = 0; round < 3; ++round)
    for (int layer : {0, 1, 2, 10, 11}) {
      EXPECT_EQ(contents(*cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight")), source.half);
      EXPECT_EQ(contents(*cache->buffer("blk." + std::to_string(layer) + ".attn_norm.weight")), source.vector);
    }
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), budget);
  EXPECT_EQ(watched.complaint, "");
  const Counters counters = cache->counters();
  EXPECT_GE(counters.evictions, 12u);
  EXPECT_EQ(counters.recycled, counters.evictions) << "all have one size";
  EXPECT_EQ(watched.destroyed, 0);
}

TEST_F(Cache, OtherSizesAreDestroyedInOrder) {
  const uint64_t budget = source.matrix.size() + 6 * source.vector.size();
  open(std::make_shared<CountingSource>(source.file()), {.budget = budget});
  auto plan = plan_that_reads("blk.1.ffn_up.weight");
  Attached attached(*cache, *plan);
  for (int round = 0; round < 3; ++round) {
    replay(*plan);
    EXPECT_EQ(contents(result), part(source.half, 0, 64));
    EXPECT_EQ(contents(*cache->buffer("token_embd.weight")), source.matrix);
  }
  EXPECT_EQ(watched.complaint, "");
  EXPECT_GE(watched.destroyed, 4);
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), budget);
}

TEST_F(Cache, WhatACallerHoldsStays) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 2 * source.half.size() + 6 * source.vector.size()});
  auto held = *cache->buffer("blk.0.ffn_up.weight");
  for (int layer : {1, 2, 10, 11, 1}) ASSERT_TRUE(cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight"));
  EXPECT_EQ((*cache->buffer("blk.0.ffn_up.weight"))->id(), held->id());
  EXPECT_EQ(contents(held), source.half);
  auto too_much = cache->buffer("token_embd.weight");
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().kind, ErrorKind::OutOfMemory);
  EXPECT_THAT(too_much.error().message, HasSubstr("raise --gpu-budget"));
  auto loose = cache->tile("blk.2.ffn_up.weight", 0);
  ASSERT_TRUE(loose) << loose.error().message;
  EXPECT_FALSE(cache->tile("blk.10.ffn_up.weight", 0)) << "loose tiles count towards the budget";
  loose->buffer.reset();
  EXPECT_TRUE(cache->tile("blk.10.ffn_up.weight", 0));
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), cache->budget());
}

TEST_F(Cache, TheLeastRecentlyUsedLeaves) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 3 * source.half.size() + 6 * source.vector.size()});
  const auto use = [&](int layer) { ASSERT_TRUE(cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight")); };
  use(0), use(1), use(2);
  use(0);                        // so 1 is the oldest
  use(10);
  const uint64_t uploads = cache->counters().uploads;
  use(0), use(2), use(10);
  EXPECT_EQ(cache->counters().uploads, uploads);
  use(1);
  EXPECT_EQ(cache->counters().uploads, uploads + 1);
}

TEST_F(Cache, ExpertsLeaveSinglyByUse) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 3 * 1024 + 6 * source.vector.size()});
  const auto use = [&](uint64_t e) { EXPECT_EQ(contents(cache->expert("blk.1.ffn_up_exps.weight", e)->buffer), part(source.experts, e * 1024, 1024)); };
  use(0), use(1), use(2);
  use(0);                        // so 1 is the oldest
  use(5);
  EXPECT_EQ(cache->cached_bytes(), 3u * 1024);
  EXPECT_EQ(cache->counters().evictions, 1u);
  use(0), use(2), use(5);
  EXPECT_EQ(cache->counters().uploads, 4u);
  use(1);
  EXPECT_EQ(cache->counters().uploads, 5u);
}

TEST_F(Cache, VectorsStay) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 2 * source.half.size() + 6 * source.vector.size()});
  const int layers[] = {0, 1, 2, 10, 11};
  const auto norm = [&](int layer) { return (*cache->buffer("blk." + std::to_string(layer) + ".attn_norm.weight"))->id(); };
  std::vector<uint64_t> ids;
  for (int layer : layers) ids.push_back(norm(layer));
  for (int round = 0; round < 3; ++round)
    for (int layer : layers) ASSERT_TRUE(cache->buffer("blk." + std::to_string(layer) + ".ffn_up.weight"));
  EXPECT_GE(cache->counters().evictions, 10u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(norm(layers[i]), ids[i]);
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), cache->budget());
}

TEST_F(Cache, WhatComesNextIsReadMeanwhile) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 2 * source.half.size() + 6 * source.vector.size()});
  std::vector<std::string> names;
  for (int layer : {0, 1, 2, 10, 11}) names.push_back("blk." + std::to_string(layer) + ".ffn_up.weight");
  auto plan = plan_that_reads(names);
  Attached attached(*cache, *plan);
  const Stage stage[] = {{plan.get(), {1, 1, 1}}};
  uint64_t ahead = 0;
  for (int round = 0; round < 3; ++round) {
    auto dispatches = cache->run(stage);
    ASSERT_TRUE(dispatches) << dispatches.error().message;
    EXPECT_EQ(*dispatches, 5u);
    EXPECT_EQ(contents(result), part(source.half, 0, 64));
    // Another round may follow: what it begins with, and is not there, is on its way without anybody waiting for it.
    for (int i = 0; i < 500 && counting->bytes_read <= cache->counters().upload_bytes; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ahead = counting->bytes_read - cache->counters().upload_bytes;
    EXPECT_GE(ahead, source.half.size());
    EXPECT_LE(ahead, 5 * source.half.size()) << "and nothing is read twice";
  }
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), cache->budget());
  EXPECT_EQ(watched.complaint, "");
}

TEST_F(Cache, ThreadsThatUseAndDropKeepToTheBudget) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = source.matrix.size() / 2 + 6 * source.vector.size()});
  std::atomic<int> wrong = 0, refused = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int n = 0; n < 60; ++n) {
        const uint64_t which = random() % 4;
        if (which == 0 && n % 10 == 0) cache->drop_prefix_destroy("blk.1");
        auto held = which == 1 ? cache->tiles("blk.10.ffn_up.weight", 32 * 64) : cache->tiles(which == 2 ? "quantised.weight" : "blk.1.ffn_up.weight");
        if (!held) { ++refused; continue; }
        if (held->front().buffer->size() != held->front().rows * (which == 2 ? 144 : 64)) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(refused, 0) << "what four threads hold together fits";
  EXPECT_LE(watched.device->ledger().peak(gpu::Memory::Weights), cache->budget());
  EXPECT_EQ(ledger(), cache->cached_bytes());
  EXPECT_EQ(contents(*cache->buffer("blk.1.ffn_up.weight")), source.half);
}

TEST_F(Cache, ABudgetThatHoldsEverythingIsNone) {
  open(std::make_shared<CountingSource>(source.file()), {.budget = 1 << 30});
  EXPECT_FALSE(cache->bounded());
}

}  // namespace
}  // namespace gull::weights
