#include "gguf/writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "gguf/text.h"

namespace gull::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "the writer copies numbers as they lie in memory");

void append(std::vector<std::byte>& out, const void* bytes, size_t length) {
  const size_t end = out.size();
  out.resize(end + length);
  if (length != 0) std::memcpy(out.data() + end, bytes, length);
}

void append_number(std::vector<std::byte>& out, auto value) { append(out, &value, sizeof value); }

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  append(out, text.data(), text.size());
}

uint64_t align(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

Result<void> no_duplicates(std::vector<std::string> names, const char* what) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail_f(ErrorKind::InvalidArgument, "the {} '{}' is used twice", what, printable(*twice));
}

}  // namespace

void Writer::append_bytes(const void* bytes, size_t length) { gguf::append(metadata_, bytes, length); }

void Writer::entry(std::string key) {
  append_string(metadata_, key);
  keys_.push_back(std::move(key));
}

Writer& Writer::alignment(uint32_t bytes) {
  alignment_ = bytes;
  return set("general.alignment", bytes);
}

Writer& Writer::tensor(std::string name, Type type, std::vector<uint64_t> dims, std::span<const std::byte> data) {
  tensors_.push_back({std::move(name), type, std::move(dims), data});
  return *this;
}

Result<std::vector<std::byte>> Writer::bytes() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_) names.push_back(tensor.name);
  if (auto unique = no_duplicates(keys_, "key"); !unique) return fail(unique.error());
  if (auto unique = no_duplicates(std::move(names), "tensor name"); !unique) return fail(unique.error());
  if (!std::has_single_bit(alignment_))
    return fail_f(ErrorKind::InvalidArgument, "the alignment {} is not a power of two", alignment_);

  std::vector<std::byte> out;
  gguf::append(out, "GGUF", 4);
  gguf::append_number(out, uint32_t{3});
  gguf::append_number(out, static_cast<uint64_t>(tensors_.size()));
  gguf::append_number(out, static_cast<uint64_t>(keys_.size()));
  gguf::append(out, metadata_.data(), metadata_.size());
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const TypeTraits* traits = type_traits(tensor.type);
    uint64_t elements = 1;
    for (uint64_t dim : tensor.dims) elements *= dim;
    if (traits == nullptr || tensor.dims.empty() || tensor.dims.size() > 4 || tensor.dims[0] % traits->block != 0 ||
        elements / traits->block * traits->bytes != tensor.data.size())
      return fail_f(ErrorKind::InvalidArgument, "tensor '{}': its {} bytes do not fit its dimensions and type",
                    printable(tensor.name), tensor.data.size());
    append_string(out, tensor.name);
    gguf::append_number(out, static_cast<uint32_t>(tensor.dims.size()));
    for (uint64_t dim : tensor.dims) gguf::append_number(out, dim);
    gguf::append_number(out, static_cast<uint32_t>(tensor.type));
    gguf::append_number(out, offset);
    offset = align(offset + tensor.data.size(), alignment_);
  }
  if (!tensors_.empty()) out.resize(align(out.size(), alignment_));
  for (const Tensor& tensor : tensors_) {
    gguf::append(out, tensor.data.data(), tensor.data.size());
    out.resize(align(out.size(), alignment_));
  }
  return out;
}

Result<void> Writer::save(const std::string& path) const {
  const auto content = bytes();
  if (!content) return fail(content.error());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return fail_f(ErrorKind::Io, "{}: cannot create: {}", path, std::strerror(errno));
  const bool written = std::fwrite(content->data(), 1, content->size(), file) == content->size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return {};
  return fail_f(ErrorKind::Io, "{}: cannot write: {}", path, std::strerror(errno));
}

}  // namespace gull::gguf
