// A device in a variable that outlives the driver: once the program exits, nothing of the driver is called for it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dispatch/pipeline_cache.h"
#include "gpu/commands.h"

using namespace gull;

namespace {

std::shared_ptr<gpu::Device> device;
std::vector<gpu::BufferRef> buffers;
gpu::PipelineRef pipeline;
gpu::BindGroupRef group;

/// Runs after the library's own exit handler, since it was registered before that.
void after() {
  const bool ended = !device->healthy();
  buffers.clear(), group.reset(), pipeline.reset(), device.reset();
  std::printf(ended ? "the device had let go\n" : "the device still calls the driver\n");
  std::fflush(stdout);
  _exit(ended ? 0 : 1);
}

}  // namespace

int main() {
  std::atexit(after);
  auto opened = gpu::Device::open({});
  if (!opened) return std::printf("%s\n", opened.error().message.c_str()), _exit(1), 1;
  device = *opened;
  auto buffer = device->create_buffer(1024, gpu::kStorage | gpu::kCopyDst, gpu::Memory::Activations, "kept");
  auto made = device->create_pipeline({"kept", "@group(0) @binding(0) var<storage, read_write> y: array<u32>;\n@compute @workgroup_size(1) fn main() { y[0] = 1u; }",
                                       {gpu::BindingKind::Storage}});
  if (!buffer || !made) return _exit(1), 1;
  buffers.push_back(*buffer), pipeline = *made;
  auto bound = device->create_bind_group(*pipeline, std::vector<gpu::Binding>{{*buffer}});
  if (!bound) return _exit(1), 1;
  group = *bound;
  return 1;   // the handler's status counts
}
