#include "model/family.h"

#include "base/log.h"
#include "model/families.h"

namespace gull::model {
namespace {

struct Maker {
  const char* arch;
  Result<std::unique_ptr<Family>> (*make)(const gguf::File& file);
};

constexpr Maker kMakers[] = {
    {"llama", make_llama},    {"qwen2", make_llama}, {"qwen3", make_llama},   {"qwen2moe", make_llama},   {"qwen3moe", make_llama},
    {"olmoe", make_llama},    {"smollm3", make_llama}, {"granite", make_llama}, {"granitemoe", make_llama}, {"phi3", make_phi3},
    {"gemma", make_gemma},    {"gemma2", make_gemma},  {"gemma3", make_gemma},  {"gemma-embedding", make_gemma}, {"gemma4", make_gemma4},
    {"bert", make_bert},      {"nomic-bert", make_bert}, {"mamba", make_mamba}, {"mamba2", make_mamba}, {"lfm2", make_lfm2},
    {"lfm2moe", make_lfm2},   {"falcon-h1", make_falcon_h1}, {"olmo2", make_olmo2}, {"gpt-oss", make_gpt_oss},
    {"deepseek2", make_deepseek2},
};

}  // namespace

Result<std::unique_ptr<Family>> make_family(std::shared_ptr<const gguf::File> file) { return make_family(*file); }

Result<std::unique_ptr<Family>> make_family(const gguf::File& file) {
  const std::string arch = file.architecture();
  if (arch.empty()) return fail_f(ErrorKind::BadFile, "{}: no 'general.architecture' in the metadata", file.name());
  for (const Maker& maker : kMakers)
    if (arch == maker.arch) return maker.make(file);
  std::string known;
  for (const Maker& maker : kMakers) known += (known.empty() ? "" : ", ") + std::string(maker.arch);
  return fail_f(ErrorKind::Unsupported, "{}: architecture '{}' is not one that gull runs ({})", file.name(), arch, known);
}

}  // namespace gull::model
