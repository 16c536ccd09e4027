// Language models: load a GGUF file, generate text. Everything else of gull stands below this.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gull/device.h"
#include "gull/error.h"
#include "gull/gguf.h"
#include "gull/tuning.h"

namespace gull {

/// Set from any thread (or a signal handler) to stop loading or generating after the current step.
using CancelFlag = std::atomic<bool>;

enum class Precision {
  Fast,  ///< shortcuts whose effect is measured and small: f16 KV cache, 8-bit activations where they pay
  F32,   ///< float32 activations and KV cache, no shortcut
};

/// How keys and values are stored. Auto: F32 with Precision::F32, else F16. Q8_0 and Q4_0 take 9 and 5 bits a number, and heads of a
/// multiple of 32 dimensions.
enum class KvType { Auto, F32, F16, Q8_0, Q4_0 };

struct Progress {
  const char* stage = "";           ///< "read", "upload", "compile"
  uint64_t done = 0, total = 0;     ///< bytes or steps; total 0 when unknown
};

/// Whether the steps of a layer are joined into one dispatch when single tokens are generated, which spares the time between dispatches.
/// It needs more of a GPU than WebGPU promises: that workgroups which have started go on while others wait for them. Auto: where that is known.
enum class Joined { Auto, On, Off };

struct LoadOptions {
  DeviceOptions device;
  Precision precision = Precision::Fast;
  KvType kv_type = KvType::Auto;
  uint32_t context = 0;             ///< tokens; 0: the model's own, at most 4096
  uint64_t gpu_budget = 0;          ///< bytes of weights kept on the GPU at once; 0: all of them
  bool memory_tight = false;        ///< for phones: no buffer of weights above 8 MiB, no submission longer than a layer
  uint64_t gpu_memory = 0;          ///< bytes that the model and one session may take on the GPU; 0: what the GPU has
  Joined joined = Joined::Auto;
  std::function<Tuning(const DeviceInfo&)> tuning;   ///< shapes for the device that was opened; null: gull's own
  std::function<void(const Progress&)> progress;
  CancelFlag* cancel = nullptr;
};

/// One message of a conversation. `json` may carry the whole message (tool calls …) and then wins.
struct Message {
  std::string role;
  std::string content;
  std::string json;
};

struct SamplingOptions {
  float temperature = 0.8f;         ///< 0: greedy
  uint32_t top_k = 40;              ///< 0: off
  float top_p = 0.95f;              ///< 1: off
  float min_p = 0.05f;              ///< 0: off
  float typical_p = 1.0f;           ///< 1: off
  float repeat_penalty = 1.0f;      ///< 1: off; over the last `repeat_last` tokens
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  uint32_t repeat_last = 64;
  float dry_multiplier = 0.0f;      ///< 0: off
  float dry_base = 1.75f;
  uint32_t dry_allowed_length = 2;
  float mirostat_tau = 0.0f;        ///< 0: off; Mirostat 2 target surprise
  float mirostat_eta = 0.1f;
  uint64_t seed = 0;                ///< 0: a fresh one each time; else reproducible
  std::vector<std::pair<int32_t, float>> logit_bias;
};

enum class StopReason { EndOfGeneration, MaxTokens, StopString, ContextFull, Cancelled, Callback };
const char* to_string(StopReason reason);   ///< "eog", "length", "stop", "context", "cancelled", "callback"

struct TokenLogprob { int32_t id; float logprob; };

/// One piece of generated text.
struct Piece {
  int32_t id = -1;                  ///< the token; −1 for text that was held back and is released at the end
  std::string_view text;            ///< whole UTF-8 characters; may be empty while a character is incomplete
  std::span<const TokenLogprob> logprobs;   ///< chosen token first, then the top ones, when asked for
};

struct GenerateOptions {
  SamplingOptions sampling;
  int32_t max_tokens = -1;          ///< −1: until end of generation or of the context
  std::vector<std::string> stop;    ///< never part of the output
  bool ignore_eog = false;          ///< go on past end-of-generation tokens
  uint32_t logprobs = 0;            ///< how many top log-probabilities a piece carries; 0: none
  std::string grammar;              ///< GBNF; empty: none
  std::string json_schema;          ///< constrains the output to this JSON Schema; empty: none
  CancelFlag* cancel = nullptr;
};

struct Timings {
  double load_s = 0, prompt_s = 0, generate_s = 0;
  uint32_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
};

struct GenerateResult {
  std::vector<int32_t> ids;         ///< generated ones
  std::string text;
  StopReason stop = StopReason::EndOfGeneration;
  std::string stop_string;
  Timings timings;
};

/// Counters of the caches since loading.
struct Stats {
  uint64_t pipeline_builds = 0, pipeline_hits = 0;
  uint64_t bind_group_builds = 0, bind_group_hits = 0, bind_group_evictions = 0;
  uint64_t dispatches = 0, submissions = 0;
  uint64_t weight_hits = 0, weight_misses = 0, weight_uploads = 0, weight_upload_bytes = 0, weight_evictions = 0, weight_stalls = 0;
  MemoryUse memory;
};

/// How fast a device is at the two things that a model's kernels do most, as simple loops measure it.
struct DeviceBounds {
  double bytes_per_second = 0;      ///< reading one long buffer
  double operations_per_second = 0; ///< multiplications and additions: of 8-bit numbers where kernels use them, else of f32
};

/// GPU time of the dispatches of one kind in one step, by timestamp queries.
struct KernelTime {
  std::string label;                ///< kernel and shape
  uint32_t dispatches = 0;
  double seconds = 0;
  uint64_t bytes = 0;               ///< of weights read
  uint64_t operations = 0;          ///< multiplications and additions with those weights
};

/// What a model needs on the GPU, in bytes; activations come on top.
struct ModelCheck {
  std::string architecture;
  uint32_t layers = 0;
  uint32_t context = 0;             ///< tokens that it was trained for
  bool embedding = false;           ///< gives vectors instead of text
  uint64_t weights = 0;             ///< in the layout that the kernels read
  uint64_t kv_per_token_f32 = 0, kv_per_token_f16 = 0;
  uint64_t states = 0;              ///< of recurrent layers, whatever the context
};
/// Whether gull can run a file, from its header alone and without a GPU. Errors: what keeps gull from it (an architecture,
/// a setting, a tensor or a type of weights that it does not know), named.
Result<ModelCheck> check_model(const gguf::File& file);
/// GPU memory that the model and one session will take when it is loaded with these options, by category; `peak` is the
/// total. Found without a GPU, for one with the usual features: nothing is read or uploaded. Errors: as check_model; a buffer
/// that a GPU could not bind.
Result<MemoryUse> predict_memory(std::shared_ptr<const gguf::File> file, const LoadOptions& options = {});

class Session;

/// A loaded model: weights on the GPU, tokenizer, chat template. Shared by its sessions. Thread-safe.
class Model {
 public:
  /// A path to a GGUF file (or one part of a split one).
  static Result<std::shared_ptr<Model>> load(const std::string& path, LoadOptions options = {});
  static Result<std::shared_ptr<Model>> load(std::shared_ptr<gguf::File> file, LoadOptions options = {});
  ~Model();

