// HTTP(S) requests for bytes, over libcurl (MIT-like licence "curl"). Only http_curl.cpp knows it; a build without it has
// http_none.cpp, where every request is an error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "gull/error.h"

namespace gull::gguf {

struct HttpOptions {
  int retries = 5;                           ///< further tries after a failure that may pass, each after a longer pause
  int backoff_ms = 250;                      ///< the first pause; doubles each time, up to 8 s
  int connect_timeout_s = 20;
  int stall_timeout_s = 30;                  ///< a transfer that brings nothing for so long has failed
  const std::atomic<bool>* cancel = nullptr; ///< looked at about once a second, also while nothing arrives
};

struct HttpRequest {
  uint64_t first = 0;                  ///< the first byte that is wanted
  std::optional<uint64_t> last;        ///< the last one; none: to the end
  bool ranged = true;                  ///< false: no Range header, the whole file
  std::string if_range;                ///< answer with the whole file if this validator (ETag, date) no longer holds
};

/// The final response, redirections followed.
struct HttpHead {
  long status = 0;
  std::optional<uint64_t> length;                  ///< Content-Length
  bool has_range = false;                          ///< a Content-Range that makes sense; first > last: "bytes */total"
  uint64_t range_first = 1, range_last = 0;
  std::optional<uint64_t> range_total;
  std::string etag, last_modified, content_type, content_encoding;
  bool self_delimiting = false;                    ///< chunked or HTTP/2: a cut-off body is noticed without a length

  /// What If-Range accepts: a strong ETag, else the date, else "".
  std::string validator() const;
};

struct HttpFailure {
  Error error;
  bool transient = false;   ///< another try may succeed
  int retry_after_s = 0;    ///< what the server asked for
};
using HttpStep = std::optional<HttpFailure>;   ///< none: all went well

/// "https://host/path" without user name and password, for messages.
std::string without_credentials(const std::string& url);

/// Requests to one address. Thread-safe: connections are kept and shared out.
class HttpClient {
 public:
  HttpClient(std::string url, HttpOptions options);
  ~HttpClient();

  /// One GET. `head` sees the final response before its body, `body` each piece; either may stop it with a failure.
  /// Statuses of 400 and more, except 416, are failures already and do not reach `head`.
  HttpStep get(const HttpRequest& request, const std::function<HttpStep(const HttpHead&)>& head,
               const std::function<HttpStep(std::span<const std::byte>)>& body);

  const std::string& name() const { return name_; }   ///< the address without credentials
  const HttpOptions& options() const { return options_; }

 private:
  struct Impl;
  std::string name_;
  HttpOptions options_;
  std::unique_ptr<Impl> impl_;
};

/// Decides about further tries of one piece of work.
class HttpRetry {
 public:
  explicit HttpRetry(const HttpOptions& options) : options_(options) {}
  /// Waits before the next try, or gives the error that ends it all. `progress`: bytes that the failed try brought;
  /// many of them make the count of failures start again.
  Result<void> after(HttpFailure failure, uint64_t progress);

 private:
  const HttpOptions& options_;
  int failures_ = 0;
};

}  // namespace gull::gguf
