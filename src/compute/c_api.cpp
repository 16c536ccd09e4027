// The C API of the compute backend: each function fills in defaults and calls its namesake.
#include "base/c_api.h"

#include <algorithm>
#include <cstring>

#include "gull/compute.h"

using namespace gull;

struct gull_compute {
  ComputeBackend backend;
};

namespace {

View view(gull_view v) { return {v.handle, v.offset}; }
ElementType type_of(gull_type type) { return type == GULL_F16 ? ElementType::F16 : ElementType::F32; }
uint32_t or_one(uint32_t value) { return value ? value : 1; }

/// An axis list from C; NULL is an empty one.
Shape shape_of(const uint32_t* sizes, uint32_t rank) {
  Shape shape;
  shape.rank = rank;   // one that is too large is refused by the operation
  for (uint32_t d = 0; sizes && d < std::min(rank, Shape::kMaxRank); ++d) shape.dims[d] = sizes[d];
  return shape;
}

std::optional<uint64_t> stride(int64_t value) {
  if (value == 0) return std::nullopt;
  return value < 0 ? 0 : static_cast<uint64_t>(value);
}

Conv2d conv_of(const gull_conv2d_args& a) {
  return {a.batch, a.in_channels, a.height, a.width, a.out_channels, a.kernel_h, a.kernel_w, or_one(a.stride_h), or_one(a.stride_w),
          a.pad_h, a.pad_w, or_one(a.dilation_h), or_one(a.dilation_w), or_one(a.groups), type_of(a.type)};
}

Indexing indexing_of(const gull_indexing_args& a) {
  return {shape_of(a.shape, a.rank), a.axis, a.count, view(a.indices), a.per_element, type_of(a.type)};
}

HeadStrides strides(gull_head_strides s) { return {s.batch, s.head, s.row}; }

template <class E>
gull_status unknown(const char* function, E op) {
  return c_failed({ErrorKind::InvalidArgument, std::string(function) + ": unknown operation " + std::to_string(static_cast<int>(op))});
}

}  // namespace

gull_compute* gull_compute_open(const gull_device_options* options) {
  ComputeOptions backend;
  backend.device = c_device(options);
  auto* gpu = new gull_compute{ComputeBackend(std::move(backend))};
  if (c_result(gpu->backend.init()) == GULL_OK) return gpu;
  delete gpu;
  return nullptr;
}

void gull_compute_close(gull_compute* gpu) { delete gpu; }

gull_status gull_compute_capabilities(gull_compute* gpu, gull_compute_info* info) {
  if (!gpu || !info) return c_null(__func__);
  const auto caps = gpu->backend.capabilities();
  if (!caps) return c_failed(caps.error());
  *info = {};
  std::strncpy(info->device, caps->device.name.c_str(), sizeof info->device - 1);
  info->f16 = caps->f16;
  info->immediates = caps->immediates;
  info->software = caps->software;
  info->max_alloc = caps->max_alloc;
  info->max_elements = caps->max_elements;
  return GULL_OK;
}

gull_status gull_compute_alloc(gull_compute* gpu, uint64_t bytes, uint64_t* handle) {
  if (!gpu || !handle) return c_null(__func__);
  const auto made = gpu->backend.alloc(bytes);
  *handle = made.value_or(0);
  return c_result(made);
}

gull_status gull_compute_free(gull_compute* gpu, uint64_t handle) { return gpu ? c_result(gpu->backend.free(handle)) : c_null(__func__); }

gull_status gull_compute_copy_to_device(gull_compute* gpu, uint64_t handle, uint64_t offset, const void* data, uint64_t bytes) {
  if (!gpu || (!data && bytes)) return c_null(__func__);
  return c_result(gpu->backend.copy_to_device(handle, std::span(static_cast<const std::byte*>(data), bytes), offset));
}

gull_status gull_compute_copy_to_host(gull_compute* gpu, uint64_t handle, uint64_t offset, void* data, uint64_t bytes) {
  if (!gpu || (!data && bytes)) return c_null(__func__);
  return c_result(gpu->backend.copy_to_host(handle, std::span(static_cast<std::byte*>(data), bytes), offset));
}

gull_status gull_compute_synchronize(gull_compute* gpu) { return gpu ? c_result(gpu->backend.synchronize()) : c_null(__func__); }

gull_status gull_compute_gemm(gull_compute* gpu, const gull_gemm_args* args) {
  if (!gpu || !args) return c_null(__func__);
  const gull_gemm_args& a = *args;
  BatchedGemm call;
  call.m = a.m, call.n = a.n, call.k = a.k;
  call.a = view(a.a), call.b = view(a.b), call.c = view(a.c);
  call.transpose_a = a.transpose_a, call.transpose_b = a.transpose_b;
  call.alpha = a.alpha, call.beta = a.beta;
  call.lda = a.lda, call.ldb = a.ldb, call.ldc = a.ldc;
  if (a.in == GULL_F32 && a.out == GULL_F16) return c_failed({ErrorKind::Unsupported, "gemm: float32 factors with a float16 result"});
  if (a.batch > 1) {
    if (a.in != GULL_F32) return c_failed({ErrorKind::Unsupported, "gemm: batches are float32"});
    call.batch = a.batch;
    call.stride_a = stride(a.stride_a), call.stride_b = stride(a.stride_b), call.stride_c = stride(a.stride_c);
    return c_result(gpu->backend.batched_gemm(call));
  }
  return c_result(a.out == GULL_F16 ? gpu->backend.gemm_f16(call) : a.in == GULL_F16 ? gpu->backend.gemm_mixed(call) : gpu->backend.gemm(call));
}

