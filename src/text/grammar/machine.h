// Runs an automaton over bytes. All ways in which the text so far can be read are followed at once, as one set; equal sets
// are one object, so that each step is computed once and then only looked up.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"

namespace gull::text {
class TokenTrie;
}

namespace gull::text::grammar {

/// Sets and frames live as long as the machine; they are named by their index.
class Machine {
 public:
  static constexpr uint32_t kNothing = 0;     ///< the empty set: the text cannot go on

  explicit Machine(const Automaton& automaton);
  uint32_t start() const { return start_; }
  /// The set after one more byte.
  uint32_t step(uint32_t set, uint8_t byte) {
    const uint8_t c = automaton_.byte_class[byte];
    const uint32_t known = sets_[set].next[c];
    return known != kUnknown ? known : compute_step(set, c);
  }
  bool complete(uint32_t set) const { return sets_[set].complete; }
  bool finished(uint32_t set) const { return sets_[set].threads.empty(); }
  /// The tokens that may come next, as bits; cached.
  std::span<const uint32_t> mask(uint32_t set, const TokenTrie& trie);

  /// Whether so much is cached that a fresh machine should take over.
  bool is_full() const { return cost_ > 8'000'000; }
  /// A machine with nothing but this set; its index there is returned in `set`.
  std::shared_ptr<Machine> renewed(uint32_t& set) const;

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kEnd = UINT32_MAX;   ///< the caller of the root rule: the whole text ends

  /// Where a rule goes on when it ends: state `then` within `frame`.
  struct Caller {
    uint32_t then, frame;
    auto operator<=>(const Caller&) const = default;
  };
  /// A call in progress: all places that wait for it. Sorted.
  using Frame = std::vector<Caller>;
  /// One way to read the text: a state, and the frame of the rule that it belongs to.
  struct Thread {
    uint32_t state, frame;
    auto operator<=>(const Thread&) const = default;
  };
  struct Set {
    std::vector<Thread> threads;      ///< sorted; only those that can read a byte
    bool complete = false;
    std::vector<uint32_t> next;       ///< by byte class
  };
  class Closure;

  uint32_t compute_step(uint32_t set, uint8_t byte_class);
  uint32_t intern_frame(Frame frame);
  uint32_t intern_set(std::vector<Thread> threads, bool complete);

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::vector<Set> sets_;
  std::unordered_multimap<uint64_t, uint32_t> frame_index_, set_index_;   ///< by hash
  uint32_t start_ = 0;
  size_t cost_ = 0;                   ///< roughly, in words
  std::unordered_map<uint32_t, std::vector<uint32_t>> masks_;
  uint64_t masks_of_ = 0;             ///< the trie that they belong to
};

}  // namespace gull::text::grammar
