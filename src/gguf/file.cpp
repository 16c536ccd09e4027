#include <algorithm>

#include "base/log.h"
#include "gguf/parser.h"
#include "gguf/sources.h"
#include "gguf/split.h"
#include "gguf/text.h"
#include "gull/gguf.h"

namespace gull::gguf {

struct File::Impl {
  std::vector<std::shared_ptr<ByteSource>> sources;
  uint32_t version = 0;
  uint64_t total_bytes = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;
  std::vector<uint32_t> key_order, tensor_order;   // sorted by name, for look-ups
};

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::~File() = default;

Result<std::shared_ptr<File>> File::open(std::shared_ptr<ByteSource> source, const SiblingOpener& sibling) {
  auto first = parse_source(std::move(source));
  if (!first) return fail(std::move(first.error()));
  const auto count = split_count(*first);
  if (!count) return fail(count.error());
  const auto name = parse_split_name(first->source->name());
  std::vector<ParsedSource> parts;
  parts.push_back(std::move(*first));
  if (sibling && *count > 1 && name && name->count == *count) {
    for (uint32_t number = 1; number <= *count; ++number) {
      if (number == name->number) continue;
      auto source_of = sibling(name->of(number));
      if (!source_of && source_of.error().kind == ErrorKind::NotFound) continue;   // order_parts names all that are missing
      if (!source_of) return fail(std::move(source_of.error()));
      auto parsed = parse_source(std::move(*source_of));
      if (!parsed) return fail(std::move(parsed.error()));
      parts.push_back(std::move(*parsed));
    }
  }
  return assemble(std::move(parts));
}

Result<std::shared_ptr<File>> File::open(std::shared_ptr<ByteSource> source) { return open(std::move(source), SiblingOpener{}); }

Result<std::shared_ptr<File>> File::open(std::vector<std::shared_ptr<ByteSource>> sources) {
  std::vector<ParsedSource> parts;
  for (auto& source : sources) {
    auto parsed = parse_source(std::move(source));
    if (!parsed) return fail(std::move(parsed.error()));
    parts.push_back(std::move(*parsed));
  }
  return assemble(std::move(parts));
}

Result<std::shared_ptr<File>> File::assemble(std::vector<ParsedSource> unordered) {
  auto parts = order_parts(std::move(unordered));
  if (!parts) return fail(std::move(parts.error()));
  auto impl = std::make_unique<Impl>();
  impl->version = parts->front().part.version;
  impl->metadata = std::move(parts->front().part.metadata);   // the other parts only repeat the split keys
  for (ParsedSource& parsed : *parts) {
    impl->total_bytes += parsed.source->size();
    impl->sources.push_back(std::move(parsed.source));
    std::move(parsed.part.tensors.begin(), parsed.part.tensors.end(), std::back_inserter(impl->tensors));
  }
  impl->key_order = sorted_by_name(impl->metadata, key_of);
  impl->tensor_order = sorted_by_name(impl->tensors, name_of);
  return std::shared_ptr<File>(new File(std::move(impl)));
}

const std::string& File::name() const { return impl_->sources.front()->name(); }
uint32_t File::version() const { return impl_->version; }
uint64_t File::total_bytes() const { return impl_->total_bytes; }
const Metadata& File::metadata() const { return impl_->metadata; }
const std::vector<TensorInfo>& File::tensors() const { return impl_->tensors; }

std::string File::architecture() const {
  const std::string* name = get_string("general.architecture");
  return name == nullptr ? std::string() : *name;
}

const Value* File::find(std::string_view key) const {
  const auto* entry = find_by_name(impl_->metadata, impl_->key_order, key, key_of);
  return entry == nullptr ? nullptr : &entry->second;
}

const TensorInfo* File::tensor(std::string_view name) const {
  return find_by_name(impl_->tensors, impl_->tensor_order, name, name_of);
}

std::optional<uint64_t> File::get_uint(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const uint64_t* number = std::get_if<uint64_t>(value)) return *number;
  if (const int64_t* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0)
    return static_cast<uint64_t>(*number);
  return std::nullopt;
}

std::optional<int64_t> File::get_int(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const int64_t* number = std::get_if<int64_t>(value)) return *number;
  if (const uint64_t* number = std::get_if<uint64_t>(value); number != nullptr && *number <= INT64_MAX)
    return static_cast<int64_t>(*number);
  return std::nullopt;
}

namespace {
template <class T>
const T* get(const Value* value) {
  return value == nullptr ? nullptr : std::get_if<T>(value);
}
}  // namespace

std::optional<double> File::get_float(std::string_view key) const {
  const double* number = get<double>(find(key));
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<bool> File::get_bool(std::string_view key) const {
  const bool* flag = get<bool>(find(key));
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}

const std::string* File::get_string(std::string_view key) const { return get<std::string>(find(key)); }

const Array* File::get_array(std::string_view key) const {
  const auto* array = get<std::shared_ptr<Array>>(find(key));
  return array == nullptr ? nullptr : array->get();
}

size_t Array::size() const {
  switch (kind) {
    case Kind::Unsigned: return unsigneds.size();
    case Kind::Signed: return signeds.size();
    case Kind::Float: return floats.size();
    case Kind::Bool: return bools.size();
    case Kind::String: return strings.size();
    case Kind::Nested: return nested.size();
  }
  return 0;
}

std::optional<int64_t> Array::integer(size_t i) const {
  if (kind == Kind::Signed && i < signeds.size()) return signeds[i];
  if (kind == Kind::Unsigned && i < unsigneds.size() && unsigneds[i] <= INT64_MAX) return static_cast<int64_t>(unsigneds[i]);
  return std::nullopt;
}

Result<void> File::read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const {
  if (tensor.part >= impl_->sources.size() || offset > tensor.bytes || out.size() > tensor.bytes - offset)
    return fail_f(ErrorKind::InvalidArgument, "{}: tensor '{}' has {} bytes; {} from {} on were asked for", name(),
                  printable(tensor.name), tensor.bytes, out.size(), offset);
  return impl_->sources[tensor.part]->read(tensor.offset + offset, out);
}

std::span<const std::byte> File::view(const TensorInfo& tensor, uint64_t offset, uint64_t length) const {
  if (tensor.part >= impl_->sources.size() || offset > tensor.bytes || length > tensor.bytes - offset) return {};
  return impl_->sources[tensor.part]->view(tensor.offset + offset, length);
}

bool File::local() const {
  return std::all_of(impl_->sources.begin(), impl_->sources.end(), [](const auto& source) { return source->local(); });
}

void File::release(const TensorInfo& tensor, uint64_t offset, uint64_t length) const {
  if (tensor.part >= impl_->sources.size() || offset > tensor.bytes || length > tensor.bytes - offset) return;
  impl_->sources[tensor.part]->release(tensor.offset + offset, length);
}

}  // namespace gull::gguf
