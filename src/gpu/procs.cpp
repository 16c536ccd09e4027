#include "gpu/procs.h"

#include <map>

#include "base/log.h"
#include "base/mutex.h"

#if !defined(__wasm__)
#include <dlfcn.h>
#endif

namespace gull::gpu {

#if defined(__wasm__)
// The browser binding's own imports; defined in web/.
void fill_browser(Extensions& ext);
#endif

const Procs& linked_procs() {
  static const Procs procs = [] {
    Procs table;
#define GULL_FILL(name) table.name = &::wgpu##name;
    GULL_WEBGPU_PROCS(GULL_FILL)
#undef GULL_FILL
#if defined(__wasm__)
    fill_browser(table.ext);
#elif defined(GULL_HAS_WGPU_NATIVE)
    fill_wgpu_native(table.ext, nullptr, nullptr);
#endif
    return table;
  }();
  return procs;
}

#if defined(__wasm__)
Result<const Procs*> load_procs(const std::string&) {
  return fail(ErrorKind::Unsupported, "another WebGPU implementation cannot be loaded in a browser");
}
#else
Result<const Procs*> load_procs(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, Procs> loaded;
  Lock lock(mutex);
  if (auto it = loaded.find(path); it != loaded.end()) return &it->second;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail_f(ErrorKind::NotFound, "cannot load the WebGPU library: {}", dlerror());
  Procs table;
  const char* missing = nullptr;
#define GULL_LOAD(name)                                                             \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, "wgpu" #name)); \
  if (!table.name) missing = "wgpu" #name;
  GULL_WEBGPU_PROCS(GULL_LOAD)
#undef GULL_LOAD
  if (missing) {
    dlclose(library);
    return fail_f(ErrorKind::Unsupported, "{} is not a WebGPU library that gull can use: it has no {}", path, missing);
  }
  fill_wgpu_native(table.ext, [](void* from, const char* name) { return dlsym(from, name); }, library);
  return &loaded.emplace(path, table).first->second;
}
#endif

}  // namespace gull::gpu
