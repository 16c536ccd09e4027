// Joins the texts of shaders: names of one text are kept apart from those of the others, and entry points become functions.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "base/log.h"
#include "dispatch/chain.h"
#include "dispatch/wgsl.h"

namespace gull::dispatch {
namespace {

using Names = std::map<std::string, std::string, std::less<>>;

constexpr std::string_view kBindingLine = "@group(0) @binding(", kWorkgroupLine = "var<workgroup> ";

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Names, numbers, comments to the line's end, and single characters.
std::vector<std::string_view> tokens_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text.substr(at, 2) == "//") {
      end = std::min(text.find('\n', at), text.size());
    } else if (starts_name(text[at])) {
      while (end < text.size() && in_name(text[end])) ++end;
    } else if (std::isdigit(static_cast<unsigned char>(text[at]))) {
      while (end < text.size() && (in_name(text[end]) || text[end] == '.')) ++end;
    }
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

/// Names that a text declares outside of functions.
std::set<std::string_view> declared(const std::vector<std::string_view>& tokens) {
  std::set<std::string_view> names;
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == "{") ++depth;
    if (tokens[i] == "}") --depth;
    const bool declares = tokens[i] == "fn" || tokens[i] == "struct" || tokens[i] == "alias" || tokens[i] == "const" || tokens[i] == "var";
    if (depth || !declares) continue;
    size_t at = i + 1;
    while (tokens[i] == "var" && at < tokens.size() && tokens[at] != ">") ++at;
    while (at < tokens.size() && !starts_name(tokens[at][0])) ++at;
    if (at < tokens.size()) names.insert(tokens[at]);
  }
  return names;
}

/// The text with other names; what follows a point is a member, and so is what stands before a colon within a structure.
std::string renamed(const std::vector<std::string_view>& tokens, const Names& names) {
  std::string out;
  bool in_struct = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == "struct") in_struct = true;
    if (tokens[i] == "}") in_struct = false;
    const bool member = (i > 0 && tokens[i - 1] == ".") || (in_struct && i + 1 < tokens.size() && tokens[i + 1] == ":");
    const auto it = member ? names.end() : names.find(tokens[i]);
    out += it == names.end() ? tokens[i] : std::string_view(it->second);
  }
  return out;
}

template <class F>
void for_lines(std::string_view text, const F& f) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    f(line);
  }
}

/// "var<…> name: type;"
Link::Binding declaration(std::string_view line) {
  const size_t name = line.find("> ") + 2, colon = line.find(": ", name), end = line.rfind(';');
  return {std::string(line.substr(name, colon - name)), std::string(line.substr(colon + 2, end - colon - 2))};
}

/// `array<element, a * b>`; of other forms none.
std::optional<Link::Array> array_of(const Link::Binding& variable) {
  std::string_view type = variable.type;
  const size_t comma = type.rfind(", ");
  if (!type.starts_with("array<") || comma == std::string_view::npos) return std::nullopt;
  Link::Array out{variable.name, std::string(type.substr(6, comma - 6)), 1};
  type.remove_prefix(comma + 2);
  while (!type.empty() && std::isdigit(static_cast<unsigned char>(type[0]))) {
    uint32_t number = 0;
    for (; !type.empty() && std::isdigit(static_cast<unsigned char>(type[0])); type.remove_prefix(1)) number = number * 10 + static_cast<uint32_t>(type[0] - '0');
    out.count *= number;
    while (!type.empty() && (type[0] == 'u' || type[0] == ' ' || type[0] == '*')) type.remove_prefix(1);
  }
  return type == ">" ? std::optional(out) : std::nullopt;
}

/// A shader's text, taken apart.
struct Taken {
  std::set<std::string> enables;          ///< whole lines
  std::string rest, parameters, body;
};

