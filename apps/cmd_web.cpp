// gull web: serves the browser package and this machine's models to a browser. Files only: the browser computes.
#include <filesystem>
#include <fstream>
#include <httplib.h>
#include <thread>

#include "base/log.h"
#include "catalogue.h"
#include "command.h"
#include "generation.h"
#include "signals.h"
#include "terminal.h"

namespace gull::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct WebArguments {
  std::string host = "127.0.0.1", folder;
  int port = 8080;
  std::vector<std::string> models;
};

/// The package: beside an installed program, or in the build that made this one.
std::string package_folder() {
  std::error_code error;
  const fs::path installed = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "share/gull/web";
  for (const fs::path& folder : {installed, fs::path(GULL_WEB_DIST)})
    if (fs::exists(folder / "gull.wasm", error)) return folder.string();
  return {};
}

/// What is offered to the page: the models named, or all that were fetched before.
Result<std::vector<std::string>> offered(const std::vector<std::string>& models) {
  std::vector<std::string> paths;
  for (const std::string& model : models) {
    auto path = find_model(model);
    if (!path) return fail(path.error());
    paths.push_back(*path);
  }
  std::error_code error;
  if (auto cache = cache_folder(); models.empty() && cache)
    for (const auto& entry : fs::directory_iterator(*cache, error))
      if (entry.path().extension() == ".gguf" && entry.is_regular_file(error)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

const char* content_type(const fs::path& path) {
  static constexpr std::pair<const char*, const char*> types[] = {
      {".html", "text/html; charset=utf-8"}, {".js", "text/javascript"}, {".css", "text/css"}, {".wasm", "application/wasm"},
      {".json", "application/json"}, {".svg", "image/svg+xml"}, {".webmanifest", "application/manifest+json"}};
  for (const auto& [extension, type] : types)
    if (path.extension() == extension) return type;
  return "application/octet-stream";
}

/// Sends a file a piece at a time; httplib cuts out the range that was asked for.
void send_file(const std::string& path, httplib::Response& response) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (error || !*file) {
    response.status = 404;
    return;
  }
  response.set_header("Cache-Control", "no-cache");
  response.set_content_provider(size, content_type(path), [file](size_t offset, size_t length, httplib::DataSink& sink) {
    std::vector<char> piece(std::min<size_t>(length, 1u << 20));
    file->clear();
    file->seekg(static_cast<std::streamoff>(offset));
    file->read(piece.data(), static_cast<std::streamsize>(piece.size()));
    return file->gcount() == static_cast<std::streamsize>(piece.size()) && sink.write(piece.data(), piece.size());
  });
}

void add_routes(httplib::Server& server, const fs::path& folder, const std::vector<std::string>& models) {
  Json list = Json::array();
  for (size_t i = 0; i < models.size(); ++i) {
    std::error_code error;
    const fs::path path(models[i]);
    const std::string url = fmt::format("models/{}/{}", i, path.filename().string());
    list.push_back({{"name", path.stem().string()}, {"url", url}, {"size", fs::file_size(path, error)}});
  }
  server.Get("/models.json", [text = list.dump()](const httplib::Request&, httplib::Response& response) {
    response.set_content(text, "application/json");
  });
  server.Get(R"(/models/(\d{1,6})/.+)", [models](const httplib::Request& request, httplib::Response& response) {
    const size_t index = std::stoul(request.matches[1].str());
    if (index < models.size()) send_file(models[index], response);
    else response.status = 404;
  });
  server.Get(R"(/([A-Za-z0-9_./-]*))", [folder](const httplib::Request& request, httplib::Response& response) {
    const std::string name = request.matches[1].str().empty() ? "index.html" : request.matches[1].str();
    if (name.find("..") != std::string::npos) response.status = 404;   // nothing outside the package
    else send_file((folder / name).string(), response);
  });
}

int web(const WebArguments& arguments) {
  const std::string folder = arguments.folder.empty() ? package_folder() : arguments.folder;
  if (folder.empty())
    return report({ErrorKind::NotFound, "the browser package is not here: build it with 'cmake --preset wasm && cmake --build build-wasm', "
                                        "then --folder build-wasm/dist"});
  auto models = offered(arguments.models);
  if (!models) return report(models.error());
  httplib::Server server;
  add_routes(server, folder, *models);
  const int port = arguments.port == 0 ? server.bind_to_any_port(arguments.host)
                                       : server.bind_to_port(arguments.host, arguments.port) ? arguments.port : -1;
  if (port < 0) return report({ErrorKind::Io, fmt::format("cannot listen on {} port {}: is it in use?", arguments.host, arguments.port)});
  write_output(fmt::format("http://{}:{}/ (Ctrl-C ends)\n", arguments.host == "127.0.0.1" ? "localhost" : arguments.host, port));
  std::thread watcher([&server] {
    while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.stop();
  });
  const bool served = server.listen_after_bind();
  const bool asked = interrupted().exchange(true);
  watcher.join();
  return served || asked ? kSuccess : report({ErrorKind::Io, "the server ended unexpectedly"});
}

}  // namespace

void add_web(CLI::App& program, Action& action) {
  auto* command = program.add_subcommand("web", "Serve the browser page, which runs models on the browser's own GPU");
  auto arguments = std::make_shared<WebArguments>();
  command->add_option("MODEL", arguments->models, "Models to offer; none: all that were fetched before")->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--host", arguments->host, "Address to listen on; a browser gives its GPU to localhost and https only")->capture_default_str();
  command->add_option("--port", arguments->port, "Port; 0: any free one")->capture_default_str()->check(CLI::Range(0, 65535));
  command->add_option("--folder", arguments->folder, "The browser package, where it is not found by itself");
  command->callback([arguments, &action] { action = [arguments] { return web(*arguments); }; });
}

}  // namespace gull::app
