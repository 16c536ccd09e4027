/* The C API compiles as C, and computes. Exits with 77 (skipped) where there is no adapter. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gull/gull.h"

static int failures = 0;

static void expect(int ok, const char *what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "FAILED: %s (last error: %s)\n", what, gull_last_error());
}

int main(void) {
  const gull_device_options nowhere = {.device = "no such adapter"};
  expect(gull_compute_open(&nowhere) == NULL, "an unknown adapter gives NULL");
  expect(strstr(gull_last_error(), "no such adapter") != NULL, "and says which");
  gull_compute *gpu = gull_compute_open(NULL);
  if (!gpu) {
    fprintf(stderr, "%s\n", gull_last_error());
    return 77;
  }
  gull_compute_info info;
  expect(gull_compute_capabilities(gpu, &info) == GULL_OK && info.device[0] != 0, "capabilities");

  const float a[6] = {1, 2, 3, 4, 5, 6}, b[3] = {1, 0, -1};
  uint64_t ah = 0, bh = 0, ch = 0;
  expect(gull_compute_alloc(gpu, sizeof a, &ah) == GULL_OK && ah != 0, "alloc");
  expect(gull_compute_alloc(gpu, sizeof b, &bh) == GULL_OK, "alloc");
  expect(gull_compute_alloc(gpu, 2 * sizeof(float), &ch) == GULL_OK, "alloc");
  expect(gull_compute_copy_to_device(gpu, ah, 0, a, sizeof a) == GULL_OK, "copy in");
  expect(gull_compute_copy_to_device(gpu, bh, 0, b, sizeof b) == GULL_OK, "copy in");

  gull_gemm_args gemm = {.m = 2, .n = 1, .k = 3, .a = {ah, 0}, .b = {bh, 0}, .c = {ch, 0}, .alpha = 1};
  float c[2] = {0, 0};
  expect(gull_compute_gemm(gpu, &gemm) == GULL_OK, "gemm");
  expect(gull_compute_copy_to_host(gpu, ch, 0, c, sizeof c) == GULL_OK, "copy out");
  expect(c[0] == -2 && c[1] == -2, "gemm's result");

  const uint32_t shape[2] = {2, 3}, row[1] = {3}, axis[1] = {1};
  expect(gull_compute_binary(gpu, GULL_MUL, (gull_view){ah, 0}, shape, 2, (gull_view){bh, 0}, row, 1, (gull_view){ah, 0}, GULL_F32) == GULL_OK, "binary");
  expect(gull_compute_reduce(gpu, GULL_SUM, (gull_view){ah, 0}, shape, 2, axis, 1, (gull_view){ch, 0}, GULL_F32) == GULL_OK, "reduce");
  expect(gull_compute_unary(gpu, GULL_ABS, (gull_view){ch, 0}, (gull_view){ch, 0}, 2, GULL_F32) == GULL_OK, "unary");
  expect(gull_compute_softmax(gpu, (gull_view){ch, 0}, (gull_view){ch, 0}, axis, 1, 0, GULL_F32) == GULL_OK, "softmax");
  expect(gull_compute_synchronize(gpu) == GULL_OK, "synchronize");
  expect(gull_compute_copy_to_host(gpu, ch, 0, c, sizeof(float)) == GULL_OK && fabsf(c[0] - 1) < 1e-6f, "softmax of one element");

  gull_attention_args attention = {.q_len = 1, .kv_len = 1, .head_dim = 1, .q = {ah, 0}, .k = {ah, 1}, .v = {bh, 2}, .out = {ch, 0}};
  expect(gull_compute_attention(gpu, &attention) == GULL_OK, "attention");
  expect(gull_compute_copy_to_host(gpu, ch, 0, c, sizeof(float)) == GULL_OK && c[0] == -1, "attention to one key is its value");
  gull_conv2d_args conv = {.batch = 1, .in_channels = 1, .height = 1, .width = 3, .out_channels = 1, .kernel_h = 1, .kernel_w = 2};
  expect(gull_compute_conv2d_forward(gpu, &conv, (gull_view){bh, 0}, (gull_view){bh, 1}, (gull_view){ch, 0}, (gull_view){0, 0}) == GULL_OK, "convolution");
  expect(gull_compute_copy_to_host(gpu, ch, 0, c, sizeof c) == GULL_OK && c[0] == 0 && c[1] == 1, "convolution's result");

  gemm.c.handle = ah;
  expect(gull_compute_gemm(gpu, &gemm) == GULL_INVALID_ARGUMENT, "C over A is refused");
  expect(gull_compute_gemm(NULL, &gemm) == GULL_INVALID_ARGUMENT && strstr(gull_last_error(), "gull_compute_gemm") != NULL, "NULL is named");
  expect(gull_compute_unary(gpu, (gull_unary_op)99, (gull_view){ah, 0}, (gull_view){ah, 0}, 1, GULL_F32) == GULL_INVALID_ARGUMENT, "unknown operation");
  expect(gull_compute_free(gpu, 4711) == GULL_NOT_FOUND && strcmp(gull_last_error(), "unknown handle 4711") == 0, "unknown handle");
  expect(gull_compute_free(gpu, ah) == GULL_OK && gull_compute_free(gpu, ah) == GULL_NOT_FOUND, "free");
  gull_compute_close(gpu);
  gull_compute_close(NULL);
  if (!failures) puts("ok");
  return failures ? 1 : 0;
}
