// Reading and downloading over HTTP from a server that misbehaves: the right bytes, or one clear error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>

#include "base/sha256.h"
#include "gguf/download.h"
#include "gguf/http_source.h"
#include "gguf/test_files.h"
#include "gguf/test_server.h"
#include "gguf/writer.h"

using namespace gull;
using namespace gull::gguf;
using testing::HasSubstr;

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

Bytes random_bytes(size_t n, uint32_t seed = 1) {
  std::mt19937 random(seed);
  Bytes out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

/// Quick to give up, so that the tests are quick.
HttpOptions impatient() { return {.retries = 4, .backoff_ms = 1, .connect_timeout_s = 2, .stall_timeout_s = 1}; }

Bytes tiny_model(uint64_t weights = 4096) {
  const Bytes data = random_bytes(weights * 4, 9);
  return *Writer().set("general.architecture", "llama").tensor("w", Type::F32, {weights}, data).bytes();
}

class Http : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
    server.put("/m.gguf", {content});
    folder = fs::temp_directory_path() / fmt::format("gull-http-test-{}", ::getpid());
    fs::remove_all(folder);
    fs::create_directories(folder);
    target = (folder / "m.bin").string();
  }
  void TearDown() override { fs::remove_all(folder); }

  Result<std::shared_ptr<ByteSource>> open() { return http_source(server.url("/m.gguf"), impatient()); }

  /// Opens and reads all of it, in pieces of odd sizes.
  Result<Bytes> read_all() {
    auto source = open();
    if (!source) return fail(source.error());
    Bytes out((*source)->size());
    for (size_t at = 0, piece = 100003; at < out.size(); at += piece)
      if (auto read = (*source)->read(at, std::span(out).subspan(at, std::min(piece, out.size() - at))); !read)
        return fail(read.error());
    return out;
  }

  void expect_read() {
    const auto got = read_all();
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(*got == content);
  }

  void expect_error(const std::string& part, const Error& error) {
    EXPECT_THAT(error.message, HasSubstr(part));
    EXPECT_TRUE(error.message.starts_with(server.url("/m.gguf") + ": ")) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
  }
  void expect_refused(const std::string& part) {
    const auto got = read_all();
    ASSERT_FALSE(got);
    expect_error(part, got.error());
  }

  DownloadOptions quick() {
    DownloadOptions options;
    options.http = impatient();
    return options;
  }
  Result<void> fetch(const DownloadOptions& options) { return download(server.url("/m.gguf"), target, options); }
  void expect_downloaded(const DownloadOptions& options) {
    const auto done = fetch(options);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(read_file(target) == content);
    EXPECT_FALSE(fs::exists(target + ".part"));
    EXPECT_FALSE(fs::exists(target + ".part.id"));
  }

  TestServer server;
  Bytes content = random_bytes(3'000'000);
  fs::path folder;
  std::string target;
};

}  // namespace

// Reading by ranges.

TEST_F(Http, ReadsWhatIsThere) {
  expect_read();
  for (const ServerRequest& request : server.requests()) EXPECT_TRUE(request.first && request.last);
  auto source = open();
  ASSERT_TRUE(source);
  Bytes out(2);
  EXPECT_FALSE((*source)->read(content.size() - 1, out));
  EXPECT_FALSE((*source)->read(~0ull, out));
  EXPECT_TRUE((*source)->read(content.size(), std::span(out).first(0)));
}

TEST_F(Http, OpensAModel) {
  server.put("/m.gguf", {read_file(data_path("gguf_py.gguf"))});
  const auto file = open_url(server.url("/m.gguf"), impatient());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ((*file)->architecture(), "llama");
  EXPECT_EQ(server.requests().size(), 1u) << "a small header comes with the first request";
  server.put("/m.gguf", {tiny_model(1 << 20)});
  const auto large = open_url(server.url("/m.gguf"), impatient());
  ASSERT_TRUE(large);
  Bytes data(4 << 20);
  ASSERT_TRUE((*large)->read((*large)->tensors()[0], 0, data));
  EXPECT_TRUE(data == random_bytes(4 << 20, 9));
}

