// A grammar as one automaton over bytes for each rule; a state can also call another rule.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gull/error.h"
#include "text/grammar/gbnf.h"

namespace gull::text::grammar {

struct Automaton {
  struct Edge { uint8_t first, last; uint32_t to; };    ///< any byte first … last leads to `to`
  struct Call { uint32_t rule, then; };                 ///< after a text of the rule, go on in `then`
  struct State {
    uint32_t first_edge = 0, edge_count = 0, first_call = 0, call_count = 0;
    bool accepts = false;                               ///< the rule may end here
    bool only_ends() const { return accepts && edge_count == 0 && call_count == 0; }
  };
  std::vector<State> states;
  std::vector<Edge> edges;
  std::vector<Call> calls;
  std::vector<uint32_t> starts;                         ///< of each rule
  uint32_t root = 0;                                    ///< the rule "root"
  std::array<uint8_t, 256> byte_class{};                ///< bytes that no edge tells apart share a class
  std::vector<uint8_t> class_byte;                      ///< one byte of each class

  std::span<const Edge> edges_of(uint32_t s) const { return std::span(edges).subspan(states[s].first_edge, states[s].edge_count); }
  std::span<const Call> calls_of(uint32_t s) const { return std::span(calls).subspan(states[s].first_call, states[s].call_count); }
};

/// Errors: no root, left recursion, a root that can never end, too large. Every state that is left can reach an end, so a
/// text that was accepted so far can always be completed.
Result<Automaton> build_automaton(const std::vector<Rule>& rules);

}  // namespace gull::text::grammar
