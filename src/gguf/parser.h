// The header of one GGUF file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gull/gguf.h"

namespace gull::gguf {

using Metadata = std::vector<std::pair<std::string, Value>>;

/// What one file says of itself. Tensor offsets are from the start of the file, checked to lie inside it.
struct Part {
  uint32_t version = 0;
  uint32_t alignment = 32;
  Metadata metadata;
  std::vector<TensorInfo> tensors;
};

/// Reads and checks a header. Errors name the source, what is wrong and at which byte.
Result<Part> parse_part(ByteSource& source);

/// Positions of `items` sorted by name, for look-ups and to find names that occur twice.
template <class Items, class NameOf>
std::vector<uint32_t> sorted_by_name(const Items& items, NameOf name_of);
/// The item called `name`, or nullptr.
template <class Items, class NameOf>
auto find_by_name(const Items& items, const std::vector<uint32_t>& order, std::string_view name, NameOf name_of)
    -> decltype(&items[0]);

}  // namespace gull::gguf

#include <algorithm>
#include <numeric>

namespace gull::gguf {

template <class Items, class NameOf>
std::vector<uint32_t> sorted_by_name(const Items& items, NameOf name_of) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::string_view(name_of(items[a])) < std::string_view(name_of(items[b]));
  });
  return order;
}

template <class Items, class NameOf>
auto find_by_name(const Items& items, const std::vector<uint32_t>& order, std::string_view name, NameOf name_of)
    -> decltype(&items[0]) {
  const auto at = std::lower_bound(order.begin(), order.end(), name, [&](uint32_t i, std::string_view wanted) {
    return std::string_view(name_of(items[i])) < wanted;
  });
  return at != order.end() && std::string_view(name_of(items[*at])) == name ? &items[*at] : nullptr;
}

inline const std::string& key_of(const std::pair<std::string, Value>& entry) { return entry.first; }
inline const std::string& name_of(const TensorInfo& tensor) { return tensor.name; }

}  // namespace gull::gguf
