// A tree of byte strings, packed: finds every string that begins at a place of a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gull::text {

class Trie {
 public:
  /// From strings and their values (not negative); the first of equal strings counts, empty ones do not.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> strings = {}) {
    std::stable_sort(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    size_t first = 0;
    while (first < strings.size() && strings[first].first.empty()) ++first;
    strings.erase(strings.begin(), strings.begin() + static_cast<std::ptrdiff_t>(first));
    build(strings);
  }

  static constexpr uint32_t kRoot = 0;
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  /// The value of the string that ends at this node, or −1.
  int32_t value(uint32_t node) const { return nodes_[node].value; }
  /// The node that this byte leads to, or kRoot where there is none.
  uint32_t step(uint32_t node, uint8_t byte) const {
    const Node& from = nodes_[node];
    const uint8_t* begin = bytes_.data() + from.first;
    const uint8_t* end = begin + from.edges;
    const uint8_t* hit = std::lower_bound(begin, end, byte);
    return hit == end || *hit != byte ? kRoot : from.first + static_cast<uint32_t>(hit - begin) + 1;  // edge i leads to node i + 1
  }
  /// Calls `f(byte, child)` for every edge of a node. Children have higher numbers than their parents' siblings.
  template <class F>
  void for_each_edge(uint32_t node, F&& f) const {
    for (uint32_t i = nodes_[node].first; i < nodes_[node].first + nodes_[node].edges; ++i) f(bytes_[i], i + 1);
  }

  /// Calls `f(length, value)` for every string that `text` has at `at`, the shortest first.
  template <class F>
  void match(std::string_view text, size_t at, F&& f) const {
    uint32_t node = kRoot;
    for (size_t i = at; i < text.size(); ++i) {
      node = step(node, static_cast<uint8_t>(text[i]));
      if (node == kRoot) return;
      if (nodes_[node].value >= 0) f(i + 1 - at, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first = 0;  ///< its edges are first … first + edges − 1
    uint32_t edges = 0;
    int32_t value = -1;
  };

  /// Level by level, so that the edges of a node lie side by side. Each waiting node owns a range of sorted strings.
  void build(const std::vector<std::pair<std::string_view, int32_t>>& strings) {
    struct Range {
      size_t begin, end, depth;
    };
    std::vector<Range> ranges{{0, strings.size(), 0}};
    nodes_.push_back({});
    for (size_t node = 0; node < nodes_.size(); ++node) {
      Range range = ranges[node];
      while (range.begin < range.end && strings[range.begin].first.size() == range.depth) {
        if (nodes_[node].value < 0) nodes_[node].value = strings[range.begin].second;
        ++range.begin;
      }
      nodes_[node].first = static_cast<uint32_t>(bytes_.size());
      while (range.begin < range.end) {
        char byte = strings[range.begin].first[range.depth];
        size_t end = range.begin;
        while (end < range.end && strings[end].first[range.depth] == byte) ++end;
        bytes_.push_back(static_cast<uint8_t>(byte));
        nodes_.push_back({});
        ranges.push_back({range.begin, end, range.depth + 1});
        ++nodes_[node].edges;
        range.begin = end;
      }
    }
  }

  std::vector<Node> nodes_;
  std::vector<uint8_t> bytes_;  ///< of edge i
};

}  // namespace gull::text
