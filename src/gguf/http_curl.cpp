#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>

#include <cctype>
#include <charconv>
#include <chrono>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "gguf/http.h"
#include "gguf/text.h"

namespace gull::gguf {
namespace {

using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using HeaderList = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size() && value <= INT64_MAX ? std::optional(value)
                                                                                                   : std::nullopt;
}

/// "bytes 0-99/1000", "bytes 0-99/*", "bytes */1000" (RFC 9110, 14.4).
void parse_content_range(std::string_view text, HttpHead& head) {
  const size_t slash = text.find('/');
  if (!text.starts_with("bytes ") || slash == std::string_view::npos) return;
  const std::string_view range = text.substr(6, slash - 6), total = text.substr(slash + 1);
  head.range_total = whole_number(total);
  if (range == "*") {
    head.has_range = head.range_total.has_value();
    return;
  }
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return;
  const auto first = whole_number(range.substr(0, dash)), last = whole_number(range.substr(dash + 1));
  if (!first || !last || *first > *last || (head.range_total ? *last >= *head.range_total : total != "*")) return;
  head.has_range = true, head.range_first = *first, head.range_last = *last;
}

/// One request under way: what the callbacks of libcurl work on.
struct Transfer {
  const std::function<HttpStep(const HttpHead&)>& on_head;
  const std::function<HttpStep(std::span<const std::byte>)>& on_body;
  const std::string& name;
  const HttpOptions& options;
  CURL* handle;
  HttpHead head = {};
  int retry_after_s = 0;
  bool head_seen = false;
  HttpStep failure = {};
  curl_off_t last_received = 0;
  std::chrono::steady_clock::time_point last_change = std::chrono::steady_clock::now();
  bool stalled = false;

  void header(std::string_view line) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {   // a new response: after a redirection, or a 100 Continue
      head = {};
      head.self_delimiting = line.starts_with("HTTP/2") || line.starts_with("HTTP/3");
      retry_after_s = 0;
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string key(line.substr(0, colon));
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (key == "content-length")
      head.length = whole_number(value);
    else if (key == "content-range")
      parse_content_range(value, head);
    else if (key == "etag")
      head.etag = value;
    else if (key == "last-modified")
      head.last_modified = value;
    else if (key == "content-type")
      head.content_type = value;
    else if (key == "content-encoding")
      head.content_encoding = value;
    else if (key == "transfer-encoding")
      head.self_delimiting |= value.find("chunked") != std::string_view::npos;
    else if (key == "retry-after")
      retry_after_s = static_cast<int>(std::min<uint64_t>(whole_number(value).value_or(0), 3600));
  }

  HttpStep refuse(ErrorKind kind, bool transient, const std::string& what) {
    return HttpFailure{{kind, fmt::format("{}: {}", name, what)}, transient, retry_after_s};
  }

  HttpStep check_status() {
    const long status = head.status;
    if (status == 404 || status == 410)
      return refuse(ErrorKind::NotFound, false, fmt::format("there is no such file (the server answers {})", status));
    if (status == 401 || status == 403)
      return refuse(ErrorKind::Io, false,
                    fmt::format("the server refuses access ({}): the file may need a login or a token", status));
    const bool busy =
        status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
    if (status >= 400 && status != 416) return refuse(ErrorKind::Io, busy, fmt::format("the server answers {}", status));
    if (status != 200 && status != 206 && status != 416)
      return refuse(ErrorKind::Io, false, fmt::format("the server answers {} where a file was expected", status));
    return {};
  }

  /// Shows the head once, when it is final. False: the transfer ends here.
  bool show_head() {
    if (head_seen) return !failure;
    head_seen = true;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &head.status);
    failure = check_status();
    if (!failure) failure = on_head(head);
    return !failure;
  }

  bool is_cancelled() const { return options.cancel != nullptr && options.cancel->load(); }

  /// Called by libcurl often, and about once a second while nothing happens. False: the transfer ends here.
  bool still_wanted(curl_off_t received) {
    const auto now = std::chrono::steady_clock::now();
    if (received != last_received) last_received = received, last_change = now;
    stalled = now - last_change > std::chrono::seconds(options.stall_timeout_s);
    return !stalled && !is_cancelled();
  }

