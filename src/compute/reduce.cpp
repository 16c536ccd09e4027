// reduce over any axes. Large reductions go in two steps: parts of them into scratch memory, then the parts.
#include <algorithm>

#include "compute/impl.h"
#include "compute/scratch.h"
#include "compute/shapes.h"
#include "dispatch/wgsl.h"

namespace gull {
namespace {

using namespace compute;
using dispatch::expand;

struct ReduceParams {
  uint32_t outputs, reduced, parts, part_length;
  uint32_t x_offset, y_offset, groups, pad0;
  float scale;
  uint32_t identity, pad1, pad2;   // identity: bits of a float
  std::array<uint32_t, 4> kept_sizes, kept_strides, gone_sizes, gone_strides;
};

constexpr std::string_view kCommon = R"(
struct Params {
  outputs: u32, reduced: u32, parts: u32, part_length: u32,
  x_offset: u32, y_offset: u32, groups: u32, pad0: u32,
  scale: f32, identity: u32, pad1: u32, pad2: u32,
  kept_sizes: vec4<u32>, kept_strides: vec4<u32>, gone_sizes: vec4<u32>, gone_strides: vec4<u32>,
};
fn f(a: f32, b: f32) -> f32 { $FUNCTION$ }
fn base_of(output: u32) -> u32 {
  var rest = output;
  var at = p.x_offset;
$KEPT$
  return at;
}
fn offset_of(element: u32) -> u32 {
  var rest = element;
  var at = 0u;
$GONE$
  return at;
}
)";

// One workgroup an output (or a part of one): neighbours along the axes that go are read by neighbouring invocations.
constexpr std::string_view kRows = R"(
var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  let base = base_of(id % p.outputs);
  let first = id / p.outputs * p.part_length;
  let end = min(first + p.part_length, p.reduced);
  var sum = bitcast<f32>(p.identity);
  for (var e = first + t; e < end; e += 256u) { sum = f(sum, x_at(base + offset_of(e))); }
  sums[t] = sum;
  for (var half = 128u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (t < half) { sums[t] = f(sums[t], sums[t + half]); }
  }
  if (t == 0u) { y_put(p.y_offset + id, sums[0] * p.scale); }
}
)";

// One invocation an output (or a part of one): neighbouring outputs are neighbours in memory. Sums of 32 at a time are
// added up, so that rounding grows with the number of those, not of elements.
constexpr std::string_view kColumns = R"(
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  let line = id * 64u + t;
  if (line / p.parts >= p.outputs) { return; }
  let base = base_of(line % p.outputs);
  let first = line / p.outputs * p.part_length;
  let end = min(first + p.part_length, p.reduced);
  var sum = bitcast<f32>(p.identity);
  for (var block = first; block < end; block += 32u) {
    var part = bitcast<f32>(p.identity);
    for (var e = block; e < min(block + 32u, end); e++) { part = f(part, x_at(base + offset_of(e))); }
    sum = f(sum, part);
  }
  y_put(p.y_offset + line, sum * p.scale);
}
)";

struct ReduceSpec {
  ReduceOp op = ReduceOp::Sum;
  bool rows = false;
  uint32_t kept = 0, gone = 0;
};

std::string axes_text(uint32_t count, std::string_view kind) {
  std::string out;
  for (uint32_t d = count; d-- > 0;) {
    const char c = "xyzw"[d];
    // The outermost axis needs no division: nothing is left above it.
    if (d == 0) out += fmt::format("  at += rest * p.{}_strides.{};\n", kind, c);
    else out += fmt::format("  at += rest % p.{0}_sizes.{1} * p.{0}_strides.{1}; rest /= p.{0}_sizes.{1};\n", kind, c);
  }
  return out;
}

std::string reduce_text(const ShaderContext&, const void* opaque) {
  const auto& spec = *static_cast<const ReduceSpec*>(opaque);
  const char* function = spec.op == ReduceOp::Max   ? "if (is_nan(a)) { return a; } if (is_nan(b)) { return b; } return max(a, b);"
                         : spec.op == ReduceOp::Min ? "if (is_nan(a)) { return a; } if (is_nan(b)) { return b; } return min(a, b);"
                                                    : "return a + b;";
  return expand(kCommon, {{"FUNCTION", function}, {"KEPT", axes_text(spec.kept, "kept")}, {"GONE", axes_text(spec.gone, "gone")}})
      .append(spec.rows ? kRows : kColumns);
}