Result<Taken> take_apart(const Link& link) {
  Taken out;
  std::string text;
  for_lines(link.desc.wgsl, [&](std::string_view line) {
    if (line.starts_with("enable ") || line.starts_with("diagnostic(")) out.enables.insert(std::string(line) + "\n");
    else if (!line.starts_with(kWorkgroupLine) && !line.starts_with(kBindingLine)) text += std::string(line) + "\n";
  });
  const size_t entry = text.find("@compute"), open = text.find("fn main(", entry);
  if (entry == std::string::npos || open == std::string::npos)
    return fail_f(ErrorKind::Internal, "{}: cannot be joined: no entry point", link.desc.label);
  int depth = 1;
  size_t close = open + 8;
  for (; close < text.size() && depth; ++close) depth += text[close] == '(' ? 1 : text[close] == ')' ? -1 : 0;
  out.rest = text.substr(0, entry);
  out.parameters = text.substr(open + 8, close - 1 - (open + 8));
  out.body = text.substr(close);
  return out;
}

struct Parameters { std::string declared, given; };

/// What the entry point's parameters are in the joined shader; `builtins`: those that it has to have itself.
Result<Parameters> parameters(const Link& link, std::string_view text, uint32_t workgroups, std::set<std::string>& builtins) {
  Parameters out;
  while (!text.empty()) {
    const size_t open = text.find("@builtin("), close = text.find(')', open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    const std::string builtin(text.substr(open + 9, close - open - 9));
    const size_t comma = std::min(text.find(',', close), text.size());
    if (!out.declared.empty()) out.declared += ", ", out.given += ", ";
    out.declared += text.substr(close + 2, comma - close - 2);
    text.remove_prefix(comma);
    if (builtin == "workgroup_id") out.given += "vec3<u32>(at, 0u, 0u)";
    else if (builtin == "num_workgroups") out.given += fmt::format("vec3<u32>({}u, 1u, 1u)", workgroups);
    else if (builtin == "local_invocation_index") out.given += "t";
    else if (builtin.starts_with("subgroup_")) out.given += builtin, builtins.insert(builtin);
    else return fail_f(ErrorKind::Internal, "{}: cannot be joined: built-in {}", link.desc.label, builtin);
  }
  return out;
}

/// Workgroup memory that the steps share: of each kind of element the first array of every step, the second, and so on.
class SharedMemory {
 public:
  /// Where the arrays of a step lie.
  void place(const std::vector<Link::Array>& arrays, Names& names) {
    std::map<std::string, uint32_t> seen;
    for (const Link::Array& array : arrays) {
      std::string kind;
      for (char c : array.element)
        if (in_name(c)) kind += c;
      const std::string name = fmt::format("shared_{}_{}", kind, seen[array.element]++);
      names[array.name] = name;
      Link::Array& shared = arrays_.try_emplace(name, Link::Array{name, array.element, 0}).first->second;
      shared.count = std::max(shared.count, array.count);
    }
  }
  std::string declarations() const {
    std::string text;
    for (const auto& [name, array] : arrays_) text += fmt::format("var<workgroup> {}: array<{}, {}>;\n", name, array.element, array.count);
    return text;
  }
  uint32_t bytes() const {
    uint32_t bytes = 16;
    for (const auto& [name, array] : arrays_) bytes += (array.bytes() + 15) & ~15u;
    return bytes;
  }

 private:
  std::map<std::string, Link::Array> arrays_;
};

constexpr std::string_view kHelpers = R"(
var<workgroup> chain_ticket: u32;
fn put(at: u32, v: u32) { atomicStore(&chain[at], select(v, 0u, v == $NONE$)); }
fn look(at: u32) -> u32 { return $LOOK$; }
var<private> looks_at_most: u32;
fn settled(v: u32) -> u32 {
  if (v != $NONE$) { return v; }
  spare[1] = 1u;
  return 0x7fc00000u;
}
fn take(at: u32, looked: u32) -> u32 {
  var v = looked;
  for (var looks = 0u; looks < looks_at_most && v == $NONE$; looks++) { v = look(at); }
  return settled(v);
}
)";

/// An area's word 1 says that something was waited for in vain: from then on nothing is waited for any more.
constexpr std::string_view kMain = R"(  let failed = atomicLoad(&chain[1]);
  looks_at_most = select($MOST$, 0u, failed != 0u);
  if (t == 0u) { chain_ticket = atomicAdd(&chain[0], 1u); }
  let ticket = workgroupUniformLoad(&chain_ticket);
  for (var i = ticket * $T$ + t; i < $WORDS$; i += $ALL$ * $T$) { spare[i] = select(select($NONE$, 0u, i < $HEAD$), failed, i == 1u); }
)";

}  // namespace

