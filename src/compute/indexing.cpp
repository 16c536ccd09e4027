// gather and scatter along one axis.
#include "compute/impl.h"
#include "compute/shapes.h"
#include "dispatch/wgsl.h"

namespace gull {
namespace {

using namespace compute;

struct IndexParams {
  uint32_t n, axis, count, inner;   // n: elements of the gathered tensor, or of the updates
  uint32_t groups, source_offset, index_offset, target_offset;
};

constexpr std::string_view kText = R"(
struct Params { n: u32, axis: u32, count: u32, inner: u32, groups: u32, source_offset: u32, index_offset: u32, target_offset: u32 };
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  let i = id * 256u + t;
  if (id >= p.groups || i >= p.n) { return; }
  let line = i / p.inner;
  var index = index_at(p.index_offset + $WHICH$);
  if (index < 0) { index += i32(p.axis); }
  let inside = index >= 0 && u32(index) < p.axis;
  let there = (line / p.count * p.axis + u32(select(0, index, inside))) * p.inner + i % p.inner;
  $STATEMENT$
}
)";

struct IndexSpec {
  bool per_element = false, gather = false;
  ScatterMode mode = ScatterMode::Set;
};

std::string index_text(const ShaderContext&, const void* opaque) {
  const auto& spec = *static_cast<const IndexSpec*>(opaque);
  // Memory is touched only through an index that was tested.
  const char* statement = spec.gather ? "var v = 0.0; if (inside) { v = source_at(p.source_offset + there); } target_put(p.target_offset + i, v);"
                          : spec.mode == ScatterMode::Set ? "if (inside) { target_put(p.target_offset + there, source_at(p.source_offset + i)); }"
                                                          : "if (inside) { target_add(p.target_offset + there, source_at(p.source_offset + i)); }";
  return dispatch::expand(kText, {{"WHICH", spec.per_element ? "i" : "line % p.count"}, {"STATEMENT", statement}});
}

Result<void> run_indexing(ComputeBackend::Impl& impl, const char* op, const Indexing& indexing, View source, View target, IndexSpec spec) {
  if (auto ok = impl.initialised(); !ok) return ok;
  auto split = split_axis(op, indexing.shape, indexing.axis);
  if (!split) return fail(split.error());
  Shape other = indexing.shape;
  other.dims[indexing.axis] = indexing.count;
  auto others = count_elements(op, other);
  if (!others) return fail(others.error());
  const uint64_t whole = split->outer * split->axis * split->inner, n = *others;
  if (split->axis > INT32_MAX) return fail_f(ErrorKind::Unsupported, "{}: an axis of {} is beyond what int32 indices reach", op, split->axis);
  const Storage storage = storage_of(indexing.type);
  const Storage added = storage == Storage::F16 ? Storage::AddF16 : Storage::AddF32;
  Call call;
  call.op = op;
  call.op_id = spec.gather ? kGather : kScatter;
  call.add({"source", source, spec.gather ? whole : n, storage, false, false, false});
  call.add({"index", indexing.indices, indexing.per_element ? n : indexing.count, Storage::I32, false, false, false});
  const bool adds = !spec.gather && spec.mode == ScatterMode::Add;
  call.add({"target", target, spec.gather ? n : whole, adds ? added : storage, true, false, false});
  if (n == 0 || (whole == 0 && !spec.gather)) return impl.check(call);
  if (whole == 0)
    return fail_f(ErrorKind::InvalidArgument, "{}: {} indices into an axis of no elements", op, indexing.count);
  auto layout = impl.layout(call);
  if (!layout) return fail(layout.error());
  call.text = index_text;
  call.spec = &spec;
  call.variant = uint64_t{spec.per_element} << 2 | uint64_t{adds} << 1 | static_cast<uint64_t>(indexing.type);
  call.groups = (n + 255) / 256;
  call.work = double(n);
  return impl.run(call, *layout, IndexParams{static_cast<uint32_t>(n), static_cast<uint32_t>(split->axis), indexing.count,
                                             static_cast<uint32_t>(split->inner), static_cast<uint32_t>(call.groups), layout->offset[0],
                                             layout->offset[1], layout->offset[2]});
}

}  // namespace

Result<void> ComputeBackend::gather(const Indexing& indexing, View x, View y) {
  return run_indexing(*impl_, "gather", indexing, x, y, {indexing.per_element, true, {}});
}

Result<void> ComputeBackend::scatter(ScatterMode mode, const Indexing& indexing, View updates, View y) {
  return run_indexing(*impl_, "scatter", indexing, updates, y, {indexing.per_element, false, mode});
}

}  // namespace gull