TEST_F(Http, AServerThatIgnoresRangesIsNoticedBeforeTheDownload) {
  content = random_bytes(64 << 20);
  server.put("/m.gguf", {content});
  server.behave([](const ServerRequest&) { return Quirks{.ignore_ranges = true}; });
  expect_refused("the server does not answer requests for ranges (it would send all 64.0 MiB): download the file first");
  EXPECT_LT(server.body_bytes(), 16u << 20);   // what fits into the buffers of the connection
}

TEST_F(Http, ConnectionsThatDropAtRandom) {
  std::mt19937 random(5);
  std::mutex mutex;
  server.behave([&](const ServerRequest& request) {
    std::lock_guard lock(mutex);
    return request.number % 4 == 3 ? Quirks{} : Quirks{.drop_after = random() % 200000};
  });
  expect_read();
}

TEST_F(Http, BodiesThatEndEarly) {
  server.behave([](const ServerRequest& request) { return request.number % 2 ? Quirks{} : Quirks{.end_after = 5000}; });
  expect_read();
  server.behave([](const ServerRequest&) { return Quirks{.end_after = 0}; });
  expect_refused("given up after 5 tries");
}

TEST_F(Http, DelaysAndStalls) {
  server.behave([](const ServerRequest&) { return Quirks{.delay_ms = 20, .stall_ms = 20}; });
  expect_read();
  server.behave([](const ServerRequest& request) { return request.number % 8 ? Quirks{} : Quirks{.stall_ms = 5000}; });
  expect_read();
}

TEST_F(Http, AServerThatNeverGoesOnEndsInAnError) {
  server.behave([](const ServerRequest&) { return Quirks{.stall_ms = 20000}; });
  HttpOptions options = impatient();
  options.retries = 1;
  const auto start = std::chrono::steady_clock::now();
  const auto source = http_source(server.url("/m.gguf"), options);
  ASSERT_FALSE(source);
  expect_error("given up after 2 tries", source.error());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(7));
}

TEST_F(Http, StatusesThatPassAndThatDoNot) {
  for (int status : {408, 429, 500, 502, 503, 504}) {
    server.behave([=](const ServerRequest& request) { return request.number % 3 ? Quirks{.status = status} : Quirks{}; });
    expect_read();
  }
  server.behave([](const ServerRequest&) { return Quirks{.status = 503}; });
  expect_refused("the server answers 503; given up after 5 tries");
  const size_t before = server.requests().size();
  server.behave([](const ServerRequest&) { return Quirks{.status = 403}; });
  expect_refused("the server refuses access (403)");
  server.behave([](const ServerRequest&) { return Quirks{.status = 204}; });
  expect_refused("the server answers 204 where a file was expected");
  EXPECT_EQ(server.requests().size(), before + 2) << "asked again although the answer is final";
  EXPECT_EQ(http_source(server.url("/absent.gguf"), impatient()).error().kind, ErrorKind::NotFound);
}

