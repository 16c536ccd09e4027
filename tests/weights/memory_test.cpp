// What loading takes of the host's memory. The device is imaginary, so that no GPU memory is counted as the process's own.
#include <gtest/gtest.h>

#include <malloc.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "engine/impl.h"
#include "gguf/http_source.h"
#include "gguf/writer.h"
#include "support/fixtures.h"
#include "weights/weight_cache.h"

namespace gull {
namespace {

constexpr uint64_t kMiB = 1 << 20;

/// A line of /proc/self/status, in bytes: "RssAnon", "RssFile".
uint64_t status(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

/// Samples while it lives.
class Peak {
 public:
  Peak() : start_anon_(status("RssAnon")), start_file_(status("RssFile")) {
    sampler_ = std::thread([this] {
      while (!stop_) {
        anon_ = std::max(anon_.load(), status("RssAnon"));
        file_ = std::max(file_.load(), status("RssFile"));
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
  }
  ~Peak() {
    if (sampler_.joinable()) finish();
  }
  void finish() {
    stop_ = true;
    sampler_.join();
  }
  uint64_t anon() const { return anon_ - std::min(start_anon_, anon_.load()); }   ///< of the process's own
  uint64_t file() const { return file_ - std::min(start_file_, file_.load()); }   ///< mapped pages

 private:
  uint64_t start_anon_, start_file_;
  std::atomic<uint64_t> anon_ = 0, file_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread sampler_;
};

gpu::Caps large_caps() {
  gpu::Caps caps;
  caps.max_buffer = caps.max_binding = 1 << 30;
  caps.max_uniform = 65536;
  return caps;
}

/// Loads all weights of a file; gives the bytes that went to the GPU, 0 where that failed.
uint64_t loaded(const Result<std::shared_ptr<gguf::File>>& file) {
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return 0;
  auto device = gpu::Device::imaginary(large_caps());
  weights::WeightCache cache(device, *file, {});
  std::vector<weights::TileRef> tiles;
  for (const auto& info : (*file)->tensors())
    for (const auto& tile : (*cache.tensor(info.name))->tiles) tiles.push_back(tile);
  auto ok = cache.load(tiles, {});
  EXPECT_TRUE(ok) << ok.error().message;
  return ok ? device->ledger().use().weights : 0;
}

/// A file of some 200 MiB, sparse where it can be.
class Loading : public testing::Test {
 protected:
  static constexpr uint64_t kRows = 1600, kTensors = 32;   // 6.25 MiB each
  void SetUp() override {
    path = std::filesystem::temp_directory_path() / ("gull-memory-" + std::to_string(::getpid()) + ".gguf");
    std::vector<std::byte> data(kRows * 4096);
    gguf::Writer w;
    w.set("general.architecture", "llama");
    for (uint64_t i = 0; i < kTensors; ++i) w.tensor("blk." + std::to_string(i) + ".ffn_up.weight", gguf::Type::F32, {1024, kRows}, data);
    ASSERT_TRUE(w.save(path));
  }
  void TearDown() override { std::filesystem::remove(path); }

  void load_all(std::shared_ptr<ByteSource> source) { EXPECT_EQ(loaded(gguf::File::open(std::move(source))), kTensors * kRows * 4096); }
  std::string path;
};

/// Reads from a file without mapping it, as a network source would.
class Remote final : public ByteSource {
 public:
  explicit Remote(const std::string& path) : name_("http://server/file.gguf"), inner_(*file_source(path)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return inner_->size(); }
  Result<void> read(uint64_t offset, std::span<std::byte> out) override { return inner_->read(offset, out); }

 private:
  std::string name_;
  std::shared_ptr<ByteSource> inner_;
};

TEST_F(Loading, FromAMappedFileTakesLittleBeyondItsPages) {
  Peak peak;
  load_all(*mapped_file_source(path));
  peak.finish();
  EXPECT_LT(peak.anon(), 256 * kMiB);
  EXPECT_LT(peak.anon(), 100 * kMiB) << "the ring and its scratch memory";
  EXPECT_LT(peak.file(), 120 * kMiB) << "pages are given back once they are uploaded";
  RecordProperty("anon_mib", static_cast<int>(peak.anon() / kMiB));
  RecordProperty("file_mib", static_cast<int>(peak.file() / kMiB));
}

TEST_F(Loading, FromAServerTakesLessThan64MiB) {
  Peak peak;
  load_all(std::make_shared<Remote>(path));
  peak.finish();
  EXPECT_LT(peak.anon(), 64 * kMiB);
  RecordProperty("anon_mib", static_cast<int>(peak.anon() / kMiB));
}

/// The same for any model: GULL_LOAD names a file or an address.
TEST(LoadingAnyModel, TakesLittle) {
  const char* name = std::getenv("GULL_LOAD");
  if (!name) {
    std::cout << "notice: GULL_LOAD names no model; this was not tested\n";
    return;
  }
  const bool remote = std::string_view(name).find("://") != std::string_view::npos;
  Peak peak;
  const uint64_t bytes = loaded(remote ? gguf::open_url(name) : gguf::File::open_path(name));
  peak.finish();
  EXPECT_LT(peak.anon(), (remote ? 64 : 256) * kMiB);
  std::cout << bytes / kMiB << " MiB were loaded with " << peak.anon() / kMiB << " MiB of memory and " << peak.file() / kMiB << " MiB of mapped pages\n";
}

/// What the process has open, or runs: entries of /proc/self/fd, /proc/self/task.
size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// What the process holds. Free memory that the allocator keeps goes back first: how much that is depends on how threads met.
struct Held {
  uint64_t rss = 0, heap = 0;
  size_t files = 0, threads = 0;
  static Held now() {
    ::malloc_trim(0);
    return {status("VmRSS"), ::mallinfo2().uordblks, entries("/proc/self/fd"), entries("/proc/self/task")};
  }
};

/// Load, run, release, again and again: the ledger ends at nothing, and the process does not grow.
TEST(Cycles, LeaveMemoryFlat) {
  const char* asked = std::getenv("GULL_CYCLES");
  const int cycles = asked ? std::atoi(asked) : 200;
  const std::string path = test::data("fixtures/models/llama.f32.gguf");
  Held early;
  for (int i = 0; i < cycles; ++i) {
    LoadOptions options;
    options.context = 64;
    options.gpu_budget = i % 2 ? 200000 : 0;
    auto model = Model::load(path, options);
    ASSERT_TRUE(model) << model.error().message;
    auto device = (*model)->impl().device;
    {
      auto session = Session::create(*model);
      ASSERT_TRUE(session) << session.error().message;
      auto logits = (*session)->logits(std::vector<int32_t>{1, 2, 3});
      ASSERT_TRUE(logits) << logits.error().message;
    }
    model->reset();
    const MemoryUse use = device->ledger().use();
    ASSERT_EQ(use.total, 0u) << "cycle " << i;
    device.reset();
    if (i == cycles / 4) early = Held::now();
    if (asked && (i + 1) % 100 == 0) {
      const Held held = Held::now();
      std::cout << "cycle " << i + 1 << ": " << held.rss / 1024 << " KiB, of the heap " << held.heap << " bytes, " << held.files << " files, " << held.threads << " threads" << std::endl;
    }
  }
  const Held late = Held::now();
  RecordProperty("early_kib", static_cast<int>(early.rss / 1024));
  RecordProperty("late_kib", static_cast<int>(late.rss / 1024));
  EXPECT_LT(late.rss, early.rss + early.rss / 20 + 4 * kMiB) << "early " << early.rss << ", late " << late.rss;
  EXPECT_LT(late.heap, early.heap + kMiB / 16);
  EXPECT_EQ(late.files, early.files);
  EXPECT_EQ(late.threads, early.threads);
}

}  // namespace
}  // namespace gull