  bool body(std::span<const std::byte> bytes) {
    if (is_cancelled() || !show_head()) return false;
    failure = on_body(bytes);
    return !failure;
  }
};

size_t header_callback(char* data, size_t, size_t length, void* transfer) {
  static_cast<Transfer*>(transfer)->header({data, length});
  return length;
}

size_t body_callback(char* data, size_t, size_t length, void* transfer) {
  return static_cast<Transfer*>(transfer)->body(std::as_bytes(std::span(data, length)))
             ? length
             : length + 1;   // another number stops libcurl
}

int progress_callback(void* transfer, curl_off_t, curl_off_t received, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(transfer)->still_wanted(received) ? 0 : 1;
}

bool is_unreachable(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT;
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_AGAIN: return true;
    default: return false;
  }
}

}  // namespace

namespace {

/// A connection that the other side has closed must give an error, not end the process: while this lives, the thread does
/// not get SIGPIPE (libcurl's TLS libraries write without MSG_NOSIGNAL).
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = pending();
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    int taken = 0;
    if (!was_pending_ && pending()) sigwait(&pipe_, &taken);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  static bool pending() {
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 1;
  }
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

}  // namespace

struct HttpClient::Impl {
  std::string url;
  std::mutex mutex;
  std::vector<Handle> idle;   // kept with their open connections
  std::atomic<bool> reached = false;

  Handle take() {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    std::lock_guard lock(mutex);
    if (ready != CURLE_OK) return {nullptr, curl_easy_cleanup};
    if (idle.empty()) return {curl_easy_init(), curl_easy_cleanup};
    Handle handle = std::move(idle.back());
    idle.pop_back();
    return handle;
  }

  void give_back(Handle handle) {
    std::lock_guard lock(mutex);
    idle.push_back(std::move(handle));
  }
};

HttpClient::HttpClient(std::string url, HttpOptions options)
    : name_(printable(without_credentials(url), 2000)), options_(options), impl_(std::make_unique<Impl>()) {
  impl_->url = std::move(url);
}
HttpClient::~HttpClient() = default;

HttpStep HttpClient::get(const HttpRequest& request, const std::function<HttpStep(const HttpHead&)>& head,
                         const std::function<HttpStep(std::span<const std::byte>)>& body) {
  Handle handle = impl_->take();
  if (!handle) return HttpFailure{{ErrorKind::Io, fmt::format("{}: libcurl cannot start", name_)}};
  CURL* curl = handle.get();
  curl_easy_reset(curl);   // options only: connections stay
  Transfer transfer{head, body, name_, options_, curl};
  HeaderList headers(nullptr, curl_slist_free_all);
  if (!request.if_range.empty()) headers.reset(curl_slist_append(nullptr, ("If-Range: " + request.if_range).c_str()));
  const std::string range = fmt::format("{}-{}", request.first, request.last ? std::to_string(*request.last) : "");
  char message[CURL_ERROR_SIZE] = "";

  curl_easy_setopt(curl, CURLOPT_URL, impl_->url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, impl_->url.starts_with("https") ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "gull");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  if (request.ranged) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_timeout_s));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, header_callback);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_callback);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, progress_callback);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);

  CURLcode code = CURLE_OK;
  {
    const NoPipeSignal quiet;
    code = curl_easy_perform(curl);
  }
  if (code == CURLE_OK) transfer.show_head();   // a response without a body
  const bool first_contact = !impl_->reached.exchange(impl_->reached || transfer.head_seen);
  impl_->give_back(std::move(handle));
  if (transfer.failure || code == CURLE_OK) return transfer.failure;
  if (transfer.is_cancelled()) return HttpFailure{{ErrorKind::Cancelled, fmt::format("{}: the transfer was cancelled", name_)}};
  if (transfer.stalled)
    return HttpFailure{{ErrorKind::Io, fmt::format("{}: nothing came for {} s", name_, options_.stall_timeout_s)}, true};
  const ErrorKind kind =
      code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ? ErrorKind::InvalidArgument : ErrorKind::Io;
  // An address that never answered is reported at once; one that did is given time to come back.
  const bool transient = may_pass(code) || (is_unreachable(code) && !first_contact);
  return HttpFailure{{kind, fmt::format("{}: {}", name_, printable(message[0] != 0 ? message : curl_easy_strerror(code), 200))},
                     transient};
}

}  // namespace gull::gguf