gull_status gull_compute_conv2d_forward(gull_compute* gpu, const gull_conv2d_args* args, gull_view x, gull_view weight, gull_view y, gull_view bias) {
  if (!gpu || !args) return c_null(__func__);
  return c_result(gpu->backend.conv2d_forward(conv_of(*args), view(x), view(weight), view(y), view(bias)));
}

gull_status gull_compute_conv2d_backward_data(gull_compute* gpu, const gull_conv2d_args* args, gull_view dy, gull_view weight, gull_view dx) {
  if (!gpu || !args) return c_null(__func__);
  return c_result(gpu->backend.conv2d_backward_data(conv_of(*args), view(dy), view(weight), view(dx)));
}

gull_status gull_compute_conv2d_backward_filter(gull_compute* gpu, const gull_conv2d_args* args, gull_view x, gull_view dy, gull_view dw) {
  if (!gpu || !args) return c_null(__func__);
  return c_result(gpu->backend.conv2d_backward_filter(conv_of(*args), view(x), view(dy), view(dw)));
}

gull_status gull_compute_attention(gull_compute* gpu, const gull_attention_args* args) {
  if (!gpu || !args) return c_null(__func__);
  const gull_attention_args& a = *args;
  Attention call;
  call.batch = or_one(a.batch), call.heads = or_one(a.heads), call.kv_heads = or_one(a.kv_heads);
  call.q_len = a.q_len, call.kv_len = a.kv_len, call.head_dim = a.head_dim;
  call.q = view(a.q), call.k = view(a.k), call.v = view(a.v), call.out = view(a.out);
  call.q_strides = strides(a.q_strides), call.k_strides = strides(a.k_strides);
  call.v_strides = strides(a.v_strides), call.out_strides = strides(a.out_strides);
  call.scale = a.scale, call.causal = a.causal, call.kv_offset = a.kv_offset, call.window = a.window, call.softcap = a.softcap;
  call.mask = view(a.mask), call.mask_per_batch = a.mask_per_batch, call.mask_per_head = a.mask_per_head;
  call.alibi_slopes = view(a.alibi_slopes);
  call.type = type_of(a.type);
  return c_result(gpu->backend.attention(call));
}

gull_status gull_compute_unary(gull_compute* gpu, gull_unary_op op, gull_view x, gull_view y, uint64_t n, gull_type type) {
  if (!gpu) return c_null(__func__);
  if (op < GULL_RELU || op > GULL_NEG) return unknown("unary", op);
  return c_result(gpu->backend.unary(static_cast<UnaryOp>(op), view(x), view(y), n, type_of(type)));
}

gull_status gull_compute_binary(gull_compute* gpu, gull_binary_op op, gull_view a, const uint32_t* a_shape, uint32_t a_rank, gull_view b,
                                const uint32_t* b_shape, uint32_t b_rank, gull_view y, gull_type type) {
  if (!gpu || (!a_shape && a_rank) || (!b_shape && b_rank)) return c_null(__func__);
  if (op < GULL_ADD || op > GULL_POW) return unknown("binary", op);
  return c_result(gpu->backend.binary(static_cast<BinaryOp>(op), view(a), shape_of(a_shape, a_rank), view(b), shape_of(b_shape, b_rank), view(y), type_of(type)));
}

gull_status gull_compute_reduce(gull_compute* gpu, gull_reduce_op op, gull_view x, const uint32_t* shape, uint32_t rank, const uint32_t* axes,
                                uint32_t axis_count, gull_view y, gull_type type) {
  if (!gpu || (!shape && rank) || (!axes && axis_count)) return c_null(__func__);
  if (op < GULL_SUM || op > GULL_MEAN) return unknown("reduce", op);
  return c_result(gpu->backend.reduce(static_cast<ReduceOp>(op), view(x), shape_of(shape, rank), std::span(axes, axis_count), view(y), type_of(type)));
}

gull_status gull_compute_softmax(gull_compute* gpu, gull_view x, gull_view y, const uint32_t* shape, uint32_t rank, uint32_t axis, gull_type type) {
  if (!gpu || (!shape && rank)) return c_null(__func__);
  return c_result(gpu->backend.softmax(view(x), view(y), shape_of(shape, rank), axis, type_of(type)));
}

gull_status gull_compute_gather(gull_compute* gpu, const gull_indexing_args* args, gull_view x, gull_view y) {
  if (!gpu || !args || (!args->shape && args->rank)) return c_null(__func__);
  return c_result(gpu->backend.gather(indexing_of(*args), view(x), view(y)));
}

gull_status gull_compute_scatter(gull_compute* gpu, bool add, const gull_indexing_args* args, gull_view updates, gull_view y) {
  if (!gpu || !args || (!args->shape && args->rank)) return c_null(__func__);
  return c_result(gpu->backend.scatter(add ? ScatterMode::Add : ScatterMode::Set, indexing_of(*args), view(updates), view(y)));
}
