// How fast gemm is: gemm_bench [options] SIZE…   (a size is N, or MxNxK)
//   --json            one JSON object a line
//   --type T          f32 (default), f16, mixed
//   --tile MxN|all    forces a tile, or tries each
//   --device D, --baseline, --checked (keep the bounds checks), --ring (no immediates), --seconds S (of each measurement)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gull/compute.h"

namespace {

struct Options {
  gull::ComputeOptions backend;
  std::string type = "f32";
  bool json = false, all_tiles = false;
  double seconds = 1;
  std::vector<std::array<uint32_t, 3>> sizes;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void die(const std::string& message) {
  std::fprintf(stderr, "gemm_bench: %s\n", message.c_str());
  std::exit(1);
}

template <class T>
T need(gull::Result<T> result) {
  if (!result) die(result.error().message);
  if constexpr (!std::is_void_v<T>) return *result;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : (die(arg + " needs a value"), ""); };
    if (arg == "--json") o.json = true;
    else if (arg == "--type") o.type = value();
    else if (arg == "--device") o.backend.device.device = value();
    else if (arg == "--baseline") o.backend.device.baseline_limits = true;
    else if (arg == "--checked") o.backend.device.checked_shaders = true;
    else if (arg == "--ring") o.backend.params = gull::ParamTransport::Ring;
    else if (arg == "--seconds") o.seconds = std::atof(value().c_str());
    else if (arg == "--tile") {
      const std::string tile = value();
      if (tile == "all") o.all_tiles = true;
      else if (std::sscanf(tile.c_str(), "%ux%u", &o.backend.gemm_tile.m, &o.backend.gemm_tile.n) != 2) die("--tile wants MxN or all");
    } else {
      std::array<uint32_t, 3> size{};
      const int got = std::sscanf(arg.c_str(), "%ux%ux%u", &size[0], &size[1], &size[2]);
      if (got == 1) size[1] = size[2] = size[0];
      if ((got != 1 && got != 3) || !size[0]) die("unknown argument " + arg);
      o.sizes.push_back(size);
    }
  }
  if (o.type != "f32" && o.type != "f16" && o.type != "mixed") die("--type wants f32, f16 or mixed");
  if (o.sizes.empty()) o.sizes = {{512, 512, 512}, {1024, 1024, 1024}};
  return o;
}

/// ±0.5 and 1 in turns, in either storage; what they are does not matter for speed, but zeros would.
std::vector<std::byte> fill(size_t n, bool half) {
  std::vector<std::byte> bytes(n * (half ? 2 : 4));
  for (size_t i = 0; i < n; ++i) {
    const uint32_t r = static_cast<uint32_t>(i * 2654435761u) >> 30;
    const float f = r == 0 ? 1.0f : r == 1 ? -0.5f : 0.5f;
    const uint16_t h = r == 0 ? 0x3c00 : r == 1 ? 0xb800 : 0x3800;
    if (half) std::memcpy(bytes.data() + 2 * i, &h, 2);
    else std::memcpy(bytes.data() + 4 * i, &f, 4);
  }
  return bytes;
}

void measure(const Options& o, const gull::ComputeOptions& backend_options, std::array<uint32_t, 3> size) {
  gull::ComputeBackend gpu(backend_options);
  need(gpu.init());
  const auto [m, n, k] = size;
  const bool half = o.type != "f32";
  const auto upload = [&](size_t count, bool as_half) {
    const auto bytes = fill(count, as_half);
    const gull::Handle handle = need(gpu.alloc(bytes.size()));
    need(gpu.copy_to_device(handle, std::span<const std::byte>(bytes)));
    return handle;
  };
  gull::Gemm call{.m = m, .n = n, .k = k, .a = upload(size_t{m} * k, half), .b = upload(size_t{k} * n, half),
                  .c = upload(size_t{m} * n, o.type == "f16")};
  const auto run = [&] { need(o.type == "f32" ? gpu.gemm(call) : o.type == "f16" ? gpu.gemm_f16(call) : gpu.gemm_mixed(call)); };
  run();
  need(gpu.synchronize());   // compiled and warm
  double start = now();
  run();
  need(gpu.synchronize());
  const double once = now() - start;
  const int repeats = std::clamp(static_cast<int>(o.seconds / std::max(once, 1e-6)), 1, 2000);
  double best = 1e30;
  for (int round = 0; round < 3; ++round) {
    start = now();
    for (int i = 0; i < repeats; ++i) run();
    need(gpu.synchronize());
    best = std::min(best, (now() - start) / repeats);
  }
  const double flops = 2.0 * m * n * k / best;
  const auto tile = backend_options.gemm_tile.m ? backend_options.gemm_tile : need(gpu.recommended_tile(m, n, k));
  const std::string device = need(gpu.capabilities()).device.name;
  std::printf(o.json ? "{\"op\":\"gemm\",\"type\":\"%s\",\"m\":%u,\"n\":%u,\"k\":%u,\"tile\":\"%ux%u\",\"ms\":%.4f,\"latency_ms\":%.4f,"
                       "\"gflops\":%.2f,\"device\":\"%s\"}\n"
                     : "gemm %-5s %5u×%5u×%5u  tile %3u×%-3u  %10.3f ms  (with a wait: %10.3f)  %10.1f GFLOP/s  %s\n",
              o.type.c_str(), m, n, k, tile.m, tile.n, best * 1e3, once * 1e3, flops / 1e9, device.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  for (const auto& size : o.sizes) {
    if (!o.all_tiles) {
      measure(o, o.backend, size);
      continue;
    }
    for (const gull::Tile& tile : gull::ComputeBackend::gemm_tiles()) {
      gull::ComputeOptions forced = o.backend;
      forced.gemm_tile = tile;
      measure(o, forced, size);
    }
  }
}
