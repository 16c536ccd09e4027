// A small web server on 127.0.0.1 that misbehaves as told.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

/// How one answer is given.
struct Quirks {
  int status = 0;                     ///< another status, with a short body
  bool ignore_ranges = false;         ///< 200 and the whole file
  bool no_etag = false, no_date = false;
  bool honour_if_range = true;
  std::optional<uint64_t> drop_after; ///< bytes of the body after which the connection is reset
  std::optional<uint64_t> end_after;  ///< bytes of the body after which it is closed in good order
  std::optional<uint64_t> serve_at_most;  ///< a shorter range than was asked for, correctly labelled
  int64_t length_off = 0;             ///< added to Content-Length
  int64_t range_off = 0;              ///< added to the ends in Content-Range
  bool no_length = false;             ///< no Content-Length: the end of the connection ends the file
  bool chunked = false;
  uint64_t extra = 0;                 ///< bytes sent beyond the end (with no_length)
  int delay_ms = 0;                   ///< before the head
  int stall_ms = 0;                   ///< in the middle of the body
  std::string headers;                ///< further ones, each ended with \r\n
  std::string etag;                   ///< instead of the content's
  std::string content_type = "application/octet-stream";
};

struct ServerRequest {
  std::string path;
  std::map<std::string, std::string> headers;   ///< names in lower case
  std::optional<uint64_t> first, last;          ///< of the Range header
  int number = 0;                               ///< counts from 0
};

struct ServerFile {
  std::vector<std::byte> bytes;
  std::string etag = "\"v1\"", date = "Mon, 30 Nov 2026 12:00:00 GMT";
};

class TestServer {
 public:
  /// What to do with a request; nullopt quirks mean the default behaviour.
  using Behaviour = std::function<Quirks(const ServerRequest&)>;

  TestServer();
  ~TestServer();

  std::string url(const std::string& path) const;
  void put(const std::string& path, ServerFile file);
  void redirect(const std::string& path, const std::string& to);
  void behave(Behaviour behaviour);

  std::vector<ServerRequest> requests() const;
  uint64_t body_bytes() const { return body_bytes_; }   ///< handed to the network so far

 private:
  void accept_loop();
  void connection(int fd);
  bool answer(int fd, const ServerRequest& request);
  bool send_body(int fd, std::span<const std::byte> body, const Quirks& quirks);

  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, ServerFile> files_;
  std::map<std::string, std::string> redirects_;
  Behaviour behaviour_;
  std::vector<ServerRequest> requests_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> body_bytes_ = 0;
};
