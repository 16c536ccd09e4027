// One value for every element: what a sum of nothing is.
#include "compute/impl.h"

namespace gull {
namespace {

using namespace compute;

constexpr std::string_view kText = R"(
struct Params { n: u32, offset: u32, groups: u32, value: u32 };
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  let i = id * 256u + t;
  if (id < p.groups && i < p.n) { target_put(p.offset + i, bitcast<f32>(p.value)); }
}
)";

std::string fill_text(const ShaderContext&, const void*) { return std::string(kText); }

}  // namespace

Result<void> ComputeBackend::Impl::fill(const char* op, const Operand& target, uint32_t value) {
  Call call;
  call.op = op;
  call.op_id = compute::kFill;
  call.add({"target", target.view, target.elements, target.storage, true, false, false});
  auto where = layout(call);
  if (!where) return fail(where.error());
  call.text = fill_text;
  call.variant = static_cast<uint64_t>(target.storage);
  call.groups = (target.elements + 255) / 256;
  struct Params { uint32_t n, offset, groups, value; };
  return run(call, *where, Params{static_cast<uint32_t>(target.elements), where->offset[0], static_cast<uint32_t>(call.groups), value});
}

}  // namespace gull
