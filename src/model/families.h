// One maker a family. Private to src/model.
#pragma once

#include <memory>

#include "model/family.h"

namespace gull::model {

Result<std::unique_ptr<Family>> make_llama(const gguf::File& file);
Result<std::unique_ptr<Family>> make_phi3(const gguf::File& file);
Result<std::unique_ptr<Family>> make_gemma(const gguf::File& file);
Result<std::unique_ptr<Family>> make_gemma4(const gguf::File& file);
Result<std::unique_ptr<Family>> make_bert(const gguf::File& file);
Result<std::unique_ptr<Family>> make_olmo2(const gguf::File& file);
Result<std::unique_ptr<Family>> make_gpt_oss(const gguf::File& file);
Result<std::unique_ptr<Family>> make_deepseek2(const gguf::File& file);
Result<std::unique_ptr<Family>> make_mamba(const gguf::File& file);
Result<std::unique_ptr<Family>> make_lfm2(const gguf::File& file);
Result<std::unique_ptr<Family>> make_falcon_h1(const gguf::File& file);

}  // namespace gull::model
