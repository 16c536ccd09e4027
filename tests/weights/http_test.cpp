// A model whose weights come over HTTP from a server that misbehaves: the right ids, or one clear error; never a wrong weight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/impl.h"
#include "gguf/http_source.h"
#include "gguf/test_files.h"
#include "gguf/test_server.h"
#include "support/fixtures.h"

namespace gull {
namespace {

using testing::HasSubstr;

gguf::HttpOptions impatient() { return {.retries = 4, .backoff_ms = 1, .connect_timeout_s = 2, .stall_timeout_s = 1}; }

class HttpModel : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
    const std::string path = test::data("fixtures/models/q256.Q6_K.gguf");
    content = read_file(path);
    server.put("/m.gguf", {content});
    auto model = Model::load(path);
    ASSERT_TRUE(model) << model.error().message;
    total = (*model)->impl().weights->total_bytes();
    auto ids = generate(*model);
    ASSERT_TRUE(ids) << ids.error().message;
    want = *ids;
  }

  static Result<std::vector<int32_t>> generate(const std::shared_ptr<Model>& model) {
    auto session = Session::create(model);
    if (!session) return fail(session.error());
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = 5;
    options.ignore_eog = true;
    auto made = (*session)->generate(std::vector<int32_t>{5, 17, 99, 250, 3}, options);
    if (!made) return fail(made.error());
    return made->ids;
  }

  Result<std::vector<int32_t>> run(uint64_t budget) {
    auto file = gguf::open_url(server.url("/m.gguf"), impatient());
    if (!file) return fail(file.error());
    auto model = Model::load(*file, {.gpu_budget = budget});
    if (!model) return fail(model.error());
    return generate(*model);
  }

  void expect_right() {
    for (const uint64_t budget : {uint64_t{0}, total / 2}) {
      SCOPED_TRACE(budget);
      auto ids = run(budget);
      ASSERT_TRUE(ids) << ids.error().message;
      EXPECT_EQ(*ids, want);
    }
  }
  void expect_error(const std::string& part) {
    for (const uint64_t budget : {uint64_t{0}, total / 2}) {
      SCOPED_TRACE(budget);
      auto ids = run(budget);
      ASSERT_FALSE(ids);
      EXPECT_THAT(ids.error().message, HasSubstr(part));
      EXPECT_THAT(ids.error().message, HasSubstr(server.url("/m.gguf")));
      EXPECT_EQ(ids.error().message.find('\n'), std::string::npos);
    }
  }
  /// After the header, every answer is like this.
  void from_the_second_on(Quirks quirks) {
    server.behave([quirks](const ServerRequest& request) { return request.first.value_or(0) == 0 ? Quirks{} : quirks; });
  }

  TestServer server;
  std::vector<std::byte> content;
  std::vector<int32_t> want;
  uint64_t total = 0;
};

TEST_F(HttpModel, AServerThatBehaves) { expect_right(); }

TEST_F(HttpModel, DelaysDropsAndTruncations) {
  server.behave([](const ServerRequest&) { return Quirks{.delay_ms = 5}; });
  expect_right();
  std::mt19937 random(5);
  std::mutex mutex;
  server.behave([&](const ServerRequest& request) {
    std::lock_guard lock(mutex);
    if (request.number % 4 == 3) return Quirks{};
    return random() % 2 ? Quirks{.drop_after = random() % 60000} : Quirks{.end_after = random() % 60000};
  });
  expect_right();
  server.behave([](const ServerRequest&) { return Quirks{.serve_at_most = 30000}; });
  expect_right();
}

TEST_F(HttpModel, ServersThatCannotServeRanges) {
  server.behave([](const ServerRequest&) { return Quirks{.ignore_ranges = true}; });
  expect_error("does not answer requests for ranges");
  from_the_second_on({.ignore_ranges = true});
  expect_error("");
  from_the_second_on({.status = 416});
  expect_error("");
  from_the_second_on({.status = 404});
  expect_error("");
}

TEST_F(HttpModel, WrongLengthsAndRanges) {
  from_the_second_on({.length_off = -1000});
  expect_error("contradicts itself about lengths");
  from_the_second_on({.length_off = 1000});
  expect_error("contradicts itself about lengths");
  from_the_second_on({.range_off = 16});
  expect_error("sends other bytes than those asked for");
  from_the_second_on({.end_after = 0});
  expect_error("given up after 5 tries");
}

TEST_F(HttpModel, AFileThatChangesMidway) {
  std::atomic<int> answers = 0;
  server.behave([&](const ServerRequest&) {
    if (++answers == 4) {
      auto other = content;
      for (size_t i = 100000; i < other.size(); ++i) other[i] ^= std::byte{1};
      server.put("/m.gguf", {other, "\"v2\""});
    }
    return Quirks{};
  });
  auto ids = run(0);
  ASSERT_FALSE(ids);
  EXPECT_THAT(ids.error().message, HasSubstr("the file changed on the server while it was being read"));
}

TEST_F(HttpModel, AModelGoesOnAfterTheServerComesBack) {
  auto file = gguf::open_url(server.url("/m.gguf"), impatient());
  ASSERT_TRUE(file);
  auto model = Model::load(*file, {.gpu_budget = total / 2});
  ASSERT_TRUE(model) << model.error().message;
  server.behave([](const ServerRequest&) { return Quirks{.status = 403}; });
  auto refused = generate(*model);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("403"));
  server.behave({});
  auto ids = generate(*model);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, want);
}

}  // namespace
}  // namespace gull
