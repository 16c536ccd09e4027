#include "text/grammar/machine.h"

#include <algorithm>
#include <unordered_set>

#include "text/grammar/grammar.h"

namespace gull::text::grammar {
namespace {

template <class T>
uint64_t hash_of(const std::vector<T>& pairs, uint64_t seed) {
  uint64_t h = seed;
  for (const auto& [a, b] : pairs) {
    h ^= (uint64_t{a} << 32 | b) + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

/// Follows calls and ends of rules until only threads that can read a byte are left. Calls of one rule at one place share
/// a frame (as in Earley's algorithm), so ambiguous grammars stay polynomial; a call at the very end of a rule hands its
/// callers on, so recursion at the end needs no more memory than a loop.
class Machine::Closure {
 public:
  Closure(Machine& m) : m_(m), a_(m.automaton_) {}

  void add(uint32_t state, uint32_t frame) {
    if (seen_.insert(uint64_t{state} << 32 | frame).second) todo_.push_back({state, frame});
  }
  void call_root() { add_caller(fresh_for(a_.root), {kEnd, 0}); }

  uint32_t finish() {
    for (size_t i = 0; i < todo_.size(); i++) {
      const Thread t = todo_[i];
      const auto& state = a_.states[t.state];
      if (state.accepts) end_of(t.frame);
      for (const auto& call : a_.calls_of(t.state)) this->call(call, t.frame);
    }
    std::vector<Thread> threads;
    for (const Thread& t : todo_)
      if (a_.states[t.state].edge_count) threads.push_back({t.state, settled(t.frame)});
    std::sort(threads.begin(), threads.end());
    threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
    return m_.intern_set(std::move(threads), complete_);
  }

 private:
  static constexpr uint32_t kFresh = 0x80000000;   ///< marks a frame that was opened at this place
  struct Fresh {
    uint32_t rule;
    Frame callers;
    bool ended = false;                 ///< the rule can match nothing
    std::vector<uint32_t> heirs;        ///< fresh frames that take over its callers
    uint32_t settled = kUnknown;        ///< its number in the machine
  };

  uint32_t fresh_for(uint32_t rule) {
    const auto [it, is_new] = by_rule_.emplace(rule, static_cast<uint32_t>(fresh_.size()));
    if (is_new) {
      fresh_.push_back({rule, {}, false, {}, kUnknown});
      add(a_.starts[rule], it->second | kFresh);
    }
    return it->second;
  }

  void call(const Automaton::Call& call, uint32_t frame) {
    const uint32_t opened = fresh_for(call.rule);
    if (!a_.states[call.then].only_ends()) return add_caller(opened, {call.then, frame});
    if (frame & kFresh) fresh_[frame & ~kFresh].heirs.push_back(opened);
    const Frame callers = frame & kFresh ? fresh_[frame & ~kFresh].callers : m_.frames_[frame];
    for (const Caller& c : callers) add_caller(opened, c);
  }

  void add_caller(uint32_t opened, const Caller& caller) {
    std::vector<uint32_t> todo{opened};
    while (!todo.empty()) {
      Fresh& f = fresh_[todo.back()];
      todo.pop_back();
      if (std::find(f.callers.begin(), f.callers.end(), caller) != f.callers.end()) continue;
      f.callers.push_back(caller);
      todo.insert(todo.end(), f.heirs.begin(), f.heirs.end());
      if (f.ended) go_on(caller);
    }
  }

  void end_of(uint32_t frame) {
    if (frame & kFresh) fresh_[frame & ~kFresh].ended = true;
    const Frame callers = frame & kFresh ? fresh_[frame & ~kFresh].callers : m_.frames_[frame];
    for (const Caller& c : callers) go_on(c);
  }

  void go_on(const Caller& c) {
    if (c.then == kEnd) complete_ = true;
    else add(c.then, c.frame);
  }

  /// The number of a frame in the machine. Fresh frames only point to fresh ones that were waiting for them, never in a
  /// circle (that would be left recursion), so innermost ones can be settled first.
  uint32_t settled(uint32_t frame) {
    if (!(frame & kFresh)) return frame;
    std::vector<uint32_t> path{frame & ~kFresh};
    while (!path.empty()) {
      Fresh& f = fresh_[path.back()];
      if (f.settled == kUnknown) {
        bool ready = true;
        for (const Caller& c : f.callers) {
          if (c.then == kEnd || !(c.frame & kFresh) || fresh_[c.frame & ~kFresh].settled != kUnknown) continue;
          path.push_back(c.frame & ~kFresh);
          ready = false;
        }
        if (!ready) continue;
        Frame callers = f.callers;
        for (Caller& c : callers)
          if (c.then != kEnd && c.frame & kFresh) c.frame = fresh_[c.frame & ~kFresh].settled;
        f.settled = m_.intern_frame(std::move(callers));
      }
      path.pop_back();
    }
    return fresh_[frame & ~kFresh].settled;
  }

  Machine& m_;
  const Automaton& a_;
  std::vector<Thread> todo_;
  std::unordered_set<uint64_t> seen_;
  std::vector<Fresh> fresh_;
  std::unordered_map<uint32_t, uint32_t> by_rule_;
  bool complete_ = false;
};

Machine::Machine(const Automaton& automaton) : automaton_(automaton) {
  intern_set({}, false);
  Closure closure(*this);
  closure.call_root();
  start_ = closure.finish();
}

uint32_t Machine::intern_frame(Frame frame) {
  std::sort(frame.begin(), frame.end());
  frame.erase(std::unique(frame.begin(), frame.end()), frame.end());
  const uint64_t hash = hash_of(frame, 1);
  const auto [begin, end] = frame_index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (frames_[it->second] == frame) return it->second;
  cost_ += 16 + 2 * frame.size();
  frames_.push_back(std::move(frame));
  frame_index_.emplace(hash, static_cast<uint32_t>(frames_.size() - 1));
  return static_cast<uint32_t>(frames_.size() - 1);
}

uint32_t Machine::intern_set(std::vector<Thread> threads, bool complete) {
  const uint64_t hash = hash_of(threads, complete ? 3 : 2);
  const auto [begin, end] = set_index_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (sets_[it->second].complete == complete && sets_[it->second].threads == threads) return it->second;
  cost_ += 32 + 2 * threads.size() + automaton_.class_byte.size();
  const bool dead = threads.empty();
  sets_.push_back({std::move(threads), complete, std::vector<uint32_t>(automaton_.class_byte.size(), dead ? kNothing : kUnknown)});
  set_index_.emplace(hash, static_cast<uint32_t>(sets_.size() - 1));
  return static_cast<uint32_t>(sets_.size() - 1);
}

uint32_t Machine::compute_step(uint32_t set, uint8_t byte_class) {
  const uint8_t byte = automaton_.class_byte[byte_class];
  Closure closure(*this);
  for (const Thread& t : sets_[set].threads)
    for (const auto& e : automaton_.edges_of(t.state))
      if (byte >= e.first && byte <= e.last) closure.add(e.to, t.frame);
  const uint32_t next = closure.finish();
  sets_[set].next[byte_class] = next;
  return next;
}

std::span<const uint32_t> Machine::mask(uint32_t set, const TokenTrie& trie) {
  if (masks_of_ != trie.id() || masks_.size() > 256) masks_.clear(), masks_of_ = trie.id();
  const auto [it, fresh] = masks_.try_emplace(set);
  std::vector<uint32_t>& bits = it->second;
  if (!fresh) return bits;
  bits.assign(trie.mask_words(), 0);
  std::vector<uint32_t> path(trie.max_depth() + 1, kNothing);
  path[0] = set;
  const auto nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const auto& node = nodes[i];
    const uint32_t reached = step(path[node.depth - 1u], node.byte);
    // A set that is only complete has no threads, but its token fits; the empty set that is not complete is a dead end.
    if (reached == kNothing) {
      i = node.after;
      continue;
    }
    for (int32_t token : trie.tokens(node)) bits[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
    path[node.depth] = reached;
    i++;
  }
  return bits;
}

std::shared_ptr<Machine> Machine::renewed(uint32_t& set) const {
  auto fresh = std::make_shared<Machine>(automaton_);
  // Frames only point to older ones, so copying the needed ones in order finds each already there.
  std::vector<bool> needed(frames_.size(), false);
  for (const Thread& t : sets_[set].threads) needed[t.frame] = true;
  for (size_t i = frames_.size(); i-- > 0;)
    for (const Caller& c : frames_[i])
      if (needed[i] && c.then != kEnd) needed[c.frame] = true;
  std::vector<uint32_t> number(frames_.size(), 0);
  for (size_t i = 0; i < frames_.size(); i++) {
    if (!needed[i]) continue;
    Frame copy = frames_[i];
    for (Caller& c : copy)
      if (c.then != kEnd) c.frame = number[c.frame];
    number[i] = fresh->intern_frame(std::move(copy));
  }
  std::vector<Thread> threads = sets_[set].threads;
  for (Thread& t : threads) t.frame = number[t.frame];
  std::sort(threads.begin(), threads.end());
  set = fresh->intern_set(std::move(threads), sets_[set].complete);
  return fresh;
}

}  // namespace gull::text::grammar
