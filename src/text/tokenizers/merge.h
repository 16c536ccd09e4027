// Merging neighbours, cheapest first: the heart of BPE and of SentencePiece's BPE models.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace gull::text {

/// A part of a word; parts are linked in order. One that was merged into its left neighbour has length 0.
struct Symbol {
  int32_t previous = -1, next = -1;
  uint32_t begin = 0, length = 0;
  int32_t id = -1;  ///< what it is called: a string or a token, as the merging model likes
};

/// What two neighbours would merge into. A lower cost goes first.
struct Merge {
  double cost = 0;
  int32_t id = -1;  ///< −1: they do not merge
};

/// Links the symbols of a word in the order in which they were appended.
inline void link(std::vector<Symbol>& symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 == symbols.size() ? -1 : static_cast<int32_t>(i) + 1;
  }
}

/// Merges until nothing merges any more: the cheapest pair first, the leftmost of equals. `lookup(left, right)` gives
/// the Merge of two symbols. O(n log n) in the number of symbols.
template <class Lookup>
void merge_all(std::vector<Symbol>& symbols, Lookup&& lookup) {
  struct Candidate {
    double cost;
    int32_t left, right, id;
    uint32_t length;  ///< of both when it was seen: another length now means that it is out of date
    bool operator<(const Candidate& other) const {  // a heap's top is its largest
      return cost > other.cost || (cost == other.cost && left > other.left);
    }
  };
  std::vector<Candidate> heap;
  auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& l = symbols[static_cast<size_t>(left)];
    const Symbol& r = symbols[static_cast<size_t>(right)];
    Merge merge = lookup(l, r);
    if (merge.id >= 0) {
      heap.push_back({merge.cost, left, right, merge.id, l.length + r.length});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  for (size_t i = 1; i < symbols.size(); ++i) consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
    left.length = best.length;
    left.id = best.id;
    right.length = 0;
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
}

}  // namespace gull::text
