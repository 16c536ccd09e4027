/* Language models through the C API: load, generate with a callback, stop, free. Skipped (77) where there is no adapter. */
#include <stdio.h>
#include <string.h>

#include "gull/gull.h"

static int failures = 0;

static void expect(int ok, const char *what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "FAILED: %s (last error: %s)\n", what, gull_last_error());
}

typedef struct Collected {
  char text[4096];
  size_t length, pieces, stop_after;
} Collected;

static bool collect(const char *text, size_t length, void *user) {
  Collected *out = user;
  if (out->length + length < sizeof out->text) memcpy(out->text + out->length, text, length);
  out->length += length;
  return ++out->pieces != out->stop_after;
}

int main(void) {
  expect(gull_model_load("no/such/file.gguf", NULL) == NULL && strstr(gull_last_error(), "no/such/file.gguf") != NULL, "a missing file is named");
  expect(gull_model_load(NULL, NULL) == NULL, "NULL is an error");
  const gull_model_options options = {.context = 64, .precise = true};
  gull_model *model = gull_model_load(GULL_TEST_DATA "/fixtures/models/llama.f32.gguf", &options);
  if (!model) {
    fprintf(stderr, "%s\n", gull_last_error());
    return strstr(gull_last_error(), "adapter") ? 77 : 1;
  }
  gull_session *session = gull_session_create(model);
  expect(session != NULL, "session");
  gull_model_free(model);   /* the session keeps it */

  const gull_generate_options greedy = {.max_tokens = 12};
  Collected first = {0}, again = {0}, stopped = {.stop_after = 1};
  expect(gull_session_generate(session, "hello there", &greedy, collect, &first) == GULL_OK && first.length > 0, "generate");
  gull_session_reset(session);
  expect(gull_session_generate(session, "hello there", &greedy, collect, &again) == GULL_OK, "generate after a reset");
  expect(first.length == again.length && memcmp(first.text, again.text, first.length) == 0, "greedy text is the same again");
  expect(gull_session_generate(session, "hello there", &greedy, collect, &stopped) == GULL_OK && stopped.pieces == 1, "a callback can stop");
  expect(gull_session_generate(session, NULL, &greedy, collect, &stopped) == GULL_INVALID_ARGUMENT, "NULL is an error");
  gull_session_free(session);
  gull_session_free(NULL);
  gull_model_free(NULL);
  if (!failures) puts("ok");
  return failures ? 1 : 0;
}
