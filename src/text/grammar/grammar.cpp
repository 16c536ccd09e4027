#include "text/grammar/grammar.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "base/log.h"
#include "text/grammar/automaton.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/machine.h"

namespace gull::text {

Grammar::Grammar(std::unique_ptr<grammar::Automaton> automaton) : automaton_(std::move(automaton)) {}
Grammar::~Grammar() = default;

Result<std::shared_ptr<const Grammar>> Grammar::parse(std::string_view gbnf) {
  const auto rules = grammar::parse_gbnf(gbnf);
  if (!rules) return fail(rules.error());
  auto automaton = grammar::build_automaton(*rules);
  if (!automaton) return fail(automaton.error());
  return std::shared_ptr<const Grammar>(new Grammar(std::make_unique<grammar::Automaton>(std::move(*automaton))));
}

Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(std::string_view schema) {
  const auto gbnf = json_schema_to_gbnf(schema);
  if (!gbnf) return fail(gbnf.error());
  return parse(*gbnf);
}

TokenTrie::TokenTrie(std::span<const std::string> pieces) : size_(pieces.size()) {
  static std::atomic<uint64_t> last_id{0};
  id_ = ++last_id;
  constexpr size_t longest = UINT16_MAX;
  for (size_t i = 0; i < pieces.size(); i++)
    if (!pieces[i].empty() && pieces[i].size() <= longest) tokens_.push_back(static_cast<int32_t>(i));
  std::sort(tokens_.begin(), tokens_.end(), [&](int32_t a, int32_t b) { return pieces[static_cast<size_t>(a)] < pieces[static_cast<size_t>(b)]; });

  std::vector<uint32_t> path;   // the nodes of the piece before
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].after = static_cast<uint32_t>(nodes_.size());
  };
  for (size_t i = 0; i < tokens_.size(); i++) {
    const std::string_view piece = pieces[static_cast<size_t>(tokens_[i])];
    const size_t shared = static_cast<size_t>(std::mismatch(before.begin(), before.end(), piece.begin(), piece.end()).first - before.begin());
    leave(shared);
    for (size_t k = shared; k < piece.size(); k++) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(piece[k]), static_cast<uint16_t>(k + 1), 0, static_cast<uint32_t>(i), 0});
    }
    nodes_[path.back()].token_count++;
    max_depth_ = std::max(max_depth_, piece.size());
    before = piece;
  }
  leave(0);
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), machine_(std::make_shared<grammar::Machine>(grammar_->automaton())), set_(machine_->start()) {}

bool GrammarState::accepts(std::string_view bytes) const {
  uint32_t set = set_;
  for (char c : bytes) {
    set = machine_->step(set, static_cast<uint8_t>(c));
    if (set == grammar::Machine::kNothing) return false;
  }
  return true;
}

bool GrammarState::advance(std::string_view bytes) {
  uint32_t set = set_;
  for (char c : bytes) {
    set = machine_->step(set, static_cast<uint8_t>(c));
    if (set == grammar::Machine::kNothing) return false;
  }
  set_ = set;
  if (machine_->is_full()) machine_ = machine_->renewed(set_);
  return true;
}

bool GrammarState::is_complete() const { return machine_->complete(set_); }
bool GrammarState::is_finished() const { return machine_->finished(set_); }
std::span<const uint32_t> GrammarState::allowed_tokens(const TokenTrie& trie) const { return machine_->mask(set_, trie); }

}  // namespace gull::text
