#include "text/tokenizers/vocabulary.h"

#include "base/log.h"
#include "text/tokenizers/pre_types.h"

namespace gull::text {
namespace {

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

struct KindDefaults {
  std::string_view model;
  TokenizerKind kind;
  int32_t bos, eos, unk, sep, pad;
  bool add_bos, add_eos, add_space_prefix;
};

// What llama.cpp assumes where the file says nothing.
constexpr KindDefaults kKinds[] = {
    {"llama", TokenizerKind::Spm, 1, 2, 0, -1, -1, true, false, true},
    {"gpt2", TokenizerKind::Bpe, 11, 11, -1, -1, -1, false, false, false},
    {"gemma4", TokenizerKind::Bpe, -1, -1, -1, -1, -1, true, false, false},
    {"bert", TokenizerKind::WordPiece, 101, -1, 100, 102, 0, true, false, false},
    {"t5", TokenizerKind::Unigram, -1, 1, 2, -1, 0, false, true, false},
};

Result<const KindDefaults*> find_kind(const gguf::File& file) {
  const std::string* model = file.get_string(key("model"));
  if (!model) {
    return fail_f(ErrorKind::Unsupported, "{}: no tokenizer in this file (tokenizer.ggml.model is missing); give token ids instead of text",
                  file.name());
  }
  if (*model == "none" || *model == "no_vocab") {
    return fail_f(ErrorKind::Unsupported, "{}: this model has no tokenizer (tokenizer.ggml.model = \"{}\"); give token ids instead of text",
                  file.name(), *model);
  }
  for (const KindDefaults& kind : kKinds) {
    if (kind.model == *model) return &kind;
  }
  return fail_f(ErrorKind::Unsupported, "{}: unknown tokenizer \"{}\" (tokenizer.ggml.model); gull knows llama, gpt2, gemma4, bert and t5",
                file.name(), model->substr(0, 40));
}

/// Any array of numbers as integers, however wide the file stores them.
bool copy_integers(const gguf::Array& array, std::vector<int64_t>& out) {
  switch (array.kind) {
    case gguf::Array::Kind::Unsigned: out.assign(array.unsigneds.begin(), array.unsigneds.end()); return true;
    case gguf::Array::Kind::Signed: out = array.signeds; return true;
    default: return false;
  }
}

bool copy_floats(const gguf::Array& array, std::vector<float>& out) {
  switch (array.kind) {
    case gguf::Array::Kind::Float: out.assign(array.floats.begin(), array.floats.end()); return true;
    case gguf::Array::Kind::Signed: out.assign(array.signeds.begin(), array.signeds.end()); return true;
    case gguf::Array::Kind::Unsigned: out.assign(array.unsigneds.begin(), array.unsigneds.end()); return true;
    default: return false;
  }
}

Result<void> load_tokens(const gguf::File& file, Vocabulary& v) {
  const gguf::Array* tokens = file.get_array(key("tokens"));
  if (!tokens || tokens->kind != gguf::Array::Kind::String || tokens->strings.empty()) {
    return fail_f(ErrorKind::BadFile, "{}: no vocabulary (tokenizer.ggml.tokens is missing, empty or not an array of strings)", file.name());
  }
  const std::vector<std::string>& texts = tokens->strings;
  if (texts.size() > INT32_MAX / 2) return fail_f(ErrorKind::BadFile, "{}: {} tokens are too many", file.name(), texts.size());
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  v.strings.reserve(texts.size(), bytes);
  v.token_string.reserve(texts.size());
  v.string_token.reserve(texts.size());
  size_t doubles = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    int32_t string = v.strings.intern(texts[i]);
    v.token_string.push_back(string);
    if (string < static_cast<int32_t>(v.string_token.size())) {
      ++doubles;
    } else {
      v.string_token.push_back(texts[i].empty() ? -1 : static_cast<int32_t>(i));  // nothing is ever spelled ""
    }
  }
  if (doubles) log(LogLevel::Warning, "{}: {} tokens are spelled like an earlier one; text uses the first", file.name(), doubles);
  return {};
}

uint16_t attribute_of_type(int64_t type) {
  switch (type) {  // llama_token_type
    case 1: return kNormal;
    case 2: return kUnknown;
    case 3: return kControl;
    case 4: return kUserDefined;
    case 5: return kUnused;
    case 6: return kByte;
    default: return 0;
  }
}

Result<void> load_types_and_scores(const gguf::File& file, Vocabulary& v) {
  size_t n = v.token_string.size();
  v.attributes.assign(n, kNormal);
  if (const gguf::Array* array = file.get_array(key("token_type"))) {
    std::vector<int64_t> types;
    if (!copy_integers(*array, types)) return fail_f(ErrorKind::BadFile, "{}: tokenizer.ggml.token_type is not an array of integers", file.name());
    if (types.size() < n) {
      return fail_f(ErrorKind::BadFile, "{}: tokenizer.ggml.token_type has {} entries for {} tokens", file.name(), types.size(), n);
    }
    for (size_t i = 0; i < n; ++i) v.attributes[i] = attribute_of_type(types[i]);
  }
  if (const gguf::Array* array = file.get_array(key("scores"))) {
    if (!copy_floats(*array, v.scores)) return fail_f(ErrorKind::BadFile, "{}: tokenizer.ggml.scores is not an array of numbers", file.name());
    if (v.scores.size() < n) {
      return fail_f(ErrorKind::BadFile, "{}: tokenizer.ggml.scores has {} entries for {} tokens", file.name(), v.scores.size(), n);
    }
  } else if (v.kind == TokenizerKind::Spm || v.kind == TokenizerKind::Unigram) {
    log(LogLevel::Warning, "{}: no tokenizer.ggml.scores; all tokens count the same, so text may be split badly", file.name());
  }
  return {};
}

/// An id from the metadata; where it is missing or out of range, the default if that is a token, else −1.
int32_t special_id(const gguf::File& file, const Vocabulary& v, std::string_view name, int32_t otherwise) {
  if (otherwise >= v.size()) otherwise = -1;
  const gguf::Value* value = file.find(key(name));
  if (!value) return otherwise;
  auto id = file.get_int(key(name));
  if (id && *id >= 0 && *id < v.size()) return static_cast<int32_t>(*id);
  // −1 (also as an unsigned number) is how some files say "none".
  bool none = (id && *id == -1) || file.get_uint(key(name)) == 0xFFFFFFFFu;
  if (!none) log(LogLevel::Warning, "{}: {} is no id of this vocabulary; using {}", file.name(), key(name), otherwise);
  return otherwise;
}

void strip_attributes_by_name(Vocabulary& v, const gguf::File& file) {
  auto set = [&](std::string_view text, uint16_t attribute, bool on) {
    int32_t token = v.find(text);
    if (token < 0) return;
    uint16_t& a = v.attributes[static_cast<size_t>(token)];
    a = static_cast<uint16_t>(on ? a | attribute : a & ~attribute);
  };
  std::string name;
  if (const std::string* given = file.get_string("general.name")) name = *given;
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  auto named = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  std::string architecture = file.architecture();
  // GGUF has no field for these: which models strip space around their special tokens is known by name only.
  if (v.pre.starts_with("jina-v2-") || architecture == "nomic-bert-moe" || architecture == "jina-bert-v3") {
    set("<mask>", kStripLeft, true);
  } else if (named("phi-3") || named("phi3")) {
    for (uint16_t& a : v.attributes) a = static_cast<uint16_t>(a & (kControl | kUserDefined | kUnknown) ? a | kStripRight : a);
    set("</s>", kStripRight, true);
    for (std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) set(text, kStripRight, false);
  } else if (named("modern-bert")) {
    set("[MASK]", kStripLeft, true);
  }
}

}  // namespace

