// unary and binary, with NumPy's broadcasting and NumPy's answers for NaN, infinities and signs.
#include <algorithm>

#include "compute/impl.h"
#include "compute/shapes.h"
#include "dispatch/wgsl.h"

namespace gull {
namespace {

using namespace compute;
using dispatch::expand;

const char* unary_body(UnaryOp op) {
  switch (op) {
    case UnaryOp::Relu: return "return select(max(x, 0.0), x, is_nan(x));";
    // Beyond ±88 the exponential leaves float32, and what a GPU makes of that is its own affair.
    case UnaryOp::Sigmoid: return "return select(1.0 / (1.0 + exp(-clamp(x, -88.0, 88.0))), x, is_nan(x));";
    case UnaryOp::Tanh: return "return select(tanh(clamp(x, -10.0, 10.0)), x, is_nan(x));";
    case UnaryOp::Exp: return "return exp(x);";
    case UnaryOp::Log: return "return log(x);";
    case UnaryOp::Sqrt: return "return sqrt(x);";
    case UnaryOp::Abs: return "return abs(x);";
    case UnaryOp::Neg: return "return -x;";
  }
  return "";
}

const char* binary_body(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add: return "return a + b;";
    case BinaryOp::Sub: return "return a - b;";
    case BinaryOp::Mul: return "return a * b;";
    case BinaryOp::Div: return "return a / b;";
    case BinaryOp::Max: return "if (is_nan(a)) { return a; } if (is_nan(b)) { return b; } return max(a, b);";
    case BinaryOp::Min: return "if (is_nan(a)) { return a; } if (is_nan(b)) { return b; } return min(a, b);";
    // WGSL's pow knows no negative base, and is exp2(b · log2(a)): small whole powers are multiplied out instead.
    case BinaryOp::Pow:
      return R"(
  if (b == 0.0 || a == 1.0) { return 1.0; }
  let whole = b == trunc(b);
  if (whole && abs(b) <= 16.0) {
    var r = 1.0;
    for (var i = 0; i < i32(abs(b)); i++) { r *= a; }
    return select(r, 1.0 / r, b < 0.0);
  }
  let odd = whole && abs(b) < 16777216.0 && (i32(b) & 1) != 0;
  if (a < 0.0 && !whole) { return bitcast<f32>(p.nan); }
  let r = pow(abs(a), b);
  return select(r, -r, a < 0.0 && odd);)";
  }
  return "";
}

struct FlatParams {
  uint32_t n, groups, a_offset, b_offset;
  uint32_t y_offset, nan, pad0, pad1;
};

constexpr uint32_t kNan = 0x7fc00000;
constexpr uint32_t kPerInvocation = 4, kPerGroup = 256 * kPerInvocation;

// n elements of each operand, in the same order; as vectors of four where $V$ is 4.
constexpr std::string_view kFlat = R"(
struct Params { n: u32, groups: u32, a_offset: u32, b_offset: u32, y_offset: u32, nan: u32, pad0: u32, pad1: u32 };
$FUNCTION$
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  for (var j = 0u; j < $TIMES$; j++) {
    let i = (id * $TIMES$ + j) * 256u + t;
    if (i < p.n / $V$) { $STATEMENT$ }
  }
}
)";

struct FlatSpec {
  int op = 0;
  bool binary = false;
};

std::string function_text(const FlatSpec& spec) {
  return spec.binary ? fmt::format("fn f(a: f32, b: f32) -> f32 {{ {} }}", binary_body(static_cast<BinaryOp>(spec.op)))
                     : fmt::format("fn f(x: f32) -> f32 {{ {} }}", unary_body(static_cast<UnaryOp>(spec.op)));
}

/// Whether the operands can be walked in vectors of four: then all of them are.
bool flat_vec4(const Layout& layout, size_t operands) {
  for (size_t i = 0; i < operands; ++i)
    if (!layout.vec4(i)) return false;
  return true;
}

std::string flat_text(const ShaderContext& context, const void* opaque) {
  const auto& spec = *static_cast<const FlatSpec*>(opaque);
  const bool four = flat_vec4(context.layout, context.operands.size());
  std::string statement;
  if (four && spec.binary)
    statement = "let a = a_at4(p.a_offset / 4u + i); let b = b_at4(p.b_offset / 4u + i); "
                "y_put4(p.y_offset / 4u + i, vec4<f32>(f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)));";
  else if (four)
    statement = "let x = a_at4(p.a_offset / 4u + i); y_put4(p.y_offset / 4u + i, vec4<f32>(f(x.x), f(x.y), f(x.z), f(x.w)));";
  else if (spec.binary) statement = "y_put(p.y_offset + i, f(a_at(p.a_offset + i), b_at(p.b_offset + i)));";
  else statement = "y_put(p.y_offset + i, f(a_at(p.a_offset + i)));";
  return expand(kFlat, {{"FUNCTION", function_text(spec)}, {"STATEMENT", statement}, {"V", four ? "4u" : "1u"},
                        {"TIMES", four ? "1u" : "4u"}});
}

