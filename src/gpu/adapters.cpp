// Which adapters there are, and which one is used: a discrete GPU before an integrated one, any GPU before software.
#include <algorithm>
#include <charconv>
#include <cctype>

#include "base/log.h"
#include "gpu/state.h"

namespace gull::gpu {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

const char* backend_name(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Null: return "Null";
    case WGPUBackendType_WebGPU: return "WebGPU";
    case WGPUBackendType_D3D11: return "Direct3D 11";
    case WGPUBackendType_D3D12: return "Direct3D 12";
    case WGPUBackendType_Metal: return "Metal";
    case WGPUBackendType_Vulkan: return "Vulkan";
    case WGPUBackendType_OpenGL: return "OpenGL";
    case WGPUBackendType_OpenGLES: return "OpenGL ES";
    default: return "unknown";
  }
}

void describe_limits(const Procs& procs, WGPUAdapter adapter, DeviceInfo& info) {
  WGPULimits limits{};
  if (procs.AdapterGetLimits(adapter, &limits) != WGPUStatus_Success) return;
  info.limits = {{"max_buffer_size", limits.maxBufferSize},
                 {"max_storage_buffer_binding_size", limits.maxStorageBufferBindingSize},
                 {"max_storage_buffers_per_stage", limits.maxStorageBuffersPerShaderStage},
                 {"max_compute_workgroup_storage_size", limits.maxComputeWorkgroupStorageSize},
                 {"max_compute_invocations_per_workgroup", limits.maxComputeInvocationsPerWorkgroup},
                 {"max_compute_workgroup_size_x", limits.maxComputeWorkgroupSizeX},
                 {"max_compute_workgroups_per_dimension", limits.maxComputeWorkgroupsPerDimension},
                 {"max_uniform_buffer_binding_size", limits.maxUniformBufferBindingSize},
                 {"min_storage_buffer_offset_alignment", limits.minStorageBufferOffsetAlignment},
                 {"max_immediate_size", limits.maxImmediateSize}};
}

void describe_features(const Procs& procs, WGPUAdapter adapter, DeviceInfo& info) {
  const std::pair<WGPUFeatureName, const char*> known[] = {{WGPUFeatureName_ShaderF16, "shader-f16"},
                                                            {WGPUFeatureName_Subgroups, "subgroups"},
                                                            {WGPUFeatureName_TimestampQuery, "timestamp-query"}};
  for (auto [feature, name] : known)
    if (procs.AdapterHasFeature(adapter, feature)) info.features.emplace_back(name);
  if (procs.ext.naga && procs.AdapterHasFeature(adapter, static_cast<WGPUFeatureName>(0x00030021))) info.features.emplace_back("subgroups");
  if (procs.ext.set_immediates) info.features.emplace_back("immediates");
}

Adapter describe(const Procs& procs, WGPUAdapter handle, uint32_t index) {
  Adapter adapter;
  adapter.handle = handle;
  adapter.info.index = index;
  WGPUAdapterInfo raw{};
  procs.AdapterGetInfo(handle, &raw);
  DeviceInfo& info = adapter.info;
  info.name = text(raw.device);
  info.vendor = text(raw.vendor);
  info.driver = text(raw.description);
  info.backend = backend_name(raw.backendType);
  if (info.name.empty()) info.name = info.vendor + (text(raw.architecture).empty() ? "" : " " + text(raw.architecture));
  const std::string all = lower(info.name + " " + info.driver + " " + text(raw.architecture));
  const bool software = raw.adapterType == WGPUAdapterType_CPU || all.find("swiftshader") != std::string::npos ||
                        all.find("llvmpipe") != std::string::npos;
  if (software) info.type = "software", adapter.rank = 1;
  else if (raw.adapterType == WGPUAdapterType_DiscreteGPU) info.type = "discrete", adapter.rank = 40;
  else if (raw.adapterType == WGPUAdapterType_IntegratedGPU) info.type = "integrated", adapter.rank = 30;
  else info.type = "unknown", adapter.rank = 20;
  // The same card through its native API before an emulation of it.
  if (raw.backendType == WGPUBackendType_OpenGL || raw.backendType == WGPUBackendType_OpenGLES) adapter.rank -= 5;
  if (raw.backendType == WGPUBackendType_Null) info.type = "null", adapter.rank = -1;
  procs.AdapterInfoFreeMembers(raw);
  describe_limits(procs, handle, info);
  describe_features(procs, handle, info);
  return adapter;
}

struct AdapterAnswer {
  WGPUAdapter adapter = nullptr;
  bool done = false;
};

