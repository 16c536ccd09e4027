#include "kernels/mla.h"

#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Grid: x = ⌈groups · width ÷ 256⌉, y = tokens. Bindings: from, to.
constexpr std::string_view kCopy = R"(
@group(0) @binding(0) var<storage, read> from_: array<f32>;
@group(0) @binding(1) var<storage, read_write> to: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x >= $GROUPS$ * $WIDTH$) { return; }
  let group = g.x / $WIDTH$;
  let i = g.x % $WIDTH$;
  to[g.y * $TS$ + $TO$ + group * $TSTEP$ + i] = from_[g.y * $FS$ + $FO$ + group * $FSTEP$ + i];
}
)";

}  // namespace

void copy_groups(Recorder& r, const CopyGroups& c) {
  if (r.failed()) return;
  r.step(fmt::format("copy_groups:{}:{}:{}:{}:{}/{}:{}:{}", c.groups, c.width, c.from.stride, c.from.offset, c.from_step, c.to.stride, c.to.offset, c.to_step),
         [&] {
           return gpu::PipelineDesc{"copy_groups", expand(kCopy, {{"GROUPS", c.groups}, {"WIDTH", c.width}, {"FS", c.from.stride}, {"FO", c.from.offset},
                                                                  {"FSTEP", c.from_step}, {"TS", c.to.stride}, {"TO", c.to.offset}, {"TSTEP", c.to_step}}),
                                    kinds("rw")};
         },
         {c.from.buffer, c.to.buffer}, {(c.groups * c.width + 255) / 256}, {1, dispatch::Var::Tokens, 1});
}

}  // namespace gull::kernels
