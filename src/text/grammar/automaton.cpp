#include "text/grammar/automaton.h"

#include <algorithm>
#include <unordered_set>

#include "base/log.h"

namespace gull::text::grammar {
namespace {

constexpr size_t kMaxStates = 400'000;
constexpr size_t kMaxEdges = 2'000'000;

/// A state while it is built: it may also go on to others without reading anything.
struct Draft {
  std::vector<Automaton::Edge> edges;
  std::vector<Automaton::Call> calls;
  std::vector<uint32_t> empty;
};

class Builder {
 public:
  bool too_large() const { return drafts_.size() > kMaxStates; }
  std::vector<Draft>& drafts() { return drafts_; }

  uint32_t state() {
    drafts_.emplace_back();
    return static_cast<uint32_t>(drafts_.size() - 1);
  }

  /// Adds what the node reads, beginning in `from`; returns where it ends.
  uint32_t add(const Node& node, uint32_t from) {
    if (too_large()) return from;
    switch (node.kind) {
      case Node::Sequence:
        for (const auto& kid : node.kids) from = add(*kid, from);
        return from;
      case Node::Alternatives: {
        const uint32_t to = state();
        for (const auto& kid : node.kids) skip(add(*kid, from), to);
        return to;
      }
      case Node::Literal:
        for (char c : node.bytes) from = edge(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), state());
        return from;
      case Node::Class: {
        const uint32_t to = state();
        for (const auto& [first, last] : node.ranges) characters(from, to, first, last);
        return to;
      }
      case Node::Rule: {
        const uint32_t then = state();
        drafts_[from].calls.push_back({node.rule, then});
        return then;
      }
      case Node::Repeat: return repeat(node, from);
    }
    return from;
  }

 private:
  void skip(uint32_t from, uint32_t to) { drafts_[from].empty.push_back(to); }
  uint32_t edge(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
    drafts_[from].edges.push_back({first, last, to});
    return to;
  }

  uint32_t repeat(const Node& node, uint32_t from) {
    const Node& kid = *node.kids[0];
    for (uint32_t i = 0; i < node.min && !too_large(); i++) from = add(kid, from);
    if (node.max == kUnlimited) {
      const uint32_t loop = state();   // a state of its own: what stands before must not be entered again
      skip(from, loop);
      skip(add(kid, loop), loop);
      return loop;
    }
    const uint32_t to = state();
    for (uint32_t i = node.min; i < node.max && !too_large(); i++) {
      skip(from, to);
      from = add(kid, from);
    }
    skip(from, to);
    return to;
  }

  /// Code points first … last as sequences of byte ranges.
  void characters(uint32_t from, uint32_t to, uint32_t first, uint32_t last) {
    for (uint32_t limit : {0x7Fu, 0x7FFu, 0xFFFFu}) {   // encodings of one length
      if (first <= limit && last > limit) {
        characters(from, to, first, limit);
        return characters(from, to, limit + 1, last);
      }
    }
    const int size = last <= 0x7F ? 1 : last <= 0x7FF ? 2 : last <= 0xFFFF ? 3 : 4;
    for (int i = 1; i < size; i++) {   // ranges whose last i bytes are all possible, or the same
      const uint32_t mask = (1u << (6 * i)) - 1;
      if ((first & ~mask) == (last & ~mask)) continue;
      if (first & mask) {
        characters(from, to, first, first | mask);
        return characters(from, to, (first | mask) + 1, last);
      }
      if ((last & mask) != mask) {
        characters(from, to, first, (last & ~mask) - 1);
        return characters(from, to, last & ~mask, last);
      }
    }
    for (int i = 0; i < size; i++) {
      const auto byte = [&](uint32_t c) {
        const int shift = 6 * (size - 1 - i);
        if (size == 1) return static_cast<uint8_t>(c);
        if (i > 0) return static_cast<uint8_t>(0x80 | (c >> shift & 0x3F));
        return static_cast<uint8_t>((0xF00u >> size & 0xFF) | c >> shift);
      };
      from = edge(from, byte(first), byte(last), i + 1 == size ? to : state());
    }
  }

  std::vector<Draft> drafts_;
};

/// Turns drafts into states without empty steps, and drops what can never end.
class Finisher {
 public:
  Finisher(std::vector<Draft>& drafts, const std::vector<uint32_t>& ends, Automaton& out) : drafts_(drafts), ends_(ends), out_(out) {}

  /// False when there are too many edges.
  bool resolve_empty_steps() {
    kept_.resize(drafts_.size());
    std::vector<uint32_t> seen(drafts_.size(), UINT32_MAX), stack;
    size_t edges = 0;
    for (uint32_t s = 0; s < drafts_.size(); s++) {
      Draft& all = kept_[s];
      stack.assign(1, s);
      seen[s] = s;
      while (!stack.empty()) {
        const uint32_t at = stack.back();
        stack.pop_back();
        const Draft& d = drafts_[at];
        all.edges.insert(all.edges.end(), d.edges.begin(), d.edges.end());
        all.calls.insert(all.calls.end(), d.calls.begin(), d.calls.end());
        if (ends_[at]) all.empty.push_back(at);   // from here on: marks an accepting state
        for (uint32_t next : d.empty)
          if (seen[next] != s) seen[next] = s, stack.push_back(next);
      }
      edges += all.edges.size() + all.calls.size();
      if (edges > kMaxEdges) return false;
    }
    return true;
  }

