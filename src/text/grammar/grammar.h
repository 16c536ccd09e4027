// Constrained output: a grammar says which bytes may come next, and so which tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gull/error.h"

namespace gull::text {

namespace grammar {
struct Automaton;
class Machine;
}  // namespace grammar

/// A compiled GBNF grammar (the notation of llama.cpp: rules, literals, [classes], groups, | * + ? {m,n} and .), immutable and
/// thread-safe.
class Grammar {
 public:
  /// Errors (InvalidArgument) name the line or the rule: syntax, a missing rule, left recursion, no way to end, too large.
  static Result<std::shared_ptr<const Grammar>> parse(std::string_view gbnf);
  /// The grammar of the JSON texts that a schema allows; see json_schema.h.
  static Result<std::shared_ptr<const Grammar>> from_json_schema(std::string_view schema);
  ~Grammar();
  const grammar::Automaton& automaton() const { return *automaton_; }

 private:
  explicit Grammar(std::unique_ptr<grammar::Automaton> automaton);
  std::unique_ptr<grammar::Automaton> automaton_;
};

/// All tokens of a vocabulary by their bytes. Build it once for a model. Immutable, thread-safe.
class TokenTrie {
 public:
  /// `pieces[id]` are the bytes of a token; tokens without bytes (control tokens) are never allowed by a grammar.
  explicit TokenTrie(std::span<const std::string> pieces);

  struct Node {
    uint8_t byte;
    uint16_t depth;        ///< 1 for the first byte
    uint32_t after;        ///< index of the first node that is not below this one
    uint32_t first_token, token_count;
  };
  /// In depth-first order.
  std::span<const Node> nodes() const { return nodes_; }
  /// The tokens that end at a node.
  std::span<const int32_t> tokens(const Node& node) const { return std::span(tokens_).subspan(node.first_token, node.token_count); }
  /// 32-bit words of a mask over all tokens.
  size_t mask_words() const { return (size_ + 31) / 32; }
  size_t max_depth() const { return max_depth_; }
  uint64_t id() const { return id_; }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  size_t size_ = 0, max_depth_ = 0;
  uint64_t id_ = 0;
};

/// How far a text has been read by a grammar. Cheap to copy; copies share a cache, so use them from one thread at a time.
class GrammarState {
 public:
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  /// Whether these bytes may come next. They may begin or end inside a character.
  bool accepts(std::string_view bytes) const;
  /// Reads the bytes; false, and no change, where they may not come.
  bool advance(std::string_view bytes);
  /// Whether the text may end here. (It may be able to go on, too.)
  bool is_complete() const;
  /// Whether nothing may come any more.
  bool is_finished() const;
  /// Bit `id % 32` of word `id / 32` is set where the token's bytes may come next. The end-of-generation tokens are the
  /// caller's: they are allowed where is_complete(). Valid until the next call on this state or a copy of it.
  std::span<const uint32_t> allowed_tokens(const TokenTrie& trie) const;

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<grammar::Machine> machine_;
  uint32_t set_ = 0;
};

}  // namespace gull::text
