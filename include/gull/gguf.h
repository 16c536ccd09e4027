// GGUF files: what they hold, without touching a GPU.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gull/error.h"

namespace gull {

/// Where bytes come from: memory, a mapped file, plain file reads, HTTP ranges, browser storage, several files in a row.
/// Thread-safe: `read` may be called from several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// What messages call it: a path or a URL.
  virtual const std::string& name() const = 0;
  /// Total length in bytes.
  virtual uint64_t size() const = 0;
  /// Fills `out` from `offset`; reading past the end is an error, never a short read.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> out) = 0;
  /// Bytes that are already addressable (memory, mapped file), or an empty span when they must be read.
  virtual std::span<const std::byte> view(uint64_t offset, uint64_t length) { (void)offset, (void)length; return {}; }
  /// Whether bytes come from this machine, so that many small reads cost as little as one large one.
  virtual bool local() const { return false; }
  /// These bytes will hardly be wanted again soon: a mapped file gives their memory back. Reading them still works.
  virtual void release(uint64_t offset, uint64_t length) { (void)offset, (void)length; }
};

/// Bytes in memory; `bytes` must outlive the source when `owned` is empty.
std::shared_ptr<ByteSource> memory_source(std::string name, std::vector<std::byte> bytes);
/// A read-only memory map of a regular file (native only). Where another program cuts the file short, touching a `view` of
/// what is gone ends the process: the system sends SIGBUS. `read` gives an error.
Result<std::shared_ptr<ByteSource>> mapped_file_source(const std::string& path);
/// Plain positioned reads of a regular file. One that is cut short or written to while it is in use is an error.
Result<std::shared_ptr<ByteSource>> file_source(const std::string& path);

namespace gguf {

/// Tensor element types, with the numbers that the file format gives them.
enum class Type : uint32_t {
  F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q8_1 = 9,
  Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, Q8_K = 15,
  IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23,
  I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28, IQ1_M = 29, BF16 = 30, TQ1_0 = 34, TQ2_0 = 35, MXFP4 = 39,
};

/// Facts about a type: `block` weights are stored in `bytes` bytes.
struct TypeTraits {
  const char* name;    ///< "Q4_K"
  uint32_t block;      ///< weights in a block
  uint32_t bytes;      ///< bytes of a block
  bool quantized;      ///< false for plain numbers
};

/// The traits of a type number of a file, or nullptr where gull does not know it.
const TypeTraits* type_traits(uint32_t type);
inline const TypeTraits* type_traits(Type type) { return type_traits(static_cast<uint32_t>(type)); }
/// The type with this name ("q4_k", any case), if there is one.
std::optional<Type> type_from_name(std::string_view name);

/// Dequantises `blocks` whole blocks at `raw` into `out` (blocks × block floats), bit for bit as gguf-py does.
/// Errors: a type without a dequantiser, spans of the wrong length.
Result<void> dequantize(Type type, std::span<const std::byte> raw, std::span<float> out);

struct Array;
/// A metadata value. Integers keep their sign; all widths are widened to 64 bits, floats to double.
using Value = std::variant<uint64_t, int64_t, double, bool, std::string, std::shared_ptr<Array>>;
/// A metadata array. Numbers, booleans and strings are kept flat; arrays of arrays are kept as `nested`.
struct Array {
  enum class Kind { Unsigned, Signed, Float, Bool, String, Nested } kind = Kind::Unsigned;
  std::vector<uint64_t> unsigneds;
  std::vector<int64_t> signeds;
  std::vector<double> floats;
  std::vector<uint8_t> bools;
  std::vector<std::string> strings;
  std::vector<std::shared_ptr<Array>> nested;
  size_t size() const;
  /// Element `i` of an array of integers of any width and sign; none for another kind, or out of range.
  std::optional<int64_t> integer(size_t i) const;
};

/// One tensor: `dims[0]` is the length of a row (the contiguous dimension), as in the file.
struct TensorInfo {
  std::string name;
  Type type = Type::F32;
  uint32_t n_dims = 1;
  uint64_t dims[4] = {1, 1, 1, 1};
  uint32_t part = 0;        ///< which file of a split model
  uint64_t offset = 0;      ///< from the start of that file
  uint64_t bytes = 0;
  uint64_t row_bytes() const;       ///< bytes of one row of dims[0] weights
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }
  uint64_t elements() const { return dims[0] * rows(); }
};

struct ParsedSource;
/// Opens the part of a split model that has this name; NotFound where there is none.
using SiblingOpener = std::function<Result<std::shared_ptr<ByteSource>>(const std::string& name)>;

/// A parsed file (or split set). Immutable, safe to share between threads.
class File {
 public:
  /// Parses the header; reads no tensor data. Every error names the source, what is wrong and at which byte.
  static Result<std::shared_ptr<File>> open(std::shared_ptr<ByteSource> source);
  /// A split model: the parts in any order; checked for completeness.
  static Result<std::shared_ptr<File>> open(std::vector<std::shared_ptr<ByteSource>> parts);
  /// A path: opens it, and its sibling parts when its name ends in -0000i-of-0000n.gguf.
  static Result<std::shared_ptr<File>> open_path(const std::string& path);
  /// The parts of a split model in any order, or one path as `open_path` takes it.
  static Result<std::shared_ptr<File>> open_paths(std::span<const std::string> paths);
  /// Any part of a split model, where the others are opened by their names, made from `source`'s.
  static Result<std::shared_ptr<File>> open(std::shared_ptr<ByteSource> source, const SiblingOpener& sibling);

  const std::string& name() const;              ///< name of the first source
  uint32_t version() const;
  uint64_t total_bytes() const;                 ///< of all parts
  std::string architecture() const;             ///< "general.architecture" or ""

  const std::vector<std::pair<std::string, Value>>& metadata() const;   ///< in file order
  const Value* find(std::string_view key) const;
  /// Typed look-ups; a missing key or one of another type gives none. Any integer width and sign matches an integer in range.
  std::optional<uint64_t> get_uint(std::string_view key) const;
  std::optional<int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const Array* get_array(std::string_view key) const;

  const std::vector<TensorInfo>& tensors() const;                       ///< in file order, all parts
  const TensorInfo* tensor(std::string_view name) const;
  /// Reads `out.size()` bytes of a tensor from byte `offset` of its data.
  Result<void> read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;
  /// The same bytes without a copy where the source is addressable, else empty.
  std::span<const std::byte> view(const TensorInfo& tensor, uint64_t offset, uint64_t length) const;
  /// Whether all parts are on this machine: see ByteSource::local.
  bool local() const;
  /// Says that these bytes of a tensor were used: see ByteSource::release.
  void release(const TensorInfo& tensor, uint64_t offset, uint64_t length) const;

 private:
  struct Impl;
  explicit File(std::unique_ptr<Impl> impl);
  static Result<std::shared_ptr<File>> assemble(std::vector<ParsedSource> parts);
  std::unique_ptr<Impl> impl_;
 public:
  ~File();
};

}  // namespace gguf
}  // namespace gull
