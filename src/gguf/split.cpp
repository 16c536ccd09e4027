#include "gguf/split.h"

#include <charconv>

#include "base/log.h"
#include "gguf/text.h"

namespace gull::gguf {
namespace {

constexpr uint32_t kMaxParts = 65535;   // split.count is a u16

/// A non-negative integer of any width and sign; `absent` where there is no such key; an error where it is something else.
Result<uint64_t> count_of(const ParsedSource& parsed, std::string_view key, uint64_t absent) {
  for (const auto& [name, value] : parsed.part.metadata) {
    if (name != key) continue;
    if (const uint64_t* number = std::get_if<uint64_t>(&value)) return *number;
    if (const int64_t* number = std::get_if<int64_t>(&value); number != nullptr && *number >= 0)
      return static_cast<uint64_t>(*number);
    return fail_f(ErrorKind::BadFile, "{}: the metadata value '{}' is not a count", parsed.source->name(), key);
  }
  return absent;
}

std::optional<uint32_t> five_digits(std::string_view text) {
  uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = text.size() == 5 && text[0] != '-' && result.ec == std::errc{} && result.ptr == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// The number of a part (from 0) and its place in the caller's list.
struct Numbered {
  uint32_t number;
  size_t index;
};

/// "a-00001-of-00003.gguf, a-00003-of-00003.gguf" where the files are named so, else "parts 1, 3"; a long list is cut.
std::string list_missing(const std::string& known_name, const std::vector<Numbered>& present, uint32_t count) {
  constexpr size_t kShown = 4;
  const auto name = parse_split_name(known_name);
  const bool by_name = name && name->count == count;
  const size_t missing = count - present.size();
  std::string list;
  size_t listed = 0;
  auto next = present.begin();
  for (uint32_t i = 0; i < count && listed < kShown; ++i) {
    if (next != present.end() && next->number == i) {
      ++next;
      continue;
    }
    if (listed++ > 0) list += ", ";
    list += by_name ? name->of(i + 1) : std::to_string(i + 1);
  }
  if (missing > kShown) list += fmt::format(", … ({} in all)", missing);
  return (by_name ? "" : missing == 1 ? "part " : "parts ") + list;
}

/// The parts by number. Every number must be there exactly once.
Result<std::vector<Numbered>> numbered(const std::vector<ParsedSource>& parts, uint32_t count) {
  std::vector<Numbered> order;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = parts[i].source->name();
    const auto own_count = split_count(parts[i]);
    if (!own_count) return fail(own_count.error());
    if (*own_count != count)
      return fail_f(ErrorKind::BadFile, "{}: is of a model in {} parts, but {} is of one in {}: they do not belong together",
                    name, *own_count, parts[0].source->name(), count);
    const auto number = count_of(parts[i], "split.no", 0);
    if (!number) return fail(number.error());
    if (*number >= count)
      return fail_f(ErrorKind::BadFile, "{}: says that its number, counted from 0, is {} of {} parts", name, *number, count);
    order.push_back({static_cast<uint32_t>(*number), i});
  }
  std::stable_sort(order.begin(), order.end(), [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1].number == order[i].number)
      return fail_f(ErrorKind::InvalidArgument, "{}: part {} of {} is given twice, also as {}",
                    parts[order[i].index].source->name(), order[i].number + 1, count, parts[order[i - 1].index].source->name());
  if (order.size() < count) {
    const std::string& name = parts[order[0].index].source->name();
    return fail_f(
        ErrorKind::NotFound,
        "{}: is part {} of {} of a split model, and {} missing: put all parts in one folder, named as they were published", name,
        order[0].number + 1, count, list_missing(name, order, count) + (count - order.size() == 1 ? " is" : " are"));
  }
  return order;
}

Result<void> check_tensors(const std::vector<ParsedSource>& parts) {
  uint64_t total = 0;
  std::vector<const TensorInfo*> all;
  for (const ParsedSource& p : parts)
    for (const TensorInfo& tensor : p.part.tensors) all.push_back(&tensor);
  total = all.size();
  for (const ParsedSource& p : parts) {
    const auto claimed = count_of(p, "split.tensors.count", total);
    if (!claimed) return fail(claimed.error());
    if (*claimed != total)
      return fail_f(ErrorKind::BadFile, "{}: says that the model has {} tensors, but its parts hold {}", p.source->name(),
                    *claimed, total);
  }
  const auto order = sorted_by_name(all, [](const TensorInfo* t) -> const std::string& { return t->name; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &a = *all[order[i - 1]], &b = *all[order[i]];
    if (a.name == b.name)
      return fail_f(ErrorKind::BadFile, "{}: the tensor name '{}' occurs twice, also in {}", parts[b.part].source->name(),
                    printable(b.name), parts[a.part].source->name());
  }
  return {};
}

}  // namespace

std::string SplitName::of(uint32_t n) const { return fmt::format("{}-{:05}-of-{:05}{}", prefix, n, count, suffix); }

std::optional<SplitName> parse_split_name(std::string_view name) {
  const size_t query = name.find('?');   // a file's name may hold one too: then the last ".gguf" before it decides
  const size_t end = name.substr(0, query).rfind(".gguf");
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kTail = 1 + 5 + kOf.size() + 5;
  if (end == std::string_view::npos || end < kTail) return std::nullopt;
  const std::string_view tail = name.substr(end - kTail, kTail);
  const auto number = five_digits(tail.substr(1, 5)), count = five_digits(tail.substr(kTail - 5));
  if (tail[0] != '-' || tail.substr(6, kOf.size()) != kOf || !number || !count || *number == 0 || *number > *count)
    return std::nullopt;
  return SplitName{std::string(name.substr(0, end - kTail)), std::string(name.substr(end)), *number, *count};
}

Result<ParsedSource> parse_source(std::shared_ptr<ByteSource> source) {
  if (!source) return fail(ErrorKind::InvalidArgument, "no source to read a GGUF file from");
  auto part = parse_part(*source);
  if (!part) return fail(std::move(part.error()));
  return ParsedSource{std::move(source), std::move(*part)};
}

Result<uint32_t> split_count(const ParsedSource& parsed) {
  const auto count = count_of(parsed, "split.count", 1);
  if (!count) return fail(count.error());
  if (*count > kMaxParts)
    return fail_f(ErrorKind::BadFile, "{}: claims to be split into {} parts", parsed.source->name(), *count);
  return std::max<uint32_t>(1, static_cast<uint32_t>(*count));
}

Result<std::vector<ParsedSource>> order_parts(std::vector<ParsedSource> parts) {
  if (parts.empty()) return fail(ErrorKind::InvalidArgument, "no file of the model is given");
  const auto count = split_count(parts[0]);
  if (!count) return fail(count.error());
  if (*count == 1 && parts.size() > 1)
    return fail_f(ErrorKind::InvalidArgument, "{} and {} are no parts of one split model: the first is whole",
                  parts[0].source->name(), parts[1].source->name());
  if (*count == 1) return parts;
  const auto order = numbered(parts, *count);
  if (!order) return fail(order.error());
  std::vector<ParsedSource> ordered;
  for (const auto& [number, i] : *order) {
    for (TensorInfo& tensor : parts[i].part.tensors) tensor.part = number;
    ordered.push_back(std::move(parts[i]));
  }
  if (auto whole = check_tensors(ordered); !whole) return fail(whole.error());
  return ordered;
}

}  // namespace gull::gguf
