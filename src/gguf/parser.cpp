// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "gguf/parser.h"

#include <bit>

#include "base/log.h"
#include "gguf/cursor.h"
#include "gguf/foreign.h"
#include "gguf/text.h"

namespace gull::gguf {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;        // what the format allows for keys; tensor names get the same
constexpr uint64_t kMaxStringBytes = 64 << 20;
constexpr uint64_t kMaxArrayElements = 1 << 24; // over a whole file; the largest vocabularies have about 2^19 entries
constexpr uint64_t kMaxAlignment = 1 << 24;
constexpr int kMaxNesting = 4;

/// Metadata value types, with the numbers of the format.
enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64, kValueTypes };
// Bytes of an element; of strings and arrays, the least.
constexpr uint32_t kValueBytes[kValueTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

class Parser {
 public:
  explicit Parser(ByteSource& source) : source_(source), in_(source) {}

  Result<Part> run() {
    uint64_t tensors = 0, pairs = 0;
    if (!preamble(tensors, pairs) || !metadata(pairs) || !tensor_infos(tensors) || !place_tensors())
      return fail(std::move(in_.error()));
    return std::move(part_);
  }

 private:
  bool refuse(uint64_t at, std::string_view what) { return in_.refuse(ErrorKind::BadFile, at, what); }

  bool preamble(uint64_t& tensors, uint64_t& pairs) {
    std::byte head[64] = {};
    const size_t length = std::min<uint64_t>(sizeof head, source_.size());
    if (auto read = source_.read(0, std::span(head, length)); !read) return in_.error() = std::move(read.error()), false;
    if (length < 4 || std::memcmp(head, "GGUF", 4) != 0) return refuse(0, describe_foreign(std::span(head, length)));
    in_.take(4, "the magic");
    if (!in_.number(part_.version, "the version")) return false;
    const uint32_t version = part_.version;
    if (version != 0 && (version & 0xFFFF) == 0)
      return in_.refuse(ErrorKind::Unsupported, 4,
                        "is a big-endian GGUF file; gull reads little-endian ones: convert its byte order first");
    if (version == 1)
      return in_.refuse(ErrorKind::Unsupported, 4, "has GGUF version 1, which is no longer read: convert the model again");
    if (version != 2 && version != 3)
      return in_.refuse(ErrorKind::Unsupported, 4, fmt::format("has GGUF version {}; gull reads versions 2 and 3", version));
    if (!in_.number(tensors, "the number of tensors") || !in_.number(pairs, "the number of metadata entries")) return false;
    if (tensors > in_.remaining())
      return refuse(8, fmt::format("claims {} tensors, more than its {} bytes can hold", tensors, source_.size()));
    if (pairs > in_.remaining())
      return refuse(16, fmt::format("claims {} metadata entries, more than its {} bytes can hold", pairs, source_.size()));
    return true;
  }

  bool metadata(uint64_t pairs) {
    std::vector<uint64_t> positions;
    for (uint64_t i = 0; i < pairs; ++i) {
      const uint64_t at = in_.position();
      std::string key;
      if (!in_.string(key, kMaxKeyBytes, fmt::format("the key of metadata entry {} of {}", i + 1, pairs))) return false;
      if (key.empty()) return refuse(at, fmt::format("the key of metadata entry {} is empty", i + 1));
      where_ = fmt::format("the metadata value '{}'", printable(key));
      uint32_t type = 0;
      Value value;
      if (!in_.number(type, where_) || !read_value(type, value)) return false;
      if (key == "general.alignment" && !set_alignment(at, value)) return false;
      positions.push_back(at);
      part_.metadata.emplace_back(std::move(key), std::move(value));
    }
    return no_duplicates(part_.metadata, positions, key_of, "metadata key");
  }

  template <class Items, class NameOf>
  bool no_duplicates(const Items& items, const std::vector<uint64_t>& positions, NameOf name, const char* what) {
    const std::vector<uint32_t> order = sorted_by_name(items, name);
    for (size_t i = 1; i < order.size(); ++i)
      if (name(items[order[i - 1]]) == name(items[order[i]]))
        return refuse(positions[order[i]], fmt::format("the {} '{}' occurs twice", what, printable(name(items[order[i]]))));
    return true;
  }

  template <class Stored, class Wide>
  bool read_number(Value& out) {
    Stored value{};
    if (!in_.number(value, where_)) return false;
    out = static_cast<Wide>(value);
    return true;
  }

  bool read_bool(uint8_t& out) {
    const uint64_t at = in_.position();
    if (!in_.number(out, where_)) return false;
    return out <= 1 || refuse(at, fmt::format("{} is a boolean of {}: only 0 and 1 are valid", where_, out));
  }

  bool read_value(uint32_t type, Value& out) {
    switch (type) {
      case kU8: return read_number<uint8_t, uint64_t>(out);
      case kI8: return read_number<int8_t, int64_t>(out);
      case kU16: return read_number<uint16_t, uint64_t>(out);
      case kI16: return read_number<int16_t, int64_t>(out);
      case kU32: return read_number<uint32_t, uint64_t>(out);
      case kI32: return read_number<int32_t, int64_t>(out);
      case kU64: return read_number<uint64_t, uint64_t>(out);
      case kI64: return read_number<int64_t, int64_t>(out);
      case kF32: return read_number<float, double>(out);
      case kF64: return read_number<double, double>(out);
      case kBool: {
        uint8_t value = 0;
        if (!read_bool(value)) return false;
        return out = (value == 1), true;
      }
      case kString: return in_.string(out.emplace<std::string>(), kMaxStringBytes, where_);
      case kArray: {
        auto array = std::make_shared<Array>();
        if (!read_array(*array, 1)) return false;
        return out = std::move(array), true;
      }
      default: return refuse(in_.position() - 4, fmt::format("{} has the value type {}, which GGUF does not know", where_, type));
    }
  }

  /// Numbers of a flat array, in slices so that no read is large.
  template <class Stored, class Wide>
  bool read_numbers(std::vector<Wide>& out, uint64_t count) {
    constexpr uint64_t kSlice = 1 << 15;
    out.reserve(count);
    for (uint64_t done = 0; done < count; done += kSlice) {
      const uint64_t n = std::min(kSlice, count - done);
      const std::byte* at = in_.take(n * sizeof(Stored), where_);
      if (at == nullptr) return false;
      for (uint64_t i = 0; i < n; ++i) out.push_back(static_cast<Wide>(load_le<Stored>(at + i * sizeof(Stored))));
    }
    return true;
  }

  bool read_strings(std::vector<std::string>& out, uint64_t count) {
    out.resize(count);
    for (std::string& value : out)
      if (!in_.string(value, kMaxStringBytes, where_)) return false;
    return true;
  }

  bool read_bools(std::vector<uint8_t>& out, uint64_t count) {
    out.resize(count);
    for (uint8_t& value : out)
      if (!read_bool(value)) return false;
    return true;
  }

  bool read_nested(Array& out, uint64_t count, int depth) {
    if (depth >= kMaxNesting)
      return refuse(in_.position(), fmt::format("{} nests arrays more than {} deep", where_, kMaxNesting));
    for (uint64_t i = 0; i < count; ++i) {
      out.nested.push_back(std::make_shared<Array>());
      if (!read_array(*out.nested.back(), depth + 1)) return false;
    }
    return true;
  }

  bool read_array(Array& out, int depth) {
    const uint64_t at = in_.position();
    uint32_t type = 0;
    uint64_t count = 0;
    if (!in_.number(type, where_) || !in_.number(count, where_)) return false;
    if (type >= kValueTypes) return refuse(at, fmt::format("{} is an array of type {}, which GGUF does not know", where_, type));
    if (count > in_.remaining() / kValueBytes[type])
      return refuse(at + 4,
                    fmt::format("{} claims {} elements, but only {} bytes are left in the file", where_, count, in_.remaining()));
    const uint64_t cost = type == kArray ? count * 16 : count;  // a nested array takes more memory than it does in the file
    if (cost > elements_left_)
      return refuse(at + 4, fmt::format("{} claims {} elements, more than any model has", where_, count));
    elements_left_ -= cost;
    using Kind = Array::Kind;
    switch (type) {
      case kU8: return out.kind = Kind::Unsigned, read_numbers<uint8_t>(out.unsigneds, count);
      case kU16: return out.kind = Kind::Unsigned, read_numbers<uint16_t>(out.unsigneds, count);
      case kU32: return out.kind = Kind::Unsigned, read_numbers<uint32_t>(out.unsigneds, count);
      case kU64: return out.kind = Kind::Unsigned, read_numbers<uint64_t>(out.unsigneds, count);
      case kI8: return out.kind = Kind::Signed, read_numbers<int8_t>(out.signeds, count);
      case kI16: return out.kind = Kind::Signed, read_numbers<int16_t>(out.signeds, count);
      case kI32: return out.kind = Kind::Signed, read_numbers<int32_t>(out.signeds, count);
      case kI64: return out.kind = Kind::Signed, read_numbers<int64_t>(out.signeds, count);
      case kF32: return out.kind = Kind::Float, read_numbers<float>(out.floats, count);
      case kF64: return out.kind = Kind::Float, read_numbers<double>(out.floats, count);
      case kBool: return out.kind = Kind::Bool, read_bools(out.bools, count);
      case kString: return out.kind = Kind::String, read_strings(out.strings, count);
      default: return out.kind = Kind::Nested, read_nested(out, count, depth);
    }
  }

  bool set_alignment(uint64_t at, const Value& value) {
    const uint64_t* alignment = std::get_if<uint64_t>(&value);
    if (alignment == nullptr) return refuse(at, "general.alignment is not an unsigned number");
    if (!std::has_single_bit(*alignment) || *alignment > kMaxAlignment)
      return refuse(at, fmt::format("general.alignment is {}; it must be a power of two, at most {}", *alignment, kMaxAlignment));
    part_.alignment = static_cast<uint32_t>(*alignment);
    return true;
  }

  bool tensor_infos(uint64_t count) {
    std::vector<uint64_t> positions;
    for (uint64_t i = 0; i < count; ++i) {
      positions.push_back(in_.position());
      TensorInfo tensor;
      if (!in_.string(tensor.name, kMaxKeyBytes, fmt::format("the name of tensor {} of {}", i + 1, count))) return false;
      if (tensor.name.empty()) return refuse(positions.back(), fmt::format("the name of tensor {} is empty", i + 1));
      where_ = fmt::format("tensor '{}'", printable(tensor.name));
      if (!shape_and_type(tensor)) return false;
      part_.tensors.push_back(std::move(tensor));
    }
    return no_duplicates(part_.tensors, positions, name_of, "tensor name");
  }

  bool shape_and_type(TensorInfo& tensor) {
    uint64_t at = in_.position();
    if (!in_.number(tensor.n_dims, where_)) return false;
    if (tensor.n_dims > 4) return refuse(at, fmt::format("{} has {} dimensions; at most 4 are allowed", where_, tensor.n_dims));
    uint64_t elements = 1;
    for (uint32_t d = 0; d < tensor.n_dims; ++d) {
      at = in_.position();
      if (!in_.number(tensor.dims[d], where_)) return false;
      if (tensor.dims[d] == 0) return refuse(at, fmt::format("{} has a dimension of 0", where_));
      if (tensor.dims[d] > static_cast<uint64_t>(INT64_MAX) / elements)
        return refuse(at, fmt::format("{} has more elements than 64 bits can count", where_));
      elements *= tensor.dims[d];
    }
    at = in_.position();
    uint32_t type = 0;
    if (!in_.number(type, where_)) return false;
    const TypeTraits* traits = type_traits(type);
    if (traits == nullptr)
      return in_.refuse(ErrorKind::Unsupported, at, fmt::format("{} has type {}, which gull does not know", where_, type));
    tensor.type = static_cast<Type>(type);
    if (tensor.dims[0] % traits->block != 0)
      return refuse(at, fmt::format("{} has rows of {} elements, which is no multiple of the {} in a {} block", where_,
                                    tensor.dims[0], traits->block, traits->name));
    const uint64_t blocks = elements / traits->block;
    if (blocks > UINT64_MAX / 2 / traits->bytes)
      return refuse(at, fmt::format("{} has more bytes than 64 bits can count", where_));
    tensor.bytes = blocks * traits->bytes;
    at = in_.position();
    if (!in_.number(tensor.offset, where_)) return false;
    if (tensor.offset % part_.alignment != 0)
      return refuse(at, fmt::format("{} starts at offset {}, which is no multiple of the alignment {}", where_, tensor.offset,
                                    part_.alignment));
    return true;
  }

  /// Turns offsets within the data section into offsets within the file, and checks that the data are there.
  bool place_tensors() {
    const uint64_t mask = part_.alignment - 1, data = (in_.position() + mask) & ~mask, size = source_.size();
    for (TensorInfo& tensor : part_.tensors) {
      if (data > size || tensor.offset > size - data || tensor.bytes > size - data - tensor.offset) {
        const uint64_t begin = tensor.offset > UINT64_MAX - data ? UINT64_MAX : data + tensor.offset;
        return refuse(begin, fmt::format("is truncated: tensor '{}' needs {} bytes, but the file ends at byte {}: fetch it again",
                                         printable(tensor.name), tensor.bytes, size));
      }
      tensor.offset += data;
    }
    return true;
  }

  ByteSource& source_;
  Cursor in_;
  Part part_;
  std::string where_;   // what is being read, for messages
  uint64_t elements_left_ = kMaxArrayElements;
};

}  // namespace

Result<Part> parse_part(ByteSource& source) { return Parser(source).run(); }

}  // namespace gull::gguf
