// Axes of tensors: checked products, and merging of axes that can be walked as one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "gull/compute.h"

namespace gull::compute {

/// A product that stops at 2^62 instead of wrapping: sizes come from callers, and what is refused as too large need not
/// be exact. Sums of two such products cannot wrap either.
uint64_t saturating_product(std::initializer_list<uint64_t> factors);

/// How many elements a shape has. Errors: more than 8 axes, more elements than 2^48 (no memory is that large).
Result<uint64_t> count_elements(const char* op, const Shape& shape);

/// Two operands laid side by side: sizes of the result's axes (outermost first), and how far each operand moves along
/// them (0 where it is repeated). Axes that both operands walk through without a seam are merged.
struct Broadcast {
  uint32_t rank = 0;
  uint64_t elements = 0, a_elements = 0, b_elements = 0;
  std::array<uint32_t, 8> sizes{}, a_strides{}, b_strides{};
  /// Both have the result's shape.
  bool flat() const { return elements == a_elements && elements == b_elements; }
};
/// Errors: shapes that do not fit together, in NumPy's sense.
Result<Broadcast> broadcast_axes(const char* op, const Shape& a, const Shape& b);

/// A reduction: axes that stay and axes that go, outermost first, neighbours of a kind merged.
struct Reduction {
  uint32_t kept = 0, gone = 0;                                       ///< how many axes, at most 4 each
  std::array<uint32_t, 4> kept_sizes{}, kept_strides{}, gone_sizes{}, gone_strides{};
  uint64_t outputs = 1, reduced = 1;
  bool inner_kept = false;                                           ///< the innermost axis stays
};
/// `axes` may be empty: all. Errors: an axis outside the shape, or named twice.
Result<Reduction> reduction_axes(const char* op, const Shape& shape, std::span<const uint32_t> axes);

/// A shape seen from one axis: outer × axis × inner.
struct AxisSplit { uint64_t outer = 1, axis = 1, inner = 1; };
Result<AxisSplit> split_axis(const char* op, const Shape& shape, uint32_t axis);

}  // namespace gull::compute