WGPUAdapter request_adapter(const Procs& procs, WGPUInstance instance, WGPUPowerPreference power) {
  AdapterAnswer answer;
  WGPURequestAdapterOptions options{};
  options.powerPreference = power;
  options.featureLevel = WGPUFeatureLevel_Core;
  WGPURequestAdapterCallbackInfo callback{};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.userdata1 = &answer;
  callback.callback = [](WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView, void* user, void*) {
    auto* out = static_cast<AdapterAnswer*>(user);
    if (status == WGPURequestAdapterStatus_Success) out->adapter = adapter;
    out->done = true;
  };
  procs.InstanceRequestAdapter(instance, &options, callback);
  while (!answer.done) {
    if (procs.ext.suspend) procs.ext.suspend(instance);
    procs.InstanceProcessEvents(instance);
  }
  return answer.adapter;
}

/// Marks the adapter that the options ask for; −1 where none fits.
int choose(std::vector<Adapter>& adapters, const std::string& wanted, bool& any_usable) {
  int best = -1;
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (adapters[i].rank < 0) continue;
    any_usable = true;
    uint32_t number = 0;
    const auto [stop, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
    const bool is_number = !wanted.empty() && error == std::errc{} && stop == wanted.data() + wanted.size();
    const DeviceInfo& info = adapters[i].info;
    const bool fits = wanted.empty() || (is_number ? number == info.index
                                                   : lower(info.name + " " + info.driver + " " + info.type + " " + info.backend)
                                                             .find(lower(wanted)) != std::string::npos);
    if (fits && (best < 0 || adapters[i].rank > adapters[best].rank)) best = static_cast<int>(i);
  }
  return best;
}

void explain(std::vector<Adapter>& adapters, int chosen) {
  for (size_t i = 0; i < adapters.size(); ++i) {
    DeviceInfo& info = adapters[i].info;
    info.chosen = static_cast<int>(i) == chosen;
    if (info.type == "null") info.why = "computes nothing: never used";
    else if (info.chosen && info.type == "software") info.why = "the only kind of adapter here; it runs on the CPU, slowly";
    else if (info.chosen) info.why = fmt::format("{} GPU, the best of {} adapter(s)", info.type, adapters.size());
    else if (info.type == "software") info.why = "runs on the CPU: used only where there is no GPU";
    else info.why = "ranks below the chosen one";
  }
}

}  // namespace

AdapterList::~AdapterList() {
  if (!procs) return;
  for (Adapter& adapter : adapters)
    if (adapter.handle) procs->AdapterRelease(adapter.handle);
  if (instance) procs->InstanceRelease(instance);
}

AdapterList::AdapterList(AdapterList&& other) noexcept
    : procs(std::exchange(other.procs, nullptr)), instance(std::exchange(other.instance, nullptr)),
      adapters(std::move(other.adapters)), chosen(other.chosen) {}

Result<AdapterList> find_adapters(const DeviceOptions& options) {
  AdapterList list;
  list.procs = &linked_procs();
  if (!options.webgpu_library.empty()) {
    auto other = load_procs(options.webgpu_library);
    if (!other) return fail(other.error());
    list.procs = *other;
  }
  const Procs& procs = *list.procs;
  list.instance = procs.CreateInstance(nullptr);
  if (!list.instance) return fail(ErrorKind::Device, "WebGPU could not be started: wgpuCreateInstance gave nothing");
  std::vector<WGPUAdapter> handles;
  if (procs.ext.enumerate_adapters) {
    handles.resize(procs.ext.enumerate_adapters(list.instance, nullptr));
    if (!handles.empty()) procs.ext.enumerate_adapters(list.instance, handles.data());
  } else if (WGPUAdapter one = request_adapter(procs, list.instance, WGPUPowerPreference_HighPerformance)) {
    handles.push_back(one);
  }
  for (WGPUAdapter handle : handles) list.adapters.push_back(describe(procs, handle, static_cast<uint32_t>(list.adapters.size())));
  bool any_usable = false;
  list.chosen = choose(list.adapters, options.device, any_usable);
  if (list.chosen < 0 && any_usable)
    return fail_f(ErrorKind::NotFound, "no adapter matches --device '{}': 'gull devices' lists them", options.device);
  explain(list.adapters, list.chosen);
  return list;
}

}  // namespace gull::gpu

namespace gull {

Result<std::vector<DeviceInfo>> list_devices(const DeviceOptions& options) {
  auto list = gpu::find_adapters(options);
  if (!list) return fail(list.error());
  std::vector<DeviceInfo> out;
  for (const auto& adapter : list->adapters) out.push_back(adapter.info);
  return out;
}

}  // namespace gull
