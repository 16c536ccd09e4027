// The parts of HTTP that need no library.
#include "gguf/http.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"

namespace gull::gguf {

std::string HttpHead::validator() const {
  if (!etag.empty() && !etag.starts_with("W/")) return etag;
  return last_modified;
}

std::string without_credentials(const std::string& url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string::npos) return url;
  const size_t host = scheme + 3, end = url.find_first_of("/?#", host), at = url.substr(0, end).rfind('@');
  return at == std::string::npos || at < host ? url : url.substr(0, host) + url.substr(at + 1);
}

Result<void> HttpRetry::after(HttpFailure failure, uint64_t progress) {
  constexpr uint64_t kRealProgress = 64 << 10;
  if (!failure.transient) return fail(std::move(failure.error));
  if (progress >= kRealProgress) failures_ = 0;
  if (++failures_ > options_.retries) {
    failure.error.message += fmt::format("; given up after {} tries", failures_);
    return fail(std::move(failure.error));
  }
  const int64_t pause = std::min<int64_t>(8000, int64_t{options_.backoff_ms} << std::min(failures_ - 1, 10));
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(std::max<int64_t>(pause, 1000 * std::min(failure.retry_after_s, 60)));
  while (std::chrono::steady_clock::now() < until) {
    if (options_.cancel != nullptr && options_.cancel->load()) return fail(ErrorKind::Cancelled, "the transfer was cancelled");
    std::this_thread::sleep_until(std::min(until, std::chrono::steady_clock::now() + std::chrono::milliseconds(50)));
  }
  return {};
}

}  // namespace gull::gguf
