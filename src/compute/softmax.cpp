// softmax along one axis: x is read twice, once for the maximum and the sum together, once to write.
#include "compute/impl.h"
#include "compute/shapes.h"

namespace gull {
namespace {

using namespace compute;

struct SoftmaxParams {
  uint32_t lines, axis, inner, groups;
  uint32_t x_offset, y_offset, pad0, pad1;
};

constexpr std::string_view kCommon = R"(
struct Params { lines: u32, axis: u32, inner: u32, groups: u32, x_offset: u32, y_offset: u32, pad0: u32, pad1: u32 };
/// The largest value so far, and the sum of exp(x - largest). The start is finite: -inf minus -inf would be NaN.
struct Total { largest: f32, sum: f32 };
fn start() -> Total { return Total(-3.4e38, 0.0); }
fn add(total: Total, x: f32) -> Total {
  if (x > total.largest) { return Total(x, total.sum * exp(total.largest - x) + 1.0); }
  return Total(total.largest, total.sum + exp(x - total.largest));
}
fn merge(a: Total, b: Total) -> Total {
  let largest = max(a.largest, b.largest);
  return Total(largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest));
}
fn first_of(line: u32) -> u32 { return line / p.inner * p.inner * p.axis + line % p.inner; }
)";

constexpr std::string_view kRows = R"(
var<workgroup> totals: array<Total, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let line = group_number(group, groups);
  if (line >= p.lines) { return; }
  let first = first_of(line);
  var total = start();
  for (var e = t; e < p.axis; e += 256u) { total = add(total, x_at(p.x_offset + first + e * p.inner)); }
  totals[t] = total;
  for (var half = 128u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (t < half) { totals[t] = merge(totals[t], totals[t + half]); }
  }
  workgroupBarrier();
  let all = totals[0];
  for (var e = t; e < p.axis; e += 256u) {
    let i = first + e * p.inner;
    y_put(p.y_offset + i, exp(x_at(p.x_offset + i) - all.largest) / all.sum);
  }
}
)";

constexpr std::string_view kColumns = R"(
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  let line = id * 64u + t;
  if (id >= p.groups || line >= p.lines) { return; }
  let first = first_of(line);
  var total = start();
  for (var e = 0u; e < p.axis; e++) { total = add(total, x_at(p.x_offset + first + e * p.inner)); }
  for (var e = 0u; e < p.axis; e++) {
    let i = first + e * p.inner;
    y_put(p.y_offset + i, exp(x_at(p.x_offset + i) - total.largest) / total.sum);
  }
}
)";

std::string softmax_text(const ShaderContext&, const void* spec) {
  return std::string(kCommon).append(*static_cast<const bool*>(spec) ? kRows : kColumns);
}

}  // namespace

Result<void> ComputeBackend::softmax(View x, View y, const Shape& shape, uint32_t axis, ElementType type) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  auto split = split_axis("softmax", shape, axis);
  if (!split) return fail(split.error());
  const uint64_t lines = split->outer * split->inner, n = lines * split->axis;
  Call call;
  call.op = "softmax";
  call.op_id = kSoftmax;
  call.add({"x", x, n, storage_of(type), false, true, false});
  call.add({"y", y, n, storage_of(type), true, false, false});
  if (n == 0) return impl_->check(call);
  auto layout = impl_->layout(call);
  if (!layout) return fail(layout.error());
  // Along the innermost axis neighbours are read by one workgroup; along others, by neighbouring lines' invocations.
  const bool rows = (split->inner < 8 && split->axis > 16) || 2 * split->axis > loop_budget(impl_->caps());
  if (rows && split->axis / 128 > loop_budget(impl_->caps()))
    return fail_f(ErrorKind::Unsupported, "softmax: an axis of {} is longer than a software adapter can walk", split->axis);
  call.text = softmax_text;
  call.spec = &rows;
  call.variant = uint64_t{rows} << 1 | static_cast<uint64_t>(type);
  call.groups = rows ? lines : (lines + 63) / 64;
  call.work = 4 * double(n);
  return impl_->run(call, *layout, SoftmaxParams{static_cast<uint32_t>(lines), static_cast<uint32_t>(split->axis), static_cast<uint32_t>(split->inner),
                                                 static_cast<uint32_t>(call.groups), layout->offset[0], layout->offset[1], 0, 0});
}

}  // namespace gull