  const gguf::File& file() const;
  const DeviceInfo& device() const;
  uint32_t vocabulary() const;      ///< number of logits
  uint32_t context() const;         ///< tokens that a session can hold
  bool is_embedding_model() const;  ///< pooled vectors instead of text
  bool has_chat_template() const;

  Result<std::vector<int32_t>> tokenize(std::string_view text, bool add_special = true, bool parse_special = true) const;
  std::string detokenize(std::span<const int32_t> ids, bool special = false) const;
  bool is_end_of_generation(int32_t id) const;
  /// The ids of a conversation in the model's own chat format; message content never becomes a control token.
  Result<std::vector<int32_t>> apply_chat_template(std::span<const Message> messages, bool add_generation_prompt = true,
                                                   std::string_view tools_json = {}) const;
  Stats stats() const;

  struct Impl;
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  friend class Session;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One conversation: a KV cache and a position. Use from one thread at a time; sessions of one model may run at once.
class Session {
 public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<Model> model);
  ~Session();

  /// Puts a prompt in the cache, reusing the longest prefix that is already there, then generates.
  /// `on_piece` may return false to stop (StopReason::Callback). Errors: empty prompt, prompt longer than the context.
  Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options = {},
                                  const std::function<bool(const Piece&)>& on_piece = {});
  /// The same with the model's chat template.
  Result<GenerateResult> chat(std::span<const Message> messages, const GenerateOptions& options = {},
                              const std::function<bool(const Piece&)>& on_piece = {});

  /// Appends ids and returns logits, row-major [all ? ids.size() : 1, vocabulary].
  Result<std::vector<float>> logits(std::span<const int32_t> ids, bool all = false);
  /// Embedding models: token vectors [ids.size(), width] after the final norm, or pooled as the metadata says [1, width].
  Result<std::vector<float>> embed(std::span<const int32_t> ids, bool pooled = true, bool normalize = true);

  /// Times one step, kernel by kernel: `tokens` more ids through the layers (1: decode). Timing adds some microseconds to each
  /// dispatch, so the sum is more than the step takes. Errors: a device without timestamp queries.
  Result<std::vector<KernelTime>> profile(uint32_t tokens);
  /// What profile's figures can be held against; measured anew, in about a second. Errors: the device's.
  Result<DeviceBounds> device_bounds();

  uint32_t position() const;        ///< tokens in the cache
  void reset();                     ///< forgets everything; memory is kept
  /// Forgets all but the first `n` tokens. Recurrent models can only go back to 0: then it resets.
  Result<void> truncate(uint32_t n);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// One shape of one kernel, as `tune` found it.
struct TuneMeasurement {
  std::string kernel;               ///< "matmul8", "matmul", "matvec8", "gated8", "few": the fields of Tuning
  std::string shape;                ///< "64 tokens x 128 rows", "512 threads, 32 a row"; "gull's own"
  double seconds = 0;               ///< of the step that shows it, at best
  bool chosen = false;
};
struct TuneResult {
  Tuning tuning;                    ///< zeros where nothing was at least 3 % better than gull's own choice
  std::vector<TuneMeasurement> measured;
};
/// Told before each measurement which it is and how many there are.
using TuneProgress = std::function<void(uint32_t done, uint32_t total, const std::string& what)>;
/// Measures every shape that the kernels may have on the model's device, with its weights: one token, a few, and a batch. The
/// model must not be used meanwhile; it keeps the shapes that it was loaded with. Errors: an embedding model, weights under a
/// budget, the device's; cancelled.
Result<TuneResult> tune(const std::shared_ptr<Model>& model, const TuneProgress& progress = {}, CancelFlag* cancel = nullptr);

}  // namespace gull
