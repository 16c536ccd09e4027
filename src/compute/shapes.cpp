#include "compute/shapes.h"

#include <algorithm>

#include "base/log.h"

namespace gull::compute {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 48;

}  // namespace

uint64_t saturating_product(std::initializer_list<uint64_t> factors) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  uint64_t product = 1;
  for (uint64_t factor : factors) {
    if (factor == 0) return 0;
    product = product > kMost / factor ? kMost : product * factor;
  }
  return product;
}

Result<uint64_t> count_elements(const char* op, const Shape& shape) {
  if (shape.rank > Shape::kMaxRank)
    return fail_f(ErrorKind::InvalidArgument, "{}: a shape of {} axes, at most {} are supported", op, shape.rank, Shape::kMaxRank);
  uint64_t count = 1;
  bool empty = false;
  for (uint32_t d = 0; d < shape.rank; ++d) {
    if (shape.dims[d] == 0) empty = true;
    else if (count > kMostElements / shape.dims[d]) return fail_f(ErrorKind::InvalidArgument, "{}: a shape of more elements than any memory holds", op);
    else count *= shape.dims[d];
  }
  return empty ? 0 : count;
}

Result<Broadcast> broadcast_axes(const char* op, const Shape& a, const Shape& b) {
  Broadcast out;
  const auto a_count = count_elements(op, a), b_count = count_elements(op, b);
  if (!a_count) return fail(a_count.error());
  if (!b_count) return fail(b_count.error());
  out.a_elements = *a_count;
  out.b_elements = *b_count;
  Shape result;
  result.rank = std::max(a.rank, b.rank);
  std::array<uint32_t, 8> a_strides{}, b_strides{};
  uint64_t a_step = 1, b_step = 1;
  for (uint32_t back = 1; back <= result.rank; ++back) {
    const uint32_t d = result.rank - back;
    const uint32_t in_a = back <= a.rank ? a.dims[a.rank - back] : 1, in_b = back <= b.rank ? b.dims[b.rank - back] : 1;
    if (in_a != in_b && in_a != 1 && in_b != 1)
      return fail_f(ErrorKind::InvalidArgument, "{}: axis {} from the end is {} in one operand and {} in the other", op, back, in_a, in_b);
    result.dims[d] = in_a == 1 ? in_b : in_a;
    a_strides[d] = in_a == 1 ? 0 : static_cast<uint32_t>(a_step);
    b_strides[d] = in_b == 1 ? 0 : static_cast<uint32_t>(b_step);
    a_step *= in_a;
    b_step *= in_b;
  }
  const auto count = count_elements(op, result);
  if (!count) return fail(count.error());
  out.elements = *count;
  for (uint32_t d = 0; d < result.rank; ++d) {
    if (result.dims[d] == 1) continue;
    const uint32_t last = out.rank - 1;
    if (out.rank > 0 && out.a_strides[last] == a_strides[d] * result.dims[d] && out.b_strides[last] == b_strides[d] * result.dims[d]) {
      out.sizes[last] *= result.dims[d];
      out.a_strides[last] = a_strides[d];
      out.b_strides[last] = b_strides[d];
      continue;
    }
    out.sizes[out.rank] = result.dims[d];
    out.a_strides[out.rank] = a_strides[d];
    out.b_strides[out.rank++] = b_strides[d];
  }
  return out;
}

Result<Reduction> reduction_axes(const char* op, const Shape& shape, std::span<const uint32_t> axes) {
  const auto count = count_elements(op, shape);
  if (!count) return fail(count.error());
  std::array<bool, Shape::kMaxRank> goes{};
  if (axes.empty()) goes.fill(true);
  for (uint32_t axis : axes) {
    if (axis >= shape.rank) return fail_f(ErrorKind::InvalidArgument, "{}: axis {} of a tensor of {} axes", op, axis, shape.rank);
    if (goes[axis]) return fail_f(ErrorKind::InvalidArgument, "{}: axis {} is named twice", op, axis);
    goes[axis] = true;
  }
  Reduction out;
  std::array<uint64_t, Shape::kMaxRank> strides{};
  uint64_t step = 1;
  for (uint32_t d = shape.rank; d-- > 0;) {
    strides[d] = step;
    step *= shape.dims[d];
  }
  int previous = -1;   // 1: the axis before goes; 0: it stays
  for (uint32_t d = 0; d < shape.rank; ++d) {
    (goes[d] ? out.reduced : out.outputs) *= shape.dims[d];
    if (shape.dims[d] == 1) continue;
    auto& sizes = goes[d] ? out.gone_sizes : out.kept_sizes;
    auto& steps = goes[d] ? out.gone_strides : out.kept_strides;
    uint32_t& axes_of_kind = goes[d] ? out.gone : out.kept;
    if (previous == goes[d]) sizes[axes_of_kind - 1] *= shape.dims[d];   // contiguous with its neighbour
    else sizes[axes_of_kind++] = shape.dims[d];
    steps[axes_of_kind - 1] = static_cast<uint32_t>(strides[d]);
    previous = goes[d];
  }
  out.inner_kept = previous == 0;
  return out;
}

Result<AxisSplit> split_axis(const char* op, const Shape& shape, uint32_t axis) {
  if (auto count = count_elements(op, shape); !count) return fail(count.error());
  if (axis >= shape.rank) return fail_f(ErrorKind::InvalidArgument, "{}: axis {} of a tensor of {} axes", op, axis, shape.rank);
  AxisSplit out;
  for (uint32_t d = 0; d < shape.rank; ++d) (d < axis ? out.outer : d == axis ? out.axis : out.inner) *= shape.dims[d];
  return out;
}

}  // namespace gull::compute
