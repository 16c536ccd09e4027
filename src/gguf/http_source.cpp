#include "gguf/http_source.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "gguf/sources.h"

namespace gull::gguf {
namespace {

constexpr uint64_t kFirstBytes = 256 << 10;   // most of a header, asked for together with the length

class HttpSource final : public ByteSource {
 public:
  HttpSource(const std::string& url, const HttpOptions& options) : client_(url, options) {}
  const std::string& name() const override { return client_.name(); }
  uint64_t size() const override { return size_; }

  /// The first request: length, validator, and the first bytes.
  Result<void> connect() {
    HttpRetry retry(client_.options());
    while (true) {
      start_.clear();
      HttpStep step = client_.get(
          {.first = 0, .last = kFirstBytes - 1}, [&](const HttpHead& head) { return learn(head); },
          [&](std::span<const std::byte> bytes) { return append_start(bytes); });
      if (!step && start_.size() == expected_start_) return {};
      if (!step) step = failure(true, fmt::format("the server sent {} bytes and promised {}", start_.size(), expected_start_));
      if (auto again = retry.after(std::move(*step), 0); !again) return again;
    }
  }

  Result<void> read(uint64_t offset, std::span<std::byte> out) override {
    if (auto inside = check_range(*this, offset, out.size()); !inside) return inside;
    if (offset < start_.size()) {
      const size_t ready = std::min<uint64_t>(out.size(), start_.size() - offset);
      std::memcpy(out.data(), start_.data() + offset, ready);
      offset += ready, out = out.subspan(ready);
    }
    HttpRetry retry(client_.options());
    while (!out.empty()) {
      size_t done = 0;
      HttpStep step = fetch(offset, out, done);
      offset += done, out = out.subspan(done);
      if (!step && done > 0) continue;   // a server may send less than it was asked for: the rest is asked for again
      if (!step) step = failure(true, fmt::format("the server sent nothing at byte {}", offset));
      if (auto again = retry.after(std::move(*step), done); !again) return again;
    }
    return {};
  }

 private:
  HttpStep failure(bool transient, const std::string& what, ErrorKind kind = ErrorKind::Io) const {
    return HttpFailure{{kind, fmt::format("{}: {}", name(), what)}, transient};
  }

  HttpStep check_plain(const HttpHead& head) const {
    if (head.content_type.starts_with("text/html"))
      return failure(false, "is a web page, not a GGUF file: use the address of the file itself", ErrorKind::BadFile);
    if (!head.content_encoding.empty() && head.content_encoding != "identity")
      return failure(false, fmt::format("the server sends it encoded ('{}'), so ranges make no sense", head.content_encoding),
                     ErrorKind::Unsupported);
    return {};
  }

  HttpStep learn(const HttpHead& head) {
    if (HttpStep refused = check_plain(head)) return refused;
    if (head.status == 416 && head.range_total.value_or(0) == 0) return size_ = expected_start_ = 0, HttpStep{};
    if (head.status == 200)
      return failure(false,
                     fmt::format("the server does not answer requests for ranges{}: download the file first",
                                 head.length ? " (it would send all " + human_bytes(*head.length) + ")" : ""),
                     ErrorKind::Unsupported);
    if (head.status != 206 || !head.has_range || head.range_first != 0)
      return failure(true, "the server answers a request for the first bytes with others");
    if (!head.range_total)
      return failure(false, "the server does not tell the length of the file: download it first", ErrorKind::Unsupported);
    if (head.range_last + 1 > kFirstBytes || (head.length && *head.length != head.range_last + 1))
      return failure(true, "the server contradicts itself about lengths");
    size_ = *head.range_total;
    expected_start_ = head.range_last + 1;
    etag_ = head.etag, last_modified_ = head.last_modified, validator_ = head.validator();
    return {};
  }

  HttpStep append_start(std::span<const std::byte> bytes) {
    if (start_.size() + bytes.size() > expected_start_)
      return size_ == 0 ? HttpStep{} : failure(true, "the server sends more than it promised");
    start_.insert(start_.end(), bytes.begin(), bytes.end());
    return {};
  }

  HttpStep changed() const { return failure(false, "the file changed on the server while it was being read: open it again"); }

  /// An answer to a later request: of the same file, and the bytes that were asked for.
  HttpStep check(const HttpHead& head, uint64_t offset, uint64_t wanted) const {
    if (HttpStep refused = check_plain(head)) return refused;
    if ((!etag_.empty() && !head.etag.empty() && head.etag != etag_) ||
        (!last_modified_.empty() && !head.last_modified.empty() && head.last_modified != last_modified_))
      return changed();
    if (head.status == 200 || head.status == 416 || (head.range_total && *head.range_total != size_)) return changed();
    if (!head.has_range || head.range_first != offset || head.range_last - offset >= wanted)
      return failure(true, fmt::format("the server sends other bytes than those asked for at byte {}", offset));
    if (head.length && *head.length != head.range_last - head.range_first + 1)
      return failure(true, fmt::format("the server contradicts itself about lengths at byte {}", offset));
    return {};
  }

  /// One request for all of `out`; `done` says how many bytes have arrived, also where it fails.
  HttpStep fetch(uint64_t offset, std::span<std::byte> out, size_t& done) {
    uint64_t promised = 0;
    const HttpStep step = client_.get(
        {.first = offset, .last = offset + out.size() - 1, .if_range = validator_},
        [&](const HttpHead& head) { return promised = head.range_last - offset + 1, check(head, offset, out.size()); },
        [&](std::span<const std::byte> bytes) {
          if (bytes.size() > promised - done)
            return failure(true, fmt::format("the server sends more than it promised at byte {}", offset));
          std::memcpy(out.data() + done, bytes.data(), bytes.size());
          done += bytes.size();
          return HttpStep{};
        });
    return step;
  }

  HttpClient client_;
  uint64_t size_ = 0, expected_start_ = 0;
  std::vector<std::byte> start_;
  std::string etag_, last_modified_, validator_;
};

}  // namespace

Result<std::shared_ptr<ByteSource>> http_source(const std::string& url, const HttpOptions& options) {
  auto source = std::make_shared<HttpSource>(url, options);
  if (auto connected = source->connect(); !connected) return fail(std::move(connected.error()));
  return source;
}

Result<std::shared_ptr<File>> open_url(const std::string& url, const HttpOptions& options) {
  auto source = http_source(url, options);
  if (!source) return fail(std::move(source.error()));
  const std::string shown = without_credentials(url);
  // Names of siblings are made from the name without credentials; the requests need them again.
  const size_t host = shown.find("://") + 3;
  const std::string credentials = url.substr(host, url.size() - shown.size());
  return File::open(std::move(*source), [&](const std::string& name) {
    return http_source(name.substr(0, host) + credentials + name.substr(host), options);
  });
}

}  // namespace gull::gguf
