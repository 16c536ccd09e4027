// What a cached call costs the CPU: dispatch_bench [--ring] [--json] [calls]
// Operations of one element, so that recording them is all there is; the thread's own CPU time is measured, over
// recording alone and with its share of the submissions.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "gull/compute.h"

namespace {

double cpu_now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Microseconds a call, the best of several rounds.
double measure(gull::ComputeOptions options, int calls, bool with_submissions) {
  options.max_pending = with_submissions ? 128 : static_cast<uint32_t>(calls) + 1;
  gull::ComputeBackend gpu(options);
  if (auto ok = gpu.init(); !ok) {
    std::fprintf(stderr, "dispatch_bench: %s\n", ok.error().message.c_str());
    std::exit(1);
  }
  const gull::Handle a = *gpu.alloc(4), b = *gpu.alloc(4), c = *gpu.alloc(4);
  const gull::Gemm call{.m = 1, .n = 1, .k = 1, .a = a, .b = b, .c = c};
  double best = 1e9;
  for (int round = 0; round < 8; ++round) {
    if (!gpu.gemm(call) || !gpu.synchronize()) std::exit(1);
    const double start = cpu_now();
    for (int i = 0; i < calls; ++i)
      if (!gpu.gemm(call)) std::exit(1);
    const double took = (cpu_now() - start) / calls * 1e6;
    best = took < best ? took : best;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  gull::ComputeOptions options;
  bool json = false;
  int calls = 2000;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--ring")) options.params = gull::ParamTransport::Ring;
    else if (!std::strcmp(argv[i], "--json")) json = true;
    else calls = std::max(1, std::atoi(argv[i]));
  }
  const double recording = measure(options, calls, false), submitting = measure(options, calls, true);
  std::printf(json ? "{\"op\":\"cached_dispatch\",\"record_us\":%.3f,\"with_submission_us\":%.3f}\n"
                   : "a cached dispatch costs %.3f µs of CPU to record, %.3f µs with its share of the submissions\n",
              recording, submitting);
}