TEST_F(Http, RetryAfterIsHeeded) {
  server.behave([](const ServerRequest& request) {
    return request.number == 0 ? Quirks{.status = 503, .headers = "Retry-After: 1\r\n"} : Quirks{};
  });
  const auto start = std::chrono::steady_clock::now();
  expect_read();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST_F(Http, AFileThatChangesUnderneathIsNoticed) {
  auto source = open();
  ASSERT_TRUE(source);
  Bytes out(1000);
  ASSERT_TRUE((*source)->read(1'000'000, out));
  const auto expect_changed = [&] {
    const auto read = (*source)->read(1'000'000, out);
    ASSERT_FALSE(read);
    expect_error("the file changed on the server while it was being read: open it again", read.error());
  };
  server.put("/m.gguf", {random_bytes(3'000'000, 2), "\"v2\""});
  expect_changed();   // If-Range: 200 and the new file
  server.behave([](const ServerRequest&) { return Quirks{.honour_if_range = false}; });
  expect_changed();   // 206 with another ETag
  server.behave([](const ServerRequest&) { return Quirks{.no_etag = true, .honour_if_range = false}; });
  server.put("/m.gguf", {random_bytes(3'000'000, 2), "", "Tue, 01 Dec 2026 12:00:00 GMT"});
  expect_changed();   // only the date tells
  server.behave([](const ServerRequest&) { return Quirks{.no_etag = true, .no_date = true, .honour_if_range = false}; });
  server.put("/m.gguf", {random_bytes(2'999'999, 2)});
  expect_changed();   // only the length tells
  server.put("/m.gguf", {random_bytes(100, 2)});
  expect_changed();   // 416: there is no such range any more
}

TEST_F(Http, IfRangeIsSentWithStrongValidatorsOnly) {
  expect_read();
  EXPECT_EQ(server.requests().back().headers.at("if-range"), "\"v1\"");
  server.put("/m.gguf", {content, "W/\"v1\""});
  expect_read();
  EXPECT_EQ(server.requests().back().headers.at("if-range"), "Mon, 30 Nov 2026 12:00:00 GMT");
}

TEST_F(Http, WrongLengthsAndRanges) {
  const auto from_second_on = [&](Quirks quirks) {
    const int first = static_cast<int>(server.requests().size());
    server.behave([=](const ServerRequest& request) { return request.number == first ? Quirks{} : quirks; });
  };
  from_second_on({.length_off = -1000});
  expect_refused("the server contradicts itself about lengths at byte 262144");
  from_second_on({.length_off = 1000});
  expect_refused("the server contradicts itself about lengths at byte 262144");
  from_second_on({.range_off = 1});
  expect_refused("the server sends other bytes than those asked for at byte 262144");
  from_second_on({.no_length = true, .extra = 10});
  expect_refused("the server sends more than it promised");
  from_second_on({.serve_at_most = 30000});   // less than was asked for is allowed
  expect_read();
  from_second_on({.no_length = true});
  expect_read();
  server.behave([](const ServerRequest&) { return Quirks{.length_off = 7}; });
  expect_refused("the server contradicts itself about lengths");
  server.behave([](const ServerRequest&) { return Quirks{.range_off = 1}; });
  expect_refused("the server answers a request for the first bytes with others");
  // One mistake is forgiven.
  server.behave([](const ServerRequest& request) { return request.number % 3 ? Quirks{} : Quirks{.range_off = 3}; });
  expect_read();
}

TEST_F(Http, WebPagesAndEncodings) {
  server.behave([](const ServerRequest&) { return Quirks{.content_type = "text/html; charset=utf-8"}; });
  expect_refused("is a web page, not a GGUF file");
  server.behave([](const ServerRequest&) { return Quirks{.headers = "Content-Encoding: gzip\r\n"}; });
  expect_refused("the server sends it encoded ('gzip')");
}

TEST_F(Http, EmptyFile) {
  server.put("/m.gguf", {{}});
  const auto file = open_url(server.url("/m.gguf"), impatient());
  ASSERT_FALSE(file);
  expect_error("is empty", file.error());
}

TEST_F(Http, Redirections) {
  server.redirect("/there", server.url("/m.gguf"));
  const auto source = http_source(server.url("/there"), impatient());
  ASSERT_TRUE(source) << source.error().message;
  Bytes out(content.size());
  ASSERT_TRUE((*source)->read(0, out));
  EXPECT_TRUE(out == content);
  server.redirect("/loop", server.url("/loop"));
  EXPECT_FALSE(http_source(server.url("/loop"), impatient()));
  server.redirect("/file", "file:///etc/passwd");
  EXPECT_FALSE(http_source(server.url("/file"), impatient()));
}

TEST_F(Http, AddressesThatLeadNowhere) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(http_source("http://127.0.0.1:1/m.gguf", impatient()).error().kind, ErrorKind::Io);
  EXPECT_EQ(http_source("ftp://127.0.0.1/m.gguf", impatient()).error().kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(http_source("http://", impatient()).error().kind, ErrorKind::InvalidArgument);
  EXPECT_FALSE(http_source("", impatient()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << "no retries where nobody ever answered";
}

TEST_F(Http, CredentialsAreUsedAndNotShown) {
  const std::string url = "http://user:secret@" + server.url("/absent.gguf").substr(7);
  const auto source = http_source(url, impatient());
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message.find("secret"), std::string::npos) << source.error().message;
  EXPECT_EQ(server.requests().back().headers.at("authorization"), "Basic dXNlcjpzZWNyZXQ=");
  EXPECT_EQ(without_credentials("https://host/a@b"), "https://host/a@b");
}

TEST_F(Http, ManyThreadsReadAtOnce) {
  std::mutex mutex;
  std::mt19937 random(5);
  server.behave([&](const ServerRequest&) {
    std::lock_guard lock(mutex);
    return random() % 3 ? Quirks{} : Quirks{.drop_after = random() % 50000};
  });
  auto source = open();
  ASSERT_TRUE(source) << source.error().message;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 own(t);
      for (int i = 0; i < 20; ++i) {
        Bytes out(own() % 100000);
        const uint64_t at = own() % (content.size() - out.size());
        if (!(*source)->read(at, out) || !std::equal(out.begin(), out.end(), content.begin() + static_cast<ptrdiff_t>(at)))
          ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Http, CancellingEndsAStall) {
  std::atomic<bool> cancel = false;
  server.behave([](const ServerRequest&) { return Quirks{.stall_ms = 30000}; });
  HttpOptions options = impatient();
  options.stall_timeout_s = 60;
  options.cancel = &cancel;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel = true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(http_source(server.url("/m.gguf"), options).error().kind, ErrorKind::Cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  later.join();
}

TEST_F(Http, SplitModels) {
  const Bytes data = random_bytes(32);
  for (uint16_t i = 0; i < 3; ++i) {
    Writer part;
    if (i == 0) part.set("general.architecture", "llama");
    part.set("split.no", i)
        .set("split.count", uint16_t{3})
        .set("split.tensors.count", int32_t{3})
        .tensor(fmt::format("t{}", i), Type::F32, {8}, data);
    server.put(fmt::format("/s-{:05}-of-00003.gguf?download=true", i + 1), {*part.bytes()});
    if (i < 2) server.put(fmt::format("/x-{:05}-of-00003.gguf", i + 1), {*part.bytes()});
  }
  for (int i : {1, 2, 3}) {
    const auto file = open_url(server.url(fmt::format("/s-{:05}-of-00003.gguf?download=true", i)), impatient());
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ((*file)->tensors().size(), 3u);
  }
  const auto missing = open_url(server.url("/x-00002-of-00003.gguf"), impatient());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/x-00003-of-00003.gguf is missing"));
}

// Downloads.

TEST_F(Http, DownloadsWholeFiles) {
  DownloadOptions options = quick();
  options.sha256 = sha256_hex(content);
  options.bytes = content.size();
  uint64_t last = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, content.size());
    last = done;
  };
  expect_downloaded(options);
  EXPECT_EQ(last, content.size());
  // And over a file that is there already, from a server that knows nothing of ranges, chunked.
  server.behave(
      [](const ServerRequest&) { return Quirks{.ignore_ranges = true, .no_etag = true, .no_date = true, .chunked = true}; });
  options.progress = {};
  options.sha256 = "";
  expect_downloaded(options);
}

TEST_F(Http, DownloadGoesOnWhereItStopped) {
  std::atomic<bool> cancel = false;
  DownloadOptions options = quick();
  options.cancel = &cancel;
  options.sha256 = sha256_hex(content);
  options.progress = [&](uint64_t done, uint64_t) { cancel = done > 1'000'000; };
  const auto stopped = fetch(options);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::Cancelled);
  EXPECT_THAT(stopped.error().message, HasSubstr("are kept: the next try goes on from there"));
  EXPECT_FALSE(fs::exists(target));
  const uint64_t kept = fs::file_size(target + ".part");
  EXPECT_GT(kept, 1'000'000u);
  cancel = false;
  options.progress = [&](uint64_t done, uint64_t) { EXPECT_GT(done, kept); };
  expect_downloaded(options);
  EXPECT_EQ(server.requests().back().first, kept);
  EXPECT_EQ(server.requests().back().headers.at("if-range"), "\"v1\"");
}

TEST_F(Http, DownloadOfAFileThatChangedStartsAfresh) {
  std::atomic<bool> cancel = false;
  for (bool honest : {true, false}) {
    DownloadOptions options = quick();
    options.cancel = &cancel;
    options.progress = [&](uint64_t done, uint64_t) { cancel = done > 1'000'000; };
    server.put("/m.gguf", {random_bytes(3'000'000, 7), "\"old\""});
    EXPECT_FALSE(fetch(options));
    cancel = false;
    server.put("/m.gguf", {content, "\"new\""});
    server.behave([=](const ServerRequest&) { return Quirks{.honour_if_range = honest}; });
    options.progress = {};
    expect_downloaded(options);
  }
}

TEST_F(Http, DownloadOfAFileThatChangesMidwayStartsAfresh) {
  server.put("/m.gguf", {random_bytes(3'000'000, 7), "\"old\""});
  server.behave([&](const ServerRequest& request) {
    if (request.number != 0) return Quirks{};
    server.put("/m.gguf", {content, "\"new\""});
    return Quirks{.drop_after = 1'500'000, .etag = "\"old\""};
  });
  expect_downloaded(quick());
}

TEST_F(Http, DownloadThroughDroppingConnections) {
  std::mt19937 random(11);
  server.behave(
      [&](const ServerRequest& request) { return request.number % 5 == 4 ? Quirks{} : Quirks{.drop_after = random() % 400000}; });
  DownloadOptions options = quick();
  options.sha256 = sha256_hex(content);
  expect_downloaded(options);
}

TEST_F(Http, DownloadWithoutRangesStartsAfreshEachTime) {
  server.behave([](const ServerRequest& request) {
    return Quirks{.ignore_ranges = true, .drop_after = request.number < 2 ? std::optional<uint64_t>(900'000) : std::nullopt};
  });
  expect_downloaded(quick());
  server.behave([](const ServerRequest& request) {
    return Quirks{
        .no_etag = true, .no_date = true, .drop_after = request.number % 3 ? std::nullopt : std::optional<uint64_t>(900'000)};
  });
  expect_downloaded(quick());
}

TEST_F(Http, DownloadOfTheWrongFile) {
  DownloadOptions options = quick();
  options.sha256 = std::string(64, 'a');
  const auto wrong = fetch(options);
  ASSERT_FALSE(wrong);
  expect_error("has the SHA-256 " + sha256_hex(content), wrong.error());
  EXPECT_TRUE(fs::is_empty(folder));
  options.sha256 = "";
  options.bytes = 1000;
  const uint64_t before = server.body_bytes();
  const auto longer = fetch(options);
  ASSERT_FALSE(longer);
  expect_error("has 3000000 bytes on the server; 1000 were expected", longer.error());
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_LE(server.body_bytes() - before, content.size());
  options.bytes = 0;
  server.behave([](const ServerRequest&) { return Quirks{.content_type = "text/html"}; });
  expect_error("is a web page", fetch(options).error());
  server.behave([](const ServerRequest&) { return Quirks{.no_length = true}; });
  expect_error("the server does not tell the length of the file", fetch(options).error());
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Http, DownloadWithAWrongLength) {
  content = tiny_model();
  server.put("/m.gguf", {content});
  target = (folder / "m.gguf").string();
  server.behave([](const ServerRequest&) { return Quirks{.length_off = -1000}; });
  const auto cut = fetch(quick());
  ASSERT_FALSE(cut);
  expect_error("is truncated: tensor 'w' needs 16384 bytes", cut.error());
  EXPECT_TRUE(fs::is_empty(folder));
  server.behave([](const ServerRequest&) { return Quirks{.length_off = 1000}; });
  expect_downloaded(quick());   // the missing bytes are asked for; the server then says that there are none
}

TEST_F(Http, DownloadThatWasCompleteButNotRenamed) {
  const auto leave = [&](const Bytes& bytes) {
    std::ofstream(target + ".part", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  leave(content);
  std::ofstream(target + ".part.id") << "\"v1\"\n3000000\n";
  expect_downloaded(quick());
  EXPECT_TRUE(server.requests().empty());
  leave(content);   // complete, but the length is not known: 416 says so
  std::ofstream(target + ".part.id") << "\"v1\"\n0\n";
  expect_downloaded(quick());
  leave(random_bytes(5'000'000));   // longer than the file
  std::ofstream(target + ".part.id") << "\"v1\"\n0\n";
  expect_downloaded(quick());
  leave(random_bytes(1'000'000));   // of unknown origin
  expect_downloaded(quick());
}

TEST_F(Http, DownloadIsForOneProcessAtATime) {
  const int fd = ::open((target + ".part").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto busy = fetch(quick());
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().message, target + ".part: another program is downloading this file");
  ::close(fd);
  expect_downloaded(quick());
}

TEST_F(Http, DownloadToAPlaceThatIsNotThere) {
  target = (folder / "absent" / "m.bin").string();
  const auto done = fetch(quick());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, target + ".part: cannot create: No such file or directory");
}