/// `call` has its operands with `n` elements each. Tensors beyond one binding are done in pieces of one binding.
Result<void> run_flat(ComputeBackend::Impl& impl, Call call, FlatSpec spec, uint64_t n) {
  const uint64_t piece = (impl.caps().max_binding & ~uint64_t{255}) / element_bytes(call.operands[0].storage);
  if (n == 0 || n > piece)
    if (auto ok = impl.check(call); !ok) return ok;
  call.text = flat_text;
  call.spec = &spec;
  call.variant = static_cast<uint64_t>(spec.op) << 8 | static_cast<uint64_t>(call.operands[0].storage);
  const Call whole = call;
  for (uint64_t from = 0; from < n; from += piece) {
    const uint64_t count = std::min(piece, n - from);
    for (size_t i = 0; i < call.operand_count; ++i) {
      Operand& operand = call.operands[i];
      operand.view.offset = whole.operands[i].view.offset + from;
      operand.elements = count;
      operand.vec4 = count % 4 == 0;
    }
    auto layout = impl.layout(call);
    if (!layout) return fail(layout.error());
    // A mix of vectors and single elements is no gain: one operand out of step takes all back to single ones.
    if (!flat_vec4(*layout, call.operand_count)) {
      for (size_t i = 0; i < call.operand_count; ++i) call.operands[i].vec4 = false;
      layout = impl.layout(call);
      if (!layout) return fail(layout.error());
    }
    call.groups = (count + kPerGroup - 1) / kPerGroup;
    call.work = double(count);
    const size_t y = call.operand_count - 1;
    const FlatParams params{static_cast<uint32_t>(count), static_cast<uint32_t>(call.groups), layout->offset[0], layout->offset[1],
                            layout->offset[y], kNan, 0, 0};
    if (auto ok = impl.run(call, *layout, params); !ok) return ok;
  }
  return {};
}

struct BroadcastParams {
  uint32_t n, groups, a_offset, b_offset;
  uint32_t y_offset, nan, pad0, pad1;
  std::array<uint32_t, 8> sizes, a_strides, b_strides;
};

constexpr std::string_view kBroadcast = R"(
struct Params {
  n: u32, groups: u32, a_offset: u32, b_offset: u32, y_offset: u32, nan: u32, pad0: u32, pad1: u32,
  sizes0: vec4<u32>, sizes1: vec4<u32>, a_strides0: vec4<u32>, a_strides1: vec4<u32>, b_strides0: vec4<u32>, b_strides1: vec4<u32>,
};
$FUNCTION$
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) t: u32) {
  let id = group_number(group, groups);
  if (id >= p.groups) { return; }
  for (var j = 0u; j < 4u; j++) {
    let i = (id * 4u + j) * 256u + t;
    if (i >= p.n) { break; }
    var rest = i;
    var a = p.a_offset;
    var b = p.b_offset;
$AXES$
    y_put(p.y_offset + i, f(a_at(a), b_at(b)));
  }
}
)";

struct BroadcastSpec {
  FlatSpec flat;
  uint32_t rank = 0;
};

std::string broadcast_text(const ShaderContext&, const void* opaque) {
  const auto& spec = *static_cast<const BroadcastSpec*>(opaque);
  std::string axes;
  for (uint32_t d = spec.rank; d-- > 0;) {
    const std::string at = fmt::format("{}.{}", d / 4, "xyzw"[d % 4]);
    axes += fmt::format("    {{ let k = rest % p.sizes{0}; rest /= p.sizes{0}; a += k * p.a_strides{0}; b += k * p.b_strides{0}; }}\n", at);
  }
  return expand(kBroadcast, {{"FUNCTION", function_text(spec.flat)}, {"AXES", axes}});
}

}  // namespace

Result<void> ComputeBackend::unary(UnaryOp op, View x, View y, uint64_t n, ElementType type) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  Call call;
  call.op = "unary";
  call.op_id = kUnary;
  call.add({"a", x, n, storage_of(type), false, true, true});
  call.add({"y", y, n, storage_of(type), true, false, true});
  return run_flat(*impl_, call, {static_cast<int>(op), false}, n);
}

Result<void> ComputeBackend::binary(BinaryOp op, View a, View b, View y, uint64_t n, ElementType type) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  Call call;
  call.op = "binary";
  call.op_id = kBinary;
  call.add({"a", a, n, storage_of(type), false, true, true});
  call.add({"b", b, n, storage_of(type), false, true, true});
  call.add({"y", y, n, storage_of(type), true, false, true});
  return run_flat(*impl_, call, {static_cast<int>(op), true}, n);
}

Result<void> ComputeBackend::binary(BinaryOp op, View a, const Shape& a_shape, View b, const Shape& b_shape, View y, ElementType type) {
  if (auto ok = impl_->initialised(); !ok) return ok;
  auto broadcast = broadcast_axes("binary", a_shape, b_shape);
  if (!broadcast) return fail(broadcast.error());
  if (broadcast->flat()) return binary(op, a, b, y, broadcast->elements, type);
  Call call;
  call.op = "binary";
  call.op_id = kBinary;
  const uint64_t n = broadcast->elements;
  call.add({"a", a, broadcast->a_elements, storage_of(type), false, broadcast->a_elements == n, false});
  call.add({"b", b, broadcast->b_elements, storage_of(type), false, broadcast->b_elements == n, false});
  call.add({"y", y, n, storage_of(type), true, false, false});
  if (n == 0) return impl_->check(call);
  auto layout = impl_->layout(call);
  if (!layout) return fail(layout.error());
  BroadcastSpec spec{{static_cast<int>(op), true}, broadcast->rank};
  call.text = broadcast_text;
  call.spec = &spec;
  call.variant = uint64_t{1} << 16 | static_cast<uint64_t>(op) << 8 | uint64_t{spec.rank} << 4 | static_cast<uint64_t>(type);
  call.groups = (n + kPerGroup - 1) / kPerGroup;
  call.work = double(n);
  const BroadcastParams params{static_cast<uint32_t>(n), static_cast<uint32_t>(call.groups), layout->offset[0], layout->offset[1],
                               layout->offset[2], kNan, 0, 0, broadcast->sizes, broadcast->a_strides, broadcast->b_strides};
  return impl_->run(call, *layout, params);
}

}  // namespace gull