  /// Which states can reach the end of their rule, calling only rules that can end themselves; `reading`: also over bytes.
  std::vector<bool> reaching_end(bool reading) const {
    struct Waiting { uint32_t state, other; };   // the state follows once this one, and the other, are found
    constexpr uint32_t none = UINT32_MAX;
    std::vector<std::vector<Waiting>> waiting(kept_.size());
    std::vector<bool> found(kept_.size(), false);
    std::vector<uint32_t> todo;
    const auto find = [&](uint32_t s) {
      if (!found[s]) found[s] = true, todo.push_back(s);
    };
    for (uint32_t s = 0; s < kept_.size(); s++) {
      if (!kept_[s].empty.empty()) find(s);
      for (const auto& e : kept_[s].edges)
        if (reading) waiting[e.to].push_back({s, none});
      for (const auto& c : kept_[s].calls) {
        waiting[c.then].push_back({s, out_.starts[c.rule]});
        waiting[out_.starts[c.rule]].push_back({s, c.then});
      }
    }
    while (!todo.empty()) {
      const uint32_t s = todo.back();
      todo.pop_back();
      for (const Waiting& w : waiting[s])
        if (w.other == none || found[w.other]) find(w.state);
    }
    return found;
  }

  void find_live() { live_ = reaching_end(true); }

  bool rule_is_live(uint32_t rule) const { return live_[out_.starts[rule]]; }

  void write() {
    for (size_t i = 0; i < kept_.size(); i++) {
      Automaton::State state;
      state.accepts = !kept_[i].empty.empty();
      state.first_edge = static_cast<uint32_t>(out_.edges.size());
      state.first_call = static_cast<uint32_t>(out_.calls.size());
      for (const auto& e : kept_[i].edges)
        if (live_[e.to]) out_.edges.push_back(e);
      for (const auto& c : kept_[i].calls)
        if (live_[c.then] && rule_is_live(c.rule)) out_.calls.push_back(c);
      state.edge_count = static_cast<uint32_t>(out_.edges.size()) - state.first_edge;
      state.call_count = static_cast<uint32_t>(out_.calls.size()) - state.first_call;
      out_.states.push_back(state);
    }
  }

 private:
  std::vector<Draft>& drafts_;
  const std::vector<uint32_t>& ends_;
  Automaton& out_;
  std::vector<Draft> kept_;
  std::vector<bool> live_;
};

/// The rules that a rule may call before it has read anything. `nullable`: states that can reach an end without reading.
std::vector<uint32_t> first_calls(const Automaton& a, const std::vector<bool>& nullable, uint32_t rule) {
  std::vector<uint32_t> out, stack{a.starts[rule]};
  std::unordered_set<uint32_t> seen;
  while (!stack.empty()) {
    const uint32_t s = stack.back();
    stack.pop_back();
    if (!seen.insert(s).second) continue;
    for (const auto& call : a.calls_of(s)) {
      out.push_back(call.rule);
      if (nullable[a.starts[call.rule]]) stack.push_back(call.then);
    }
  }
  return out;
}

/// A rule that calls itself before reading anything, or −1.
int64_t left_recursive_rule(const Automaton& a, const std::vector<bool>& nullable) {
  enum : uint8_t { New, Open, Done };
  std::vector<uint8_t> color(a.starts.size(), New);
  struct Visit { uint32_t rule; std::vector<uint32_t> calls; size_t next; };
  for (uint32_t first = 0; first < a.starts.size(); first++) {
    if (color[first] != New) continue;
    std::vector<Visit> path{{first, first_calls(a, nullable, first), 0}};
    color[first] = Open;
    while (!path.empty()) {
      Visit& v = path.back();
      if (v.next == v.calls.size()) {
        color[v.rule] = Done;
        path.pop_back();
        continue;
      }
      const uint32_t called = v.calls[v.next++];
      if (color[called] == Open) return called;
      if (color[called] == Done) continue;
      color[called] = Open;
      path.push_back({called, first_calls(a, nullable, called), 0});
    }
  }
  return -1;
}

void find_byte_classes(Automaton& a) {
  std::array<bool, 257> cut{};
  for (const auto& e : a.edges) cut[e.first] = cut[e.last + 1u] = true;
  for (unsigned b = 0; b < 256; b++) {
    if (b == 0 || cut[b]) a.class_byte.push_back(static_cast<uint8_t>(b));
    a.byte_class[b] = static_cast<uint8_t>(a.class_byte.size() - 1);
  }
}

}  // namespace

Result<Automaton> build_automaton(const std::vector<Rule>& rules) {
  Automaton out;
  const auto root = std::find_if(rules.begin(), rules.end(), [](const Rule& r) { return r.name == "root"; });
  if (root == rules.end()) return fail(ErrorKind::InvalidArgument, "grammar: there is no rule 'root'");
  out.root = static_cast<uint32_t>(root - rules.begin());

  Builder builder;
  std::vector<uint32_t> ends;
  for (const Rule& rule : rules) {
    out.starts.push_back(builder.state());
    const uint32_t end = builder.add(*rule.body, out.starts.back());
    ends.resize(builder.drafts().size(), 0);
    ends[end] = 1;
  }
  Finisher finisher(builder.drafts(), ends, out);
  if (builder.too_large() || !finisher.resolve_empty_steps())
    return fail_f(ErrorKind::InvalidArgument, "grammar: too large (more than {} states); use smaller repetition counts", kMaxStates);
  finisher.find_live();
  if (!finisher.rule_is_live(out.root)) return fail(ErrorKind::InvalidArgument, "grammar: 'root' can never end: every way through it leads into an endless rule");
  finisher.write();
  if (const int64_t rule = left_recursive_rule(out, finisher.reaching_end(false)); rule >= 0)
    return fail_f(ErrorKind::InvalidArgument, "grammar, line {}: rule '{}' calls itself before it reads anything (left recursion); use x* or recursion at the end",
                  rules[static_cast<size_t>(rule)].line, rules[static_cast<size_t>(rule)].name);
  find_byte_classes(out);
  return out;
}

}  // namespace gull::text::grammar