Result<Vocabulary> load_vocabulary(const gguf::File& file) {
  auto kind = find_kind(file);
  if (!kind) return fail(kind.error());
  const KindDefaults& defaults = **kind;

  Vocabulary v;
  v.kind = defaults.kind;
  if (const std::string* pre = file.get_string(key("pre"))) v.pre = *pre;
  if (defaults.model == "gemma4") v.pre = "gemma4";
  if (auto ok = load_tokens(file, v); !ok) return fail(ok.error());
  if (auto ok = load_types_and_scores(file, v); !ok) return fail(ok.error());

  const PreType* pre = v.kind == TokenizerKind::Bpe ? find_pre_type(v.pre) : nullptr;
  v.bos = special_id(file, v, "bos_token_id", pre && pre->no_default_bos ? -1 : defaults.bos);
  v.eos = special_id(file, v, "eos_token_id", defaults.eos);
  v.eot = special_id(file, v, "eot_token_id", -1);
  v.eom = special_id(file, v, "eom_token_id", -1);
  v.unk = special_id(file, v, "unknown_token_id", defaults.unk);
  v.sep = special_id(file, v, "seperator_token_id", defaults.sep);  // the file format spells it so
  v.pad = special_id(file, v, "padding_token_id", defaults.pad);

  auto flag = [&](std::string_view name, bool otherwise) { return file.get_bool(key(name)).value_or(otherwise); };
  v.add_bos = flag("add_bos_token", defaults.add_bos || (pre && pre->add_bos));
  v.add_eos = flag("add_eos_token", defaults.add_eos);
  if (v.pre == "gemma4" && v.kind == TokenizerKind::Bpe) v.add_bos = true;  // some files deny it, wrongly
  bool sentencepiece = v.kind == TokenizerKind::Spm || v.kind == TokenizerKind::Unigram;
  v.add_space_prefix = sentencepiece && flag("add_space_prefix", defaults.add_space_prefix);  // some files of other kinds set it, in vain
  v.remove_extra_whitespaces = flag("remove_extra_whitespaces", false);
  v.lowercase = flag("normalizer.lowercase", true);
  v.strip_accents = flag("normalizer.strip_accents", v.lowercase);

  mark_known_tokens(v, file);
  strip_attributes_by_name(v, file);
  return v;
}

}  // namespace gull::text
