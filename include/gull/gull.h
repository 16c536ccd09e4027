/* gull in plain C: tensor operations on the GPU, and language models. The C++ headers compute.h and engine.h say what
 * every operation means, which errors it has, and what the defaults are; the names here are the same.
 *
 * Functions that can fail return a gull_status, or NULL where they return an object; gull_last_error() then says why, in
 * one line. Structs are made zeroed ("gull_gemm_args args = {0};"): a zero everywhere means the default. */
#ifndef GULL_GULL_H
#define GULL_GULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gull_status {
  GULL_OK = 0,
  GULL_INVALID_ARGUMENT,
  GULL_NOT_FOUND,        /* a file, model or handle that is not there */
  GULL_BAD_FILE,
  GULL_UNSUPPORTED,
  GULL_OUT_OF_MEMORY,
  GULL_DEVICE,
  GULL_IO,
  GULL_CANCELLED,
  GULL_NOT_INITIALISED,
  GULL_INTERNAL
} gull_status;

/* Why the last function that failed in this thread did. Valid until the next one fails. Never NULL. */
const char *gull_last_error(void);

typedef struct gull_device_options {
  const char *device;        /* NULL: the best adapter; else its number, or a part of its name */
  bool baseline_limits;      /* as if it had only WebGPU's default limits */
  bool no_f16, no_subgroups, no_immediates, checked_shaders;
} gull_device_options;

/* ---- tensor operations ---------------------------------------------------------------------------------------- */

typedef struct gull_compute gull_compute;

/* Opens a GPU; options may be NULL. Safe to use from several threads. */
gull_compute *gull_compute_open(const gull_device_options *options);
void gull_compute_close(gull_compute *gpu);

typedef struct gull_compute_info {
  char device[128];
  bool f16, immediates, software;
  uint64_t max_alloc, max_elements;
} gull_compute_info;
gull_status gull_compute_capabilities(gull_compute *gpu, gull_compute_info *info);

gull_status gull_compute_alloc(gull_compute *gpu, uint64_t bytes, uint64_t *handle);
gull_status gull_compute_free(gull_compute *gpu, uint64_t handle);
gull_status gull_compute_copy_to_device(gull_compute *gpu, uint64_t handle, uint64_t offset, const void *data, uint64_t bytes);
gull_status gull_compute_copy_to_host(gull_compute *gpu, uint64_t handle, uint64_t offset, void *data, uint64_t bytes);
gull_status gull_compute_synchronize(gull_compute *gpu);

/* An operand: memory, and how many elements behind its start. A handle of 0 where an operand is optional: none. */
typedef struct gull_view { uint64_t handle, offset; } gull_view;
typedef enum gull_type { GULL_F32 = 0, GULL_F16 = 1 } gull_type;

/* C = alpha * op(A) * op(B) + beta * C; row-major; op(A) is m*k. Leading dimensions of 0: packed.
 * alpha is used as given: set it. in = F16 with out = F32 is the mixed product. */
typedef struct gull_gemm_args {
  uint32_t m, n, k;
  gull_view a, b, c;
  bool transpose_a, transpose_b;
  float alpha, beta;
  uint32_t lda, ldb, ldc;
  gull_type in, out;
  uint32_t batch;            /* 0 or 1: one product; batches are F32 */
  int64_t stride_a, stride_b, stride_c;   /* elements between matrices; 0: packed; -1: the same matrix for all */
} gull_gemm_args;
gull_status gull_compute_gemm(gull_compute *gpu, const gull_gemm_args *args);

typedef struct gull_conv2d_args {
  uint32_t batch, in_channels, height, width, out_channels, kernel_h, kernel_w;
  uint32_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;   /* 0 for strides, dilations, groups: 1 */
  gull_type type;
} gull_conv2d_args;
gull_status gull_compute_conv2d_forward(gull_compute *gpu, const gull_conv2d_args *args, gull_view x, gull_view weight, gull_view y, gull_view bias);
gull_status gull_compute_conv2d_backward_data(gull_compute *gpu, const gull_conv2d_args *args, gull_view dy, gull_view weight, gull_view dx);
gull_status gull_compute_conv2d_backward_filter(gull_compute *gpu, const gull_conv2d_args *args, gull_view x, gull_view dy, gull_view dw);

