#include "gguf/test_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace {

bool send_all(int fd, const void* data, size_t length) {
  const char* at = static_cast<const char*>(data);
  while (length > 0) {
    const ssize_t sent = ::send(fd, at, length, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent, length -= static_cast<size_t>(sent);
  }
  return true;
}

bool send_text(int fd, const std::string& text) { return send_all(fd, text.data(), text.size()); }

/// Reads to the blank line that ends a request.
std::optional<std::string> read_head(int fd) {
  std::string head;
  char c = 0;
  while (!head.ends_with("\r\n\r\n")) {
    if (::recv(fd, &c, 1, 0) != 1 || head.size() > 100000) return std::nullopt;
    head += c;
  }
  return head;
}

ServerRequest parse(const std::string& head) {
  ServerRequest request;
  size_t at = head.find("\r\n");
  const size_t space = head.find(' ');
  request.path = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
  while (at + 2 < head.size()) {
    const size_t begin = at + 2, end = head.find("\r\n", begin), colon = head.find(": ", begin);
    if (end == begin) break;
    std::string key = head.substr(begin, colon - begin);
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers[key] = head.substr(colon + 2, end - colon - 2);
    at = end;
  }
  if (const auto range = request.headers.find("range"); range != request.headers.end()) {
    unsigned long long first = 0, last = 0;
    const int found = std::sscanf(range->second.c_str(), "bytes=%llu-%llu", &first, &last);
    if (found >= 1) request.first = first;
    if (found == 2) request.last = last;
  }
  return request;
}

void reset_on_close(int fd) {
  const linger now{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

TestServer::TestServer() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener_, 64) != 0) std::abort();
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_loop(); });
}

TestServer::~TestServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    std::lock_guard lock(mutex_);
    for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
}

std::string TestServer::url(const std::string& path) const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }

void TestServer::put(const std::string& path, ServerFile file) {
  std::lock_guard lock(mutex_);
  files_[path] = std::move(file);
}

void TestServer::redirect(const std::string& path, const std::string& to) {
  std::lock_guard lock(mutex_);
  redirects_[path] = to;
}

void TestServer::behave(Behaviour behaviour) {
  std::lock_guard lock(mutex_);
  behaviour_ = std::move(behaviour);
}

std::vector<ServerRequest> TestServer::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::accept_loop() {
  while (!stopping_) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { connection(fd); });
  }
}

void TestServer::connection(int fd) {
  while (!stopping_) {
    const auto head = read_head(fd);
    if (!head) break;
    ServerRequest request = parse(*head);
    {
      std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size());
      requests_.push_back(request);
    }
    if (!answer(fd, request)) break;
  }
  std::lock_guard lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  ::close(fd);
}

bool TestServer::answer(int fd, const ServerRequest& request) {
  ServerFile file;
  Quirks quirks;
  {
    std::unique_lock lock(mutex_);
    if (const auto to = redirects_.find(request.path); to != redirects_.end())
      return send_text(
          fd, fmt::format("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<html",
                          to->second));
    const auto found = files_.find(request.path);
    if (found == files_.end()) return send_text(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found");
    file = found->second;
    const Behaviour behaviour = behaviour_;
    lock.unlock();
    if (behaviour) quirks = behaviour(request);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(quirks.delay_ms));
  if (quirks.status != 0)
    return send_text(fd, fmt::format("HTTP/1.1 {} X\r\n{}Content-Length: 4\r\n\r\nbusy", quirks.status, quirks.headers));

  const std::string etag = quirks.etag.empty() ? file.etag : quirks.etag;
  const uint64_t size = file.bytes.size();
  bool ranged = request.first.has_value() && !quirks.ignore_ranges;
  if (const auto validator = request.headers.find("if-range");
      quirks.honour_if_range && validator != request.headers.end() && validator->second != etag && validator->second != file.date)
    ranged = false;
  uint64_t first = 0, count = size;
  std::string head = "HTTP/1.1 200 OK\r\n";
  if (ranged && *request.first >= size) {
    const std::string body = "no such range";
    return send_text(
        fd,
        fmt::format("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */{}\r\nETag: {}\r\nContent-Length: {}\r\n\r\n{}",
                    size, etag, body.size(), body));
  }
  if (ranged) {
    first = *request.first;
    count = std::min(request.last.value_or(size - 1), size - 1) - first + 1;
    if (quirks.serve_at_most) count = std::min(count, *quirks.serve_at_most);
    const uint64_t shift = static_cast<uint64_t>(quirks.range_off);
    head = fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n", first + shift,
                       first + count - 1 + shift, size);
  }
  if (!quirks.no_etag) head += fmt::format("ETag: {}\r\n", etag);
  if (!quirks.no_date) head += fmt::format("Last-Modified: {}\r\n", file.date);
  if (quirks.chunked)
    head += "Transfer-Encoding: chunked\r\n";
  else if (!quirks.no_length)
    head += fmt::format("Content-Length: {}\r\n", static_cast<int64_t>(count) + quirks.length_off);
  head += fmt::format("Content-Type: {}\r\n{}\r\n", quirks.content_type, quirks.headers);
  std::vector<std::byte> body(file.bytes.begin() + static_cast<ptrdiff_t>(first),
                              file.bytes.begin() + static_cast<ptrdiff_t>(first + count));
  body.resize(body.size() + quirks.extra, std::byte{0xEE});
  if (quirks.chunked) {
    const std::string open = fmt::format("{:x}\r\n", body.size()), close = "\r\n0\r\n\r\n";
    const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
    body.insert(body.begin(), bytes(open).begin(), bytes(open).end());
    body.insert(body.end(), bytes(close).begin(), bytes(close).end());
  }
  return send_text(fd, head) && send_body(fd, body, quirks);
}

bool TestServer::send_body(int fd, std::span<const std::byte> body, const Quirks& quirks) {
  const uint64_t stop = std::min({quirks.drop_after.value_or(UINT64_MAX), quirks.end_after.value_or(UINT64_MAX), body.size()});
  for (uint64_t at = 0; at < stop;) {
    const uint64_t piece = std::min<uint64_t>(16 << 10, stop - at);
    if (quirks.stall_ms != 0 && at + piece > stop / 2 && at <= stop / 2) {
      for (int waited = 0; waited < quirks.stall_ms && !stopping_; waited += 10)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!send_all(fd, body.data() + at, piece)) return false;
    at += piece;
    body_bytes_ += piece;
  }
  if (quirks.drop_after) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));   // what was sent may arrive first
    reset_on_close(fd);
  }
  return stop == body.size() && !quirks.no_length && quirks.length_off == 0 && !quirks.drop_after && !quirks.end_after;
}
