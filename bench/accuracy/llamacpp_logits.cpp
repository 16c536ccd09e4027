// llama.cpp's logits of given ids, for comparison. See bench/README.md, section Accuracy, for how to build it.
// usage: LIBS=FOLDER llamacpp_logits MODEL f32|default IDS.txt OUT.f32 [TEXT.txt]
//   f32      float32 KV cache and no flash attention, for a file turned into F32: the reference
//   default  llama.cpp's default context, for the quantised file: what its users get
// IDS.txt holds the ids, separated by blanks. With TEXT.txt the ids are those of the text, and are written to IDS.txt.
// OUT.f32: little-endian float32 [ids, vocabulary].
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "llama.h"

namespace {

std::vector<llama_token> tokens_of(const llama_vocab* vocab, const char* path) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<llama_token> ids(text.size() + 8);
  ids.resize(std::max(0, llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), ids.data(), static_cast<int>(ids.size()), true, true)));
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || !std::getenv("LIBS")) return std::fputs("usage: LIBS=FOLDER llamacpp_logits MODEL f32|default IDS.txt OUT.f32 [TEXT.txt]\n", stderr), 2;
  ggml_backend_load_all_from_path(std::getenv("LIBS"));
  llama_log_set([](ggml_log_level level, const char* text, void*) { if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr); }, nullptr);
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) return 1;
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::vector<llama_token> ids;
  if (argc > 5) {
    ids = tokens_of(vocab, argv[5]);
    std::ofstream out(argv[3]);
    for (llama_token id : ids) out << id << ' ';
  } else {
    std::ifstream in(argv[3]);
    ids.assign(std::istream_iterator<llama_token>(in), {});
  }
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 1024;
  params.n_threads = params.n_threads_batch = 2;
  if (std::string(argv[2]) == "f32") {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  llama_context* context = llama_init_from_model(model, params);
  const int n = static_cast<int>(ids.size()), width = llama_vocab_n_tokens(vocab);
  std::ofstream out(argv[4], std::ios::binary);
  // In pieces, so that the logits of a long text with a large vocabulary need little memory.
  for (int at = 0; at < n; at += 64) {
    const int count = std::min(64, n - at);
    llama_batch batch = llama_batch_init(count, 0, 1);
    batch.n_tokens = count;
    for (int i = 0; i < count; ++i) {
      batch.token[i] = ids[at + i], batch.pos[i] = at + i;
      batch.n_seq_id[i] = 1, batch.seq_id[i][0] = 0, batch.logits[i] = 1;
    }
    if (llama_decode(context, batch)) return std::fputs("llama_decode failed\n", stderr), 1;
    for (int i = 0; i < count; ++i) out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context, i)), 4L * width);
    llama_batch_free(batch);
  }
  out.flush();
  std::printf("%d ids, vocabulary %d\n", n, width);
  std::fflush(stdout);
  std::_Exit(out ? 0 : 1);   // its libraries' exit handlers are of no interest here
}