/// One dispatch: x with the axes of `r`, in `parts` parts, into y[part][output].
Result<void> step(ComputeBackend::Impl& impl, ReduceOp op, const Reduction& r, View x, uint64_t x_elements, ElementType x_type, View y,
                  ElementType y_type, uint32_t parts, bool rows, float scale) {
  Call call;
  call.op = "reduce";
  call.op_id = kReduce;
  call.add({"x", x, x_elements, storage_of(x_type), false, false, false});
  call.add({"y", y, r.outputs * parts, storage_of(y_type), true, false, false});
  auto layout = impl.layout(call);
  if (!layout) return fail(layout.error());
  ReduceSpec spec{op == ReduceOp::Mean ? ReduceOp::Sum : op, rows, r.kept, r.gone};
  call.text = reduce_text;
  call.spec = &spec;
  call.variant = static_cast<uint64_t>(spec.op) << 12 | uint64_t{rows} << 8 | uint64_t{r.kept} << 5 | uint64_t{r.gone} << 2 |
                 static_cast<uint64_t>(x_type) << 1 | static_cast<uint64_t>(y_type);
  const uint64_t lines = r.outputs * parts;
  call.groups = rows ? lines : (lines + 63) / 64;
  call.work = double(x_elements);
  const uint32_t identity = op == ReduceOp::Max ? 0xff800000 : op == ReduceOp::Min ? 0x7f800000 : 0;
  const auto length = static_cast<uint32_t>((r.reduced + parts - 1) / parts);
  return impl.run(call, *layout, ReduceParams{static_cast<uint32_t>(r.outputs), static_cast<uint32_t>(r.reduced), parts, length, layout->offset[0],
                                              layout->offset[1], static_cast<uint32_t>(call.groups), 0, scale, identity, 0, 0, r.kept_sizes,
                                              r.kept_strides, r.gone_sizes, r.gone_strides});
}

/// In how many parts each output is made, so that few long reductions fill the device.
uint32_t choose_parts(const gpu::Caps& caps, const Reduction& r, bool rows) {
  const uint64_t wanted = (rows ? 512 : 16384) / (caps.software ? 32 : 1);    // workgroups, or invocations
  const uint64_t shortest = rows ? 4096 : 128;   // elements that are worth a part
  const uint64_t parts = std::min(wanted / std::max<uint64_t>(r.outputs, 1), r.reduced / shortest);
  const uint64_t longest = loop_budget(caps) / 2 > UINT32_MAX ? UINT32_MAX : loop_budget(caps) / 2 * (rows ? 256 : 1);
  return static_cast<uint32_t>(std::max(std::clamp<uint64_t>(parts, 1, 1024), (r.reduced + longest - 1) / longest));
}

}  // namespace

Result<void> ComputeBackend::reduce(ReduceOp op, View x, const Shape& shape, std::span<const uint32_t> axes, View y, ElementType type) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  auto reduction = reduction_axes("reduce", shape, axes);
  if (!reduction) return fail(reduction.error());
  const Reduction& r = *reduction;
  Call call;
  call.op = "reduce";
  call.op_id = kReduce;
  call.add({"x", x, r.outputs * r.reduced, storage_of(type), false, false, false});
  call.add({"y", y, r.outputs, storage_of(type), true, false, false});
  if (r.outputs * r.reduced == 0) {
    if (auto ok = impl_->check(call); !ok) return ok;
    if (r.outputs == 0) return {};
    if (op == ReduceOp::Max || op == ReduceOp::Min)
      return fail(ErrorKind::InvalidArgument, "reduce: there is no largest or smallest of no elements");
    return impl_->fill("reduce", call.operands[1], op == ReduceOp::Mean ? 0x7fc00000 : 0);
  }
  const bool rows = !(r.inner_kept || r.reduced <= 32);
  const uint32_t parts = choose_parts(impl_->caps(), r, rows);
  const float scale = op == ReduceOp::Mean ? static_cast<float>(1.0 / static_cast<double>(r.reduced)) : 1.0f;
  if (parts == 1) return step(*impl_, op, r, x, r.outputs * r.reduced, type, y, type, 1, rows, scale);
  // Scratch memory is refused only after the operands are known to be right.
  if (auto ok = impl_->check(call); !ok) return ok;
  if (auto ok = impl_->layout(call); !ok) return fail(ok.error());
  Scratch::Use scratch(impl_->scratch);
  auto memory = scratch.get(*impl_, r.outputs * parts * 4);
  if (!memory) return fail(memory.error());
  if (auto ok = step(*impl_, op, r, x, r.outputs * r.reduced, type, *memory, ElementType::F32, parts, rows, 1.0f); !ok) return ok;
  Reduction last;
  last.kept = last.gone = 1;
  last.outputs = r.outputs;
  last.reduced = parts;
  last.kept_sizes[0] = static_cast<uint32_t>(r.outputs);
  last.kept_strides[0] = 1;
  last.gone_sizes[0] = parts;
  last.gone_strides[0] = static_cast<uint32_t>(r.outputs);
  const bool few = r.outputs < 64;
  return step(*impl_, op, last, *memory, r.outputs * parts, ElementType::F32, y, type, 1, few, scale);
}

}  // namespace gull
