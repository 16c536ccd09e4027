// Convolutions as matrix products whose factors are gathered on the way in (nothing is unfolded in memory):
//   forward          Y[o, (b i j)]  = Σ over (c u v)  W[o, (c u v)] · X[(c u v), (b i j)]
//   backward data    X'[c, (b y x)] = Σ over (o u v)  W[c, (o u v)] · Y'[(o u v), (b y x)]
//   backward filter  W'[o, (c u v)] = Σ over (b i j)  Y'[o, (b i j)] · X[(b i j), (c u v)]
// with one product for each group of channels.
#include <algorithm>

#include "compute/impl.h"
#include "compute/shapes.h"
#include "compute/tile_kernel.h"

namespace gull {
namespace {

using namespace compute;

enum class Pass : uint8_t { Forward, Data, Filter };

struct ConvParams {
  uint32_t m, n, k, tiles_m;
  uint32_t tiles_n, groups, in_group, out_group;        // channels of one group
  uint32_t in_channels, out_channels, height, width;
  uint32_t out_height, out_width, kernel_h, kernel_w;
  uint32_t stride_h, stride_w, pad_h, pad_w;
  uint32_t dilation_h, dilation_w, a_offset, b_offset;
  uint32_t c_offset, bias_offset, k_first, adds;        // this part of the sum, and whether it is added to what is there
};

constexpr std::string_view kParams = R"(
struct Params {
  m: u32, n: u32, k: u32, tiles_m: u32,
  tiles_n: u32, groups: u32, in_group: u32, out_group: u32,
  in_channels: u32, out_channels: u32, height: u32, width: u32,
  out_height: u32, out_width: u32, kernel_h: u32, kernel_w: u32,
  stride_h: u32, stride_w: u32, pad_h: u32, pad_w: u32,
  dilation_h: u32, dilation_w: u32, a_offset: u32, b_offset: u32,
  c_offset: u32, bias_offset: u32, k_first: u32, adds: u32,
};
fn put(i: u32, v: f32) {
  var sum = v;
  if (p.adds != 0u) { sum += c_at(i); }
  c_put(i, sum);
}
/// Where a tap of the kernel reads x for an output position; -1 outside. Positions left of 0 wrap to huge numbers.
fn x_index(b: u32, c: u32, i: u32, j: u32, u: u32, v: u32) -> i32 {
  let y = i * p.stride_h + u * p.dilation_h - p.pad_h;
  let x = j * p.stride_w + v * p.dilation_w - p.pad_w;
  if (y >= p.height || x >= p.width) { return -1; }
  return i32(((b * p.in_channels + c) * p.height + y) * p.width + x);
}
)";

// a: weight, b: x, c: y
constexpr std::string_view kForward = R"(
fn fetch_a(z: u32, o: u32, step: u32) -> f32 {
  if (o >= p.m || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  return a_at(p.a_offset + (z * p.out_group + o) * p.in_group * p.kernel_h * p.kernel_w + k);
}
fn fetch_b(z: u32, place: u32, step: u32) -> f32 {
  if (place >= p.n || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  let area = p.out_height * p.out_width;
  let taps = p.kernel_h * p.kernel_w;
  let at = place % area;
  let tap = k % taps;
  let i = x_index(place / area, z * p.in_group + k / taps, at / p.out_width, at % p.out_width, tap / p.kernel_w, tap % p.kernel_w);
  if (i < 0) { return 0.0; }
  return b_at(p.b_offset + u32(i));
}
fn store(z: u32, o: u32, place: u32, v: vec4<f32>) {
  let area = p.out_height * p.out_width;
  let channel = z * p.out_group + o;
  for (var j = 0u; j < 4u; j++) {
    let at = place + j;
    if (o < p.m && at < p.n) {
      put(p.c_offset + (at / area * p.out_channels + channel) * area + at % area, v[j]$BIAS$);
    }
  }
}
)";

// a: weight, b: dy, c: dx
constexpr std::string_view kData = R"(
fn fetch_a(z: u32, c: u32, step: u32) -> f32 {
  if (c >= p.m || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  let taps = p.kernel_h * p.kernel_w;
  return a_at(p.a_offset + ((z * p.out_group + k / taps) * p.in_group + c) * taps + k % taps);
}
fn fetch_b(z: u32, place: u32, step: u32) -> f32 {
  if (place >= p.n || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  let area = p.height * p.width;
  let taps = p.kernel_h * p.kernel_w;
  let at = place % area;
  let tap = k % taps;
  // The output that this tap would have made from here, if any: (y + pad - u·dilation) / stride.
  let y = i32(at / p.width + p.pad_h) - i32(tap / p.kernel_w * p.dilation_h);
  let x = i32(at % p.width + p.pad_w) - i32(tap % p.kernel_w * p.dilation_w);
  if (y < 0 || x < 0 || u32(y) % p.stride_h != 0u || u32(x) % p.stride_w != 0u) { return 0.0; }
  let i = u32(y) / p.stride_h;
  let j = u32(x) / p.stride_w;
  if (i >= p.out_height || j >= p.out_width) { return 0.0; }
  return b_at(p.b_offset + ((place / area * p.out_channels + z * p.out_group + k / taps) * p.out_height + i) * p.out_width + j);
}
fn store(z: u32, c: u32, place: u32, v: vec4<f32>) {
  let area = p.height * p.width;
  let channel = z * p.in_group + c;
  for (var j = 0u; j < 4u; j++) {
    let at = place + j;
    if (c < p.m && at < p.n) { put(p.c_offset + (at / area * p.in_channels + channel) * area + at % area, v[j]); }
  }
}
)";

// a: dy, b: x, c: dw
constexpr std::string_view kFilter = R"(
fn fetch_a(z: u32, o: u32, step: u32) -> f32 {
  if (o >= p.m || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  let area = p.out_height * p.out_width;
  return a_at(p.a_offset + (k / area * p.out_channels + z * p.out_group + o) * area + k % area);
}
fn fetch_b(z: u32, weight: u32, step: u32) -> f32 {
  if (weight >= p.n || step >= p.k) { return 0.0; }
  let k = p.k_first + step;
  let area = p.out_height * p.out_width;
  let taps = p.kernel_h * p.kernel_w;
  let at = k % area;
  let tap = weight % taps;
  let i = x_index(k / area, z * p.in_group + weight / taps, at / p.out_width, at % p.out_width, tap / p.kernel_w, tap % p.kernel_w);
  if (i < 0) { return 0.0; }
  return b_at(p.b_offset + u32(i));
}
fn store(z: u32, o: u32, weight: u32, v: vec4<f32>) {
  let first = p.c_offset + (z * p.out_group + o) * p.n + weight;
  for (var j = 0u; j < 4u; j++) {
    if (o < p.m && weight + j < p.n) { put(first + j, v[j]); }
  }
}
)";

struct ConvSpec {
  Pass pass = Pass::Forward;
  uint32_t tile = 0;
  bool bias = false;
};

std::string conv_text(const ShaderContext&, const void* opaque) {
  const auto& spec = *static_cast<const ConvSpec*>(opaque);
  std::string out(kParams);
  if (spec.pass == Pass::Forward) {
    const std::string_view marker = "$BIAS$";
    const size_t at = kForward.find(marker);
    out.append(kForward.substr(0, at)).append(spec.bias ? " + select(bias_at(p.bias_offset + channel), 0.0, p.adds != 0u)" : "").append(kForward.substr(at + marker.size()));
  } else {
    out += spec.pass == Pass::Data ? kData : kFilter;
  }
  const TileLoad along_k{true, false}, along_outer{false, false};
  return out + tile_kernel({tile_shapes()[spec.tile], along_k, spec.pass == Pass::Filter ? along_k : along_outer, false, false});
}

Result<void> check_geometry(const char* op, const Conv2d& c) {
  const auto wrong = [op](std::string what) { return fail_f(ErrorKind::InvalidArgument, "{}: {}", op, what); };
  if (!c.in_channels || !c.out_channels || !c.height || !c.width || !c.kernel_h || !c.kernel_w) return wrong("channels, sizes and kernel must be above 0");
  if (!c.stride_h || !c.stride_w || !c.dilation_h || !c.dilation_w || !c.groups) return wrong("strides, dilations and groups must be above 0");
  if (c.in_channels % c.groups || c.out_channels % c.groups)
    return wrong(fmt::format("{} and {} channels cannot be split into {} groups", c.in_channels, c.out_channels, c.groups));
  constexpr uint64_t kFar = uint64_t{1} << 30;   // positions are compared as 32-bit numbers
  const uint64_t reach_h = uint64_t{c.dilation_h} * (c.kernel_h - 1) + 1, reach_w = uint64_t{c.dilation_w} * (c.kernel_w - 1) + 1;
  if (std::max({uint64_t{c.height} + 2 * uint64_t{c.pad_h}, uint64_t{c.width} + 2 * uint64_t{c.pad_w}, reach_h, reach_w, uint64_t{c.stride_h}, uint64_t{c.stride_w}}) >= kFar)
    return wrong("a size, stride or dilation of 2^30 or more");
  if (c.out_height() == 0 || c.out_width() == 0)
    return wrong(fmt::format("a kernel that reaches over {}×{} does not fit a padded input of {}×{}", reach_h, reach_w,
                             c.height + 2 * c.pad_h, c.width + 2 * c.pad_w));
  return {};
}

struct Operands { View a, b, c, bias; };

Result<void> run_conv(ComputeBackend::Impl& impl, const char* op, Pass pass, const Conv2d& c, const Operands& views) {
  if (auto ok = impl.initialised(); !ok) return ok;
  if (auto ok = check_geometry(op, c); !ok) return ok;
  const uint32_t in_group = c.in_channels / c.groups, out_group = c.out_channels / c.groups;
  const uint64_t taps = uint64_t{c.kernel_h} * c.kernel_w, area = uint64_t{c.height} * c.width, out_area = uint64_t{c.out_height()} * c.out_width();
  const uint64_t x = saturating_product({c.batch, c.in_channels, area}), y = saturating_product({c.batch, c.out_channels, out_area});
  const uint64_t w = saturating_product({c.out_channels, in_group, taps});
  const Storage storage = storage_of(c.type);
  Call call;
  call.op = op;
  call.op_id = kConv;
  call.add({"a", views.a, pass == Pass::Filter ? y : w, storage, false, false, false});
  call.add({"b", views.b, pass == Pass::Data ? y : x, storage, false, false, false});
  call.add({"c", views.c, pass == Pass::Forward ? y : pass == Pass::Data ? x : w, storage, true, false, false});
  call.add({"bias", views.bias, views.bias.handle ? c.out_channels : uint64_t{0}, storage, false, false, false});
  if (c.batch == 0) {
    if (auto ok = impl.check(call); !ok) return ok;
    return pass == Pass::Filter ? impl.fill(op, call.operands[2], 0) : Result<void>{};
  }
  auto layout = impl.layout(call);
  if (!layout) return fail(layout.error());
  // Indices into x are signed in the shader.
  if (x > INT32_MAX) return fail_f(ErrorKind::Unsupported, "{}: more than 2^31 elements of x: split the batch", op);
  const auto small = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const uint32_t m = pass == Pass::Data ? in_group : out_group;
  const uint32_t n = small(pass == Pass::Forward ? c.batch * out_area : pass == Pass::Data ? c.batch * area : in_group * taps);
  const uint32_t k = small(pass == Pass::Forward ? in_group * taps : pass == Pass::Data ? out_group * taps : c.batch * out_area);
  ConvSpec spec{pass, choose_tile(impl.caps(), m, n, c.groups), views.bias.handle != 0};
  const TileGrid grid = tile_grid(tile_shapes()[spec.tile], m, n, c.groups);
  call.groups = grid.groups;
  call.work = double(m) * n * k * c.groups;
  call.text = conv_text;
  call.spec = &spec;
  call.variant = uint64_t{spec.tile} << 8 | static_cast<uint64_t>(pass) << 4 | uint64_t{spec.bias} << 1 | static_cast<uint64_t>(c.type);
  ConvParams params{m, n, k, grid.tiles_m, grid.tiles_n, small(grid.groups), in_group, out_group, c.in_channels, c.out_channels, c.height, c.width,
                    c.out_height(), c.out_width(), c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad_h, c.pad_w, c.dilation_h, c.dilation_w,
                    layout->offset[0], layout->offset[1], layout->offset[2], layout->offset[3], 0, 0};
  // A step along k makes up to two loads of each factor and one product.
  const auto piece = small(std::min<uint64_t>(loop_budget(impl.caps()) / 4 & ~uint64_t{15}, UINT32_MAX));
  for (; params.k_first < k; params.k_first += params.k, params.adds = 1) {
    params.k = std::min(piece, k - params.k_first);
    if (auto ok = impl.run(call, *layout, params); !ok) return ok;
  }
  return {};
}

}  // namespace

Result<void> ComputeBackend::conv2d_forward(const Conv2d& conv, View x, View weight, View y, View bias) {
  return run_conv(*impl_, "conv2d_forward", Pass::Forward, conv, {weight, x, y, bias});
}

Result<void> ComputeBackend::conv2d_backward_data(const Conv2d& conv, View dy, View weight, View dx) {
  return run_conv(*impl_, "conv2d_backward_data", Pass::Data, conv, {weight, dy, dx, {}});
}

Result<void> ComputeBackend::conv2d_backward_filter(const Conv2d& conv, View x, View dy, View dw) {
  return run_conv(*impl_, "conv2d_backward_filter", Pass::Filter, conv, {dy, x, dw, {}});
}

}  // namespace gull
