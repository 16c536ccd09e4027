// The bind-group cache alone, without a GPU: what it keeps, what it drops, and in which order.
#include "dispatch/bind_group_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gull::dispatch {
namespace {

GroupKey key_of(uint64_t pipeline, std::initializer_list<uint64_t> operands) {
  GroupKey key;
  key.pipeline = pipeline;
  for (uint64_t id : operands) key.add({id, 0, 256});
  return key;
}

std::shared_ptr<GroupEntry> entry_of(const GroupKey& key, uint32_t param_bytes = 16) {
  auto entry = std::make_shared<GroupEntry>();
  entry->key = key;
  entry->param_bytes = param_bytes;
  return entry;
}

void expect_in_step(const BindGroupCache& cache) { EXPECT_EQ(cache.stats().live, cache.stats().order_length); }

TEST(BindGroupCache, ReturnsWhatWasInserted) {
  BindGroupCache cache;
  const GroupKey key = key_of(7, {1, 2, 3});
  EXPECT_EQ(cache.find(key, 16), nullptr);
  const GroupRef kept = cache.insert(entry_of(key));
  EXPECT_EQ(cache.find(key, 16), kept);
  EXPECT_EQ(cache.stats().hits, 1u);
  EXPECT_EQ(cache.stats().misses, 1u);
}

TEST(BindGroupCache, TellsApartPipelineLayoutOrderOffsetAndSize) {
  BindGroupCache cache;
  cache.insert(entry_of(key_of(7, {1, 2})));
  EXPECT_EQ(cache.find(key_of(8, {1, 2}), 16), nullptr);
  EXPECT_EQ(cache.find(key_of(7, {2, 1}), 16), nullptr);
  EXPECT_EQ(cache.find(key_of(7, {1}), 16), nullptr);
  EXPECT_EQ(cache.find(key_of(7, {1, 2, 2}), 16), nullptr);
  GroupKey other = key_of(7, {1, 2});
  other.ranges[1].offset = 256;
  EXPECT_EQ(cache.find(other, 16), nullptr);
  other = key_of(7, {1, 2});
  other.ranges[0].size = 512;
  EXPECT_EQ(cache.find(other, 16), nullptr);
  other = key_of(7, {1, 2});
  other.layout = 1;
  EXPECT_EQ(cache.find(other, 16), nullptr);
  EXPECT_NE(cache.find(key_of(7, {1, 2}), 16), nullptr);
}

TEST(BindGroupCache, TheSixtyFifthEvictsTheFirstWhateverWasUsed) {
  BindGroupCache cache;
  for (uint64_t i = 0; i < 64; ++i) cache.insert(entry_of(key_of(1, {i})));
  EXPECT_NE(cache.find(key_of(1, {0}), 16), nullptr);   // used last, and still the oldest inserted
  EXPECT_EQ(cache.stats().evictions, 0u);
  cache.insert(entry_of(key_of(1, {64})));
  EXPECT_EQ(cache.find(key_of(1, {0}), 16), nullptr);
  for (uint64_t i = 1; i <= 64; ++i) EXPECT_NE(cache.find(key_of(1, {i}), 16), nullptr) << i;
  EXPECT_EQ(cache.stats().live, 64u);
  EXPECT_EQ(cache.stats().evictions, 1u);
  expect_in_step(cache);
}

TEST(BindGroupCache, AFreeEvictsExactlyItsOwn) {
  BindGroupCache cache;
  cache.insert(entry_of(key_of(1, {1, 2})));
  const GroupRef doomed = cache.insert(entry_of(key_of(1, {3, 4})));
  cache.insert(entry_of(key_of(2, {5, 3})));
  cache.insert(entry_of(key_of(3, {30, 13})));
  EXPECT_EQ(cache.evict(3), 2u);
  EXPECT_TRUE(doomed->dead);
  EXPECT_NE(cache.find(key_of(1, {1, 2}), 16), nullptr);
  EXPECT_NE(cache.find(key_of(3, {30, 13}), 16), nullptr);
  EXPECT_EQ(cache.find(key_of(1, {3, 4}), 16), nullptr);
  EXPECT_EQ(cache.find(key_of(2, {5, 3}), 16), nullptr);
  EXPECT_EQ(cache.evict(3), 0u);
  expect_in_step(cache);
}

TEST(BindGroupCache, ParametersOfAnotherSizeAreRebuiltNeverOverrun) {
  BindGroupCache cache;
  const GroupKey key = key_of(1, {1});
  const GroupRef small = cache.insert(entry_of(key, 16));
  EXPECT_EQ(cache.find(key, 32), nullptr);
  EXPECT_EQ(cache.stats().rebuilds, 1u);
  const GroupRef large = cache.insert(entry_of(key, 32));
  EXPECT_NE(small, large);
  EXPECT_EQ(cache.find(key, 32), large);
  // Two threads that disagree about the size: the later insertion counts.
  const GroupRef again = cache.insert(entry_of(key, 16));
  EXPECT_EQ(again->param_bytes, 16u);
  EXPECT_EQ(cache.find(key, 16), again);
  expect_in_step(cache);
}

TEST(BindGroupCache, OfTwoThatMissedTogetherTheFirstStays) {
  BindGroupCache cache;
  const GroupRef first = cache.insert(entry_of(key_of(1, {1})));
  const GroupRef second = cache.insert(entry_of(key_of(1, {1})));
  EXPECT_EQ(first, second);
  EXPECT_EQ(cache.stats().live, 1u);
  expect_in_step(cache);
}

TEST(BindGroupCache, TheOrderNeverOutgrowsTheEntries) {
  BindGroupCache cache;
  for (uint64_t i = 0; i < 100000; ++i) {
    cache.insert(entry_of(key_of(1, {i, 0xffffffff})));
    if (i % 3) cache.evict(i);
    const GroupStats stats = cache.stats();
    ASSERT_LE(stats.live, 64u);
    ASSERT_EQ(stats.live, stats.order_length);
  }
  cache.clear();
  EXPECT_EQ(cache.stats().live, 0u);
  expect_in_step(cache);
}

TEST(BindGroupCache, SurvivesEightThreads) {
  BindGroupCache cache(16);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&cache, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        const GroupKey key = key_of(i % 5, {i % 23, t % 2});
        GroupRef found = cache.find(key, 16);
        if (!found) found = cache.insert(entry_of(key));
        EXPECT_TRUE(found->key == key);
        if (i % 17 == 0) cache.evict(i % 23);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.stats().live, 16u);
  expect_in_step(cache);
}

}  // namespace
}  // namespace gull::dispatch
