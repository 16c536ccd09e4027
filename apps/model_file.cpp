#include "model_file.h"

#include "base/log.h"
#include "catalogue.h"
#include "gguf/http_source.h"
#include "signals.h"

namespace gull::app {

void set_verbose(bool verbose) {
  if (verbose) set_log_level(LogLevel::Debug);
}

Result<std::shared_ptr<gguf::File>> open_model_file(const std::string& model, bool remote) {
  if (remote && is_url(model) && cached_model(model).empty()) {
    gguf::HttpOptions http;
    http.cancel = &interrupted();
    return gguf::open_url(model, http);
  }
  auto path = find_model(model);
  if (!path) return fail(path.error());
  return gguf::File::open_path(*path);
}

}  // namespace gull::app
