// Without libcurl: every request says so.
#include "base/log.h"
#include "gguf/http.h"

namespace gull::gguf {

struct HttpClient::Impl {};

HttpClient::HttpClient(std::string url, HttpOptions options) : name_(without_credentials(url)), options_(options) {}
HttpClient::~HttpClient() = default;

HttpStep HttpClient::get(const HttpRequest&, const std::function<HttpStep(const HttpHead&)>&,
                         const std::function<HttpStep(std::span<const std::byte>)>&) {
  return HttpFailure{{ErrorKind::Unsupported,
                      fmt::format("{}: this gull was built without libcurl: download the file with another program", name_)}};
}

}  // namespace gull::gguf