std::string kept_line(const std::string& binding) { return fmt::format("const {}_kept = true;", binding); }

std::shared_ptr<const Link> make_link(std::string key, gpu::PipelineDesc desc, Takes takes, std::vector<size_t> reads) {
  auto link = std::make_shared<Link>();
  bool known = true;
  for_lines(desc.wgsl, [&](std::string_view line) {
    if (line.starts_with(kBindingLine)) link->bindings.push_back(declaration(line));
    if (!line.starts_with(kWorkgroupLine)) return;
    if (auto array = array_of(declaration(line))) link->arrays.push_back(std::move(*array));
    else known = false;
  });
  for (Link::Binding& binding : link->bindings) binding.may_give_up = desc.wgsl.find(kept_line(binding.name)) != std::string::npos;
  const size_t at = desc.wgsl.find("@workgroup_size(");
  if (!known || link->bindings.size() != desc.bindings.size() || at == std::string::npos) return nullptr;
  link->workgroup_size = desc.wgsl.substr(at, desc.wgsl.find(')', at) + 1 - at);
  link->threads = static_cast<uint32_t>(std::strtoul(link->workgroup_size.c_str() + 16, nullptr, 10));
  link->key = std::move(key), link->desc = std::move(desc), link->takes = takes, link->reads = std::move(reads);
  return link;
}

Waiting waiting(const gpu::Caps& caps) {
  return caps.software ? Waiting{true, 1'000'000'000} : Waiting{};
}

gpu::PipelineDesc alone(const Link& link) {
  gpu::PipelineDesc desc = link.desc;
  if (desc.wgsl.find("put(") != std::string::npos) desc.wgsl += "fn put(at: u32, v: u32) {}\n";
  return desc;
}

uint32_t joined_workgroup_bytes(const std::vector<Joined>& steps) {
  SharedMemory shared;
  Names names;
  for (const Joined& step : steps) shared.place(step.link->arrays, names);
  return shared.bytes();
}

Result<std::string> join(const std::vector<Joined>& steps, const std::string& declarations, uint32_t words, const Waiting& how) {
  std::set<std::string> enables, builtins;
  std::string functions, choose;
  SharedMemory shared;
  uint32_t first = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Joined& step = steps[i];
    auto taken = take_apart(*step.link);
    if (!taken) return fail(taken.error());
    enables.insert(taken->enables.begin(), taken->enables.end());
    auto arguments = parameters(*step.link, taken->parameters, step.workgroups, builtins);
    if (!arguments) return fail(arguments.error());
    std::string text = taken->rest + fmt::format("fn entry({})", arguments->declared) + taken->body;
    for (const std::string& name : step.given_up) {
      const std::string kept = kept_line(name);
      text.replace(text.find(kept), kept.size(), fmt::format("const {}_kept = false;", name));
    }
    const auto tokens = tokens_of(text);
    Names names;
    for (std::string_view name : declared(tokens)) names[std::string(name)] = fmt::format("s{}_{}", i, name);
    for (size_t b = 0; b < step.names.size(); ++b) names[step.link->bindings[b].name] = step.names[b];
    shared.place(step.link->arrays, names);
    functions += renamed(tokens, names);
    choose += fmt::format("  {}if (ticket < {}u) {{\n    let at = ticket - {}u;\n    s{}_entry({});\n  }}\n", i ? "else " : "", first + step.workgroups, first, i, arguments->given);
    first += step.workgroups;
  }
  const std::string none = fmt::format("{:#x}u", kUnwritten);
  std::string text;
  for (const std::string& line : enables) text += line;
  text += declarations + shared.declarations() + functions +
          expand(kHelpers, {{"NONE", none}, {"LOOK", how.writes ? "atomicOr(&chain[at], 0u)" : "atomicLoad(&chain[at])"}});
  text += "@compute " + steps[0].link->workgroup_size + "\nfn main(@builtin(local_invocation_index) t: u32";
  for (const std::string& name : builtins) text += fmt::format(", @builtin({0}) {0}: u32", name);
  return text + ") {\n" + expand(kMain, {{"T", steps[0].link->threads}, {"WORDS", words}, {"ALL", first}, {"NONE", none}, {"HEAD", kAreaHead}, {"MOST", how.most}}) + choose + "}\n";
}

}  // namespace gull::dispatch