typedef struct gull_head_strides { uint32_t batch, head, row; } gull_head_strides;
typedef struct gull_attention_args {
  uint32_t batch, heads, kv_heads, q_len, kv_len, head_dim;   /* 0 for batch, heads, kv_heads: 1 */
  gull_view q, k, v, out;
  gull_head_strides q_strides, k_strides, v_strides, out_strides;
  float scale;
  bool causal;
  uint32_t kv_offset, window;
  float softcap;
  gull_view mask;
  bool mask_per_batch, mask_per_head;
  gull_view alibi_slopes;
  gull_type type;
} gull_attention_args;
gull_status gull_compute_attention(gull_compute *gpu, const gull_attention_args *args);

typedef enum gull_unary_op { GULL_RELU, GULL_SIGMOID, GULL_TANH, GULL_EXP, GULL_LOG, GULL_SQRT, GULL_ABS, GULL_NEG } gull_unary_op;
typedef enum gull_binary_op { GULL_ADD, GULL_SUB, GULL_MUL, GULL_DIV, GULL_BINARY_MAX, GULL_BINARY_MIN, GULL_POW } gull_binary_op;
typedef enum gull_reduce_op { GULL_SUM, GULL_MAX, GULL_MIN, GULL_MEAN } gull_reduce_op;

gull_status gull_compute_unary(gull_compute *gpu, gull_unary_op op, gull_view x, gull_view y, uint64_t n, gull_type type);
/* Shapes broadcast as in NumPy; at most 8 axes. */
gull_status gull_compute_binary(gull_compute *gpu, gull_binary_op op, gull_view a, const uint32_t *a_shape, uint32_t a_rank, gull_view b,
                                const uint32_t *b_shape, uint32_t b_rank, gull_view y, gull_type type);
/* axis_count 0: over all axes. */
gull_status gull_compute_reduce(gull_compute *gpu, gull_reduce_op op, gull_view x, const uint32_t *shape, uint32_t rank, const uint32_t *axes,
                                uint32_t axis_count, gull_view y, gull_type type);
gull_status gull_compute_softmax(gull_compute *gpu, gull_view x, gull_view y, const uint32_t *shape, uint32_t rank, uint32_t axis, gull_type type);

typedef struct gull_indexing_args {
  const uint32_t *shape;     /* of the indexed tensor */
  uint32_t rank, axis, count;
  gull_view indices;         /* int32 */
  bool per_element;
  gull_type type;
} gull_indexing_args;
gull_status gull_compute_gather(gull_compute *gpu, const gull_indexing_args *args, gull_view x, gull_view y);
gull_status gull_compute_scatter(gull_compute *gpu, bool add, const gull_indexing_args *args, gull_view updates, gull_view y);

/* ---- language models (link with gull::gull) --------------------------------------------------------------------- */

typedef struct gull_model gull_model;
typedef struct gull_session gull_session;

typedef struct gull_model_options {
  gull_device_options device;
  uint32_t context;          /* tokens; 0: the model's own, at most 4096 */
  uint64_t gpu_budget;       /* bytes of weights kept on the GPU; 0: all of them */
  bool precise;              /* float32 throughout */
} gull_model_options;

/* Loads a GGUF file; options may be NULL. */
gull_model *gull_model_load(const char *path, const gull_model_options *options);
void gull_model_free(gull_model *model);   /* its sessions keep what they need */

/* One conversation, for one thread at a time. */
gull_session *gull_session_create(gull_model *model);
void gull_session_free(gull_session *session);
void gull_session_reset(gull_session *session);

typedef struct gull_generate_options {
  int32_t max_tokens;        /* 0: until end of generation or of the context */
  float temperature;         /* 0: greedy */
  uint32_t top_k;            /* 0: off */
  float top_p;               /* 0 or 1: off */
  float min_p;
  uint64_t seed;             /* 0: a fresh one each time */
  const char *const *stop;   /* strings that end the text; may be NULL */
  size_t stop_count;
} gull_generate_options;

/* A piece of text as it comes: whole UTF-8 characters, not ended by a 0. Returning false stops. */
typedef bool (*gull_piece_callback)(const char *text, size_t length, void *user);

typedef struct gull_message { const char *role, *content; } gull_message;

/* Continues a prompt; options may be NULL. Tokens already in the session are reused where they are the same. */
gull_status gull_session_generate(gull_session *session, const char *prompt, const gull_generate_options *options, gull_piece_callback on_piece, void *user);
/* Answers a conversation in the model's own chat format. */
gull_status gull_session_chat(gull_session *session, const gull_message *messages, size_t count, const gull_generate_options *options,
                              gull_piece_callback on_piece, void *user);

#ifdef __cplusplus
}
#endif
#endif
