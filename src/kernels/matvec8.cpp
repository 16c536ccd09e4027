#include "kernels/matvec8.h"

#include <algorithm>
#include <bit>

#include "kernels/chain_text.h"
#include "kernels/dot8/dot8.h"
#include "kernels/kv.h"
#include "kernels/tuning.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// Whether 32 threads can reduce their sums by shuffles.
bool shuffles_rows(const gpu::Caps& caps) { return caps.subgroups && caps.linear_subgroups && caps.subgroup_min >= 32; }

/// `threads` a workgroup; `per_row` of them share a row along k, each works on `rows` rows at a time.
struct Shape8 { uint32_t threads, per_row, rows; };

/// Measured on an H200 over the shapes of 135m, 1b and 8b models (bench/README.md): two rows at a time hide the latency of memory
/// and still leave registers for many threads; a gated pair is four rows, so its workgroups are smaller; short rows, or few of
/// them, are over sooner with one row at a time. Links of a chain all have as many threads.
Shape8 shape_for(const gpu::Caps& caps, uint32_t k, uint64_t rows, bool gated, const Choices& choices) {
  if (const Tuning::Split& split = gated ? choices.tuning.gated8 : choices.tuning.matvec8; split.threads && (!choices.chain || split.threads == kChainThreads)) {
    const RowShape s = fitted(split, k / 64);
    return {s.threads, s.per_row, s.rows};
  }
  if (choices.few_threads) return {32, 4, 4};   // 40 % less processor time a token than {256, 16, 2} with llvmpipe
  if (choices.chain) return k < 2048 ? Shape8{kChainThreads, 16, 2} : Shape8{kChainThreads, 32, 4};
  if (shuffles_rows(caps) && caps.max_invocations >= 512 && caps.max_workgroup_x >= 512) {
    if (k <= 1024 || (k <= 2048 && rows < 2048)) return {512, 16, 1};
    return gated ? Shape8{256, 16, 2} : Shape8{512, 32, 2};
  }
  const uint32_t per_row = std::clamp(std::bit_ceil(k / 64), 8u, 32u);
  return {256, per_row, std::max(32 / (256 / per_row), 1u)};
}

struct Segment8 {
  const weights::Tensor* tensor;
  std::shared_ptr<weights::Tile> tile;
  weights::TensorRef bias;
  uint32_t y_at;
};

/// Writes the text of one dispatch. Shape: 256 threads; 32 rows (or a multiple) a workgroup, so that a workgroup owns
/// whole blocks of 32 results and can quantise them. Activations: quantised once a workgroup into workgroup memory, or read
/// as they are.
class Writer8 {
 public:
  Writer8(const Matvec8& m, const gpu::Caps& caps, const Choices& choices) : m_(m), caps_(caps) {
    for (const Projection& p : m.base.outputs) {
      const auto tile = only_tile(p);
      segments_.push_back({p.weight.get(), tile, p.bias, p.y.offset + static_cast<uint32_t>(tile->first_row)});
    }
    k_ = static_cast<uint32_t>(segments_[0].tensor->k);
    uint64_t rows = 0;
    for (const Segment8& s : segments_) rows += s.tile->rows;
    shape_ = shape_for(caps, k_, rows, m_.base.gated, choices);
    chained_ = choices.chain;
  }

  uint32_t groups() const { return shape_.threads / shape_.per_row; }
  uint32_t rows_per_workgroup() const { return groups() * shape_.rows; }
  uint32_t workgroups(const Segment8& s) const {
    return static_cast<uint32_t>((s.tile->rows + rows_per_workgroup() - 1) / rows_per_workgroup());
  }
  uint32_t total_workgroups() const {
    if (m_.base.gated) return workgroups(segments_[0]);
    uint32_t total = 0;
    for (const Segment8& s : segments_) total += workgroups(s);
    return total;
  }
  /// Subgroup shuffles reduce within a row's threads where a subgroup holds them all.
  bool shuffles() const { return shuffles_rows(caps_); }

  std::string key() const {
    const Matvec& b = m_.base;
    std::string key = fmt::format("matvec8:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}:{}", shape_.threads, bool(m_.squares), bool(m_.next_norm), shape_.per_row, shape_.rows, b.add, b.gated, static_cast<int>(b.activation),
                                  bool(b.norm), b.norm ? b.norm.eps : 0.0f, b.x.offset, bool(m_.x8), bool(m_.y8));
    if (chained_) key += fmt::format("/chain:{}:{}:{}:{}", m_.taken.x8, m_.taken.y, m_.put.x8, m_.put.y);
    if (m_.rope) key += fmt::format("/rope:{}:{}:{}:{}:{}:{}", m_.kv->head_dim, m_.kv->heads, m_.rope->heads, m_.rope->rope.neox,
                                    static_cast<int>(m_.kv->type), m_.rope->rope.pairs);
    for (const Segment8& s : segments_)
      key += fmt::format("/{}:{}:{}:{}:{}", static_cast<int>(s.tensor->type), k_, s.tile->rows, s.y_at, s.bias ? s.tile->first_row + 1 : 0);
    return key;
  }

  /// For profiles: "matvec8 q4_k 4096 -> 6144".
  std::string label() const {
    uint64_t rows = 0;
    for (const Segment8& s : segments_) rows += s.tile->rows;
    return fmt::format("matvec8 {} {} -> {}{}", gguf::type_traits(segments_[0].tensor->type)->name, k_, rows, m_.rope ? " rope" : m_.base.gated ? " gated" : "");
  }

  std::string letters() const {
    std::string letters = m_.x8 ? "" : m_.base.norm ? "rr" : "r";
    if (m_.x8 && !m_.taken.x8) letters += 'r';
    if (m_.squares && !m_.taken.x8) letters += 'r';
    letters += std::string(segments_.size(), 'r') + 'w';
    for (const Segment8& s : segments_)
      if (s.bias) letters += 'r';
    if (m_.y8) letters += 'w';
    if (m_.next_norm) letters += "rw";
    if (m_.rope) letters += "wwru";
    return letters;
  }

  std::vector<dispatch::Operand> operands(const gpu::BufferRef& state) const {
    std::vector<dispatch::Operand> out;
    if (!m_.x8) out.push_back(m_.base.x.buffer);
    else if (!m_.taken.x8) out.push_back(m_.x8);
    if (m_.squares && !m_.taken.x8) out.push_back(m_.squares);
    if (!m_.x8 && m_.base.norm) out.push_back(vector_operand(m_.base.norm.weight));
    for (const Segment8& s : segments_) out.push_back(s.tile);
    out.push_back(m_.base.outputs[0].y.buffer);
    for (const Segment8& s : segments_)
      if (s.bias) out.push_back(vector_operand(s.bias));
    if (m_.y8) out.push_back(m_.y8);
    if (m_.next_norm) out.push_back(vector_operand(m_.next_norm)), out.push_back(m_.y_squares);
    if (m_.rope) {
      out.push_back(m_.kv->k), out.push_back(m_.kv->v);
      out.push_back(m_.rope->rope.table), out.push_back(state);
    }
    return out;
  }

  /// Which operands it reads that other steps may write: the input, and y where it is added to.
  std::vector<size_t> reads() const {
    std::vector<size_t> out;
    size_t inputs = 0;
    if (!m_.taken.x8) inputs = 1 + (m_.squares || (!m_.x8 && m_.base.norm) ? 1 : 0);
    for (size_t i = 0; i < inputs; ++i) out.push_back(i);
    if (m_.base.add && !m_.taken.y) out.push_back(inputs + segments_.size());
    return out;
  }

  Result<std::string> source() const {
    std::string text = preamble(caps_, false, shuffles()) + declarations() + std::string(unit8_structs());
    for (size_t i = 0; i < segments_.size(); ++i) {
      auto dot = dot8(segments_[i].tensor->layout, std::to_string(i));
      if (!dot) return fail(dot.error());
      text += *dot;
    }
    if (m_.base.gated) text += activation_helpers();
    text += shared_memory();
    text += expand(R"(@compute @workgroup_size($T$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let wg = wid.x + wid.y * nw.x;
  let lane = t % $TPR$;
  let group = t / $TPR$;
  var norm = 1.0;
)", {{"T", shape_.threads}, {"TPR", shape_.per_row}});
    if (m_.squares && !one_subgroup()) text += "  var squares = 0.0;\n" + (m_.taken.x8 ? "" : squares_text());
    if (!m_.x8) text += quantise_text();
    text += "  var v = 0.0;\n";
    if (m_.base.gated) {
      text += body({0, 1}, 0);
    } else {
      uint32_t first = 0;
      for (size_t i = 0; i < segments_.size(); ++i) {
        const uint32_t n = workgroups(segments_[i]);
        text += fmt::format("  {}if (wg < {}u) {{\n", i ? "else " : "", first + n) + body({i}, first) + "  }\n";
        first += n;
      }
    }
    return text + "}\n";
  }

 private:
  std::string declarations() const {
    std::string text;
    int next = 0;
    const auto bind = [&](const char* access, const std::string& name, const char* type) {
      text += fmt::format("@group(0) @binding({}) var<{}> {}: {};\n", next++, access, name, type);
    };
    if (!m_.x8) bind("storage, read", "x", "array<vec4<f32>>");
    else if (!m_.taken.x8) bind("storage, read", "X8", "array<vec4<u32>>");
    if (m_.squares && !m_.taken.x8) bind("storage, read", "Sq", "array<f32>");
    if (!m_.x8 && m_.base.norm) bind("storage, read", "nw_", "array<vec4<f32>>");
    for (size_t i = 0; i < segments_.size(); ++i) bind("storage, read", fmt::format("W{}", i), "array<vec4<u32>>");
    bind("storage, read_write", "y", "array<f32>");
    for (size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].bias) bind("storage, read", fmt::format("b{}", i), "array<f32>");
    if (m_.y8) bind("storage, read_write", "Y8", "array<u32>");
    if (m_.next_norm) bind("storage, read", "nn", "array<f32>"), bind("storage, read_write", "Ysq", "array<f32>");
    if (m_.rope) {
      const char* element = m_.kv->type == KvType::F32 ? "array<f32>" : "array<u32>";
      bind("storage, read_write", "K", element);
      bind("storage, read_write", "V", element);
      bind("storage, read", "table", "array<vec2<f32>>");
      text = std::string(kStateStruct) + text;
      bind("uniform", "S", "State");
    }
    if (chained_) text += dispatch::kept_line("y") + "\n" + (m_.y8 ? dispatch::kept_line("Y8") + "\n" : "") + (m_.next_norm ? dispatch::kept_line("Ysq") + "\n" : "");
    return text;
  }
  /// A store that is left to a later step of the chain, if there is one.
  std::string kept(const std::string& binding, const std::string& store) const {
    return chained_ ? fmt::format("if ({}_kept) {{ {} }}", binding, store) : store;
  }

  std::string shared_memory() const {
    std::string text;
    if (!m_.x8 || m_.taken.x8) text += fmt::format("var<workgroup> X8: array<vec4<u32>, {}>;\n", k_ / 32 * 3);
    if (m_.base.norm) text += fmt::format("var<workgroup> sq: array<f32, {}>;\n", shape_.threads);
    if (m_.next_norm) text += fmt::format("var<workgroup> resq: array<f32, {}>;\n", rows_per_workgroup());
    if (!shuffles()) text += fmt::format("var<workgroup> part: array<f32, {}>;\n", rows_per_workgroup() * (shape_.per_row + 1) * results());
    return text + fmt::format("var<workgroup> res: array<f32, {}>;\n", rows_per_workgroup() * results() * parts());
  }
  /// Subgroups that share a row: each leaves its part of the sum.
  uint32_t parts() const { return shuffles() ? std::max(shape_.per_row / 32, 1u) : 1; }
  std::string sum_of(const std::string& row) const {
    std::string sum = "(";
    for (uint32_t i = 0; i < parts(); ++i) sum += fmt::format("{}res[({}) * {}u + {}u]", i ? " + " : "", row, parts(), i);
    return sum + ")";
  }
  uint32_t results() const { return m_.base.gated ? 2 : 1; }

  /// Blocks of 32 activations (times the norm's weights) become bytes; Σx² is gathered on the way, and 1/rms multiplies
  /// the results at the end.
  std::string quantise_text() const {
    const bool norm = bool(m_.base.norm);
    std::string load, amax, pack, squares;
    for (int i = 0; i < 8; ++i) {
      load += fmt::format("    var v{0} = x[{1}u + b * 8u + {0}u];\n", i, m_.base.x.offset / 4);
      if (norm) squares += fmt::format("    ss += dot(v{0}, v{0}); v{0} = v{0} * nw_[b * 8u + {0}u];\n", i);
      amax += fmt::format("    am = max(am, bitcast<vec4<u32>>(abs(v{})));\n", i);
      pack += fmt::format("    let q{0} = vec4<i32>(round(v{0} * id)); s{1} += q{0};\n", i, i / 4);
    }
    const auto word = [](int i) { return fmt::format("pk(q{})", i); };
    std::string text = "  var ss = 0.0;\n" + expand("  for (var b = t; b < $N$; b += $T$) {\n", {{"N", k_ / 32}, {"T", shape_.threads}}) + load + squares +
                       "    var am = vec4<u32>(0u);\n" + amax +
                       "    let m = bitcast<f32>(max(max(am.x, am.y), max(am.z, am.w)));\n"
                       "    let d = m / 127.0;\n    let id = select(0.0, 127.0 / m, m > 1e-30);\n"
                       "    var s0 = vec4<i32>(0); var s1 = vec4<i32>(0);\n" + pack +
                       fmt::format("    let at = {}; let n = {}u;\n", place8("b", k_ / 32), k_ / 32) +
                       "    X8[at] = vec4<u32>(" + word(0) + ", " + word(1) + ", " + word(2) + ", " + word(3) + ");\n" +
                       "    X8[n + at] = vec4<u32>(" + word(4) + ", " + word(5) + ", " + word(6) + ", " + word(7) + ");\n" +
                       "    X8[2u * n + at] = bitcast<vec4<u32>>(vec4<f32>(d, d * f32(s0.x + s0.y + s0.z + s0.w), d * f32(s1.x + s1.y + s1.z + s1.w), 0.0));\n  }\n";
    if (!norm) return text + "  workgroupBarrier();\n";
    return text + expand(R"(  sq[t] = ss;
  workgroupBarrier();
  for (var k = $T$ / 2u; k > 0u; k = k / 2u) {
    if (t < k) { sq[t] += sq[t + k]; }
    workgroupBarrier();
  }
  norm = inverseSqrt(sq[0] / f32($K$) + $EPS$);
)", {{"T", shape_.threads}, {"K", k_}, {"EPS", m_.base.norm.eps}});
  }

  /// Which row of the segment slot `s` of this workgroup holds: neox heads pair rows half a head apart, so a workgroup
  /// takes 16 rows of each half.
  std::string row_of(const std::string& slot, size_t segment) const {
    if (!m_.rope || segment == 2 || !m_.rope->rope.neox) return fmt::format("(r0 + {})", slot);
    const uint32_t d = m_.kv->head_dim;
    return fmt::format("((r0 / {0}u) * {0}u + (r0 % {0}u) / 2u + ({1} & 15u) + select(0u, {2}u, ({1} & 16u) != 0u))", d, slot, d / 2);
  }

  /// Loads come first, those of the weights before all others, and nothing waits for one before all are under way: a dispatch
  /// of a token is short, and most of it would be the latency of memory, as often as a load has to wait for another's use.
  std::string body(std::vector<size_t> which, uint32_t first_workgroup) const {
    const uint32_t g = groups(), units = k_ / 64;
    const uint32_t rows = static_cast<uint32_t>(segments_[which[0]].tile->rows);
    std::string text = expand("    let r0 = (wg - $FIRST$) * $RPW$;\n    let u0 = min(lane, $LAST$);\n",
                              {{"FIRST", first_workgroup}, {"RPW", rows_per_workgroup()}, {"LAST", units - 1}});
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        text += fmt::format("    var a{0}_{1} = 0.0;\n    let p{0}_{1} = min({2}, {3}u) * {4}u;\n{5}", w, r,
                            row_of(fmt::format("(group + {}u)", r * g), w), rows - 1, segments_[w].tensor->layout.row_bytes / 16,
                            early() || units <= shape_.per_row ? fmt::format("    var n{0}_{1} = l8{0}(p{0}_{1}, u0);\n", w, r) : "");
    text += constant_loads(which[0]);
    if (m_.taken.x8) text += taken_text(which);
    if (units <= shape_.per_row) text += activation_loads(which, "u0");
    return text + early_loads(which[0]) + product_text(which) + reduce_text(which) + epilogue_text(which);
  }

  std::string squares_text() const {
    return expand("  for (var i = t; i < $N$; i += $T$) { squares += $SQ$; }\n", {{"N", k_ / 32}, {"T", shape_.threads}, {"SQ", square("i")}});
  }
  std::string square(const std::string& i) const {
    return m_.taken.x8 ? fmt::format("bitcast<f32>(X8[{}u + {}].w)", k_ / 16, i) : "Sq[" + i + "]";   // in whatever order
  }
  /// The activations that an earlier step of the chain puts, into workgroup memory. The weights are on their way meanwhile.
  std::string taken_text(const std::vector<size_t>& which) const {
    std::string arrived = "0u";
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        for (const char* part : {"a.x", "b.x", "e.x"}) arrived += fmt::format(" ^ n{}_{}.{}", w, r, part);
    if (m_.next_norm) arrived += " ^ bitcast<u32>(next_norm)";
    std::string text = "    let arrived = " + arrived + ";\n" + take_all(k_ / 32 * 12, shape_.threads, "arrived", [&](const std::string& i) { return fmt::format("{}u + {}", m_.taken.x8, i); },
                                [](const std::string& i, const std::string& v) { return fmt::format("X8[{0} >> 2u][{0} & 3u] = {1};", i, v); });
    text += "    workgroupBarrier();\n";
    return m_.squares && !one_subgroup() ? text + squares_text() : text;
  }

  /// What a unit is multiplied with. Tensors of one type read the same.
  std::string activation_loads(const std::vector<size_t>& which, const char* unit) const {
    std::string text;
    for (size_t w : which) {
      if (w != which[0] && source_of(which, w) != w) continue;
      text += expand("      let ab$W$ = qi$W$($U$);\n"
                     "      let s$W$ = X8[ab$W$.x]; let t$W$ = X8[$N$ + ab$W$.x]; let sa$W$ = bitcast<vec4<f32>>(X8[2u * $N$ + ab$W$.x]);\n"
                     "      let v$W$ = X8[ab$W$.y]; let w$W$ = X8[$N$ + ab$W$.y]; let sb$W$ = bitcast<vec4<f32>>(X8[2u * $N$ + ab$W$.y]);\n",
                     {{"N", k_ / 32}, {"W", std::to_string(w)}, {"U", unit}});
    }
    return text;
  }
  size_t source_of(const std::vector<size_t>& which, size_t w) const {
    return segments_[w].tensor->type == segments_[which[0]].tensor->type ? which[0] : w;
  }

  /// Whether the next unit is on its way from memory while one is multiplied. The four rows of a gated pair are enough by
  /// themselves, and would take too many registers (on an H200, 8 % of an 8b model's tokens a second).
  bool ahead() const { return k_ / 64 > shape_.per_row && !m_.base.gated; }

  /// Whether the first units are asked for before the loop: in a chain before the activations are there.
  bool early() const { return ahead() || m_.taken.x8; }

  /// The units of each row that are this thread's.
  std::string product_text(const std::vector<size_t>& which) const {
    const uint32_t units = k_ / 64;
    const bool several = units > shape_.per_row;
    std::string text = expand("    for (var u = lane; u < $N$; u += $TPR$) {\n", {{"N", units}, {"TPR", shape_.per_row}});
    if (several) text += activation_loads(which, "u");
    if (several && early()) text += expand("      let next = min(u + $TPR$, $LAST$);\n", {{"TPR", shape_.per_row}, {"LAST", units - 1}});
    for (size_t w : which) {
      const size_t x = source_of(which, w);
      for (uint32_t r = 0; r < shape_.rows; ++r) {
        const bool loaded = early() || !several;
        text += loaded ? fmt::format("      let c{0}_{1} = n{0}_{1};\n", w, r) : fmt::format("      let c{0}_{1} = l8{0}(p{0}_{1}, u);\n", w, r);
        if (ahead()) text += fmt::format("      n{0}_{1} = l8{0}(p{0}_{1}, next);\n", w, r);
        text += fmt::format("      a{0}_{1} += qm{0}(c{0}_{1}, u, s{2}, t{2}, v{2}, w{2}, sa{2}, sb{2});\n", w, r, x);
        if (several && early() && !ahead()) text += fmt::format("      n{0}_{1} = l8{0}(p{0}_{1}, next);\n", w, r);
      }
    }
    return text + "    }\n";
  }

  std::string reduce_text(const std::vector<size_t>& which) const {
    std::string text;
    if (m_.squares && one_subgroup()) {
    } else if (m_.squares && shuffles())
      text += "    for (var k = 16u; k > 0u; k = k / 2u) { squares += subgroupShuffleXor(squares, k); }\n    if (t % 32u == 0u) { sq[t / 32u] = squares; }\n";
    else if (m_.squares)
      text += "    sq[t] = squares;\n";
    const uint32_t g = groups(), stride = shape_.per_row + 1;
    if (shuffles()) {
      for (size_t i = 0; i < which.size(); ++i)
        for (uint32_t r = 0; r < shape_.rows; ++r) {
          for (uint32_t step = std::min(shape_.per_row, 32u) / 2; step > 0; step /= 2)
            text += fmt::format("    a{0}_{1} += subgroupShuffleXor(a{0}_{1}, {2}u);\n", which[i], r, step);
          text += fmt::format("    if (lane % 32u == 0u) {{ res[({}u + group) * {}u + lane / 32u] = a{}_{}; }}\n", i * rows_per_workgroup() + r * g, parts(), which[i], r);
        }
      return text + "    workgroupBarrier();\n";
    }
    for (size_t i = 0; i < which.size(); ++i)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        text += fmt::format("    part[({}u + group) * {}u + lane] = a{}_{};\n", i * rows_per_workgroup() + r * g, stride, which[i], r);
    text += "    workgroupBarrier();\n";
    text += expand("    for (var o = t; o < $N$; o += $T$) { var s = 0.0; for (var i = 0u; i < $TPR$; i++) { s += part[o * $ST$ + i]; } res[o] = s; }\n    workgroupBarrier();\n",
                   {{"N", rows_per_workgroup() * static_cast<uint32_t>(which.size())}, {"TPR", shape_.per_row}, {"ST", stride}, {"T", shape_.threads}});
    return text;
  }

  /// What the epilogue needs from memory is asked for before the weights, so that it has arrived by then.
  std::string constant_loads(size_t w) const {
    const Segment8& s = segments_[w];
    std::string text = fmt::format("    let mine = min({}, {}u);\n", row_of(fmt::format("(t % {}u)", rows_per_workgroup()), w), s.tile->rows - 1);
    if (s.bias) text += fmt::format("    let bias = b{}[{}u + mine];\n", w, s.tile->first_row);
    if (m_.next_norm) text += "    let next_norm = nn[mine];\n";
    if (m_.rope && w != 2)
      text += m_.rope->rope.neox ? fmt::format("    let cs = table[S.pos * {}u + mine % {}u];\n", m_.rope->rope.pairs, m_.kv->head_dim / 2)
                                 : fmt::format("    let cs = table[S.pos * {}u + mine % {}u / 2u];\n", m_.rope->rope.pairs, m_.kv->head_dim);
    return text;
  }
  std::string early_loads(size_t w) const {
    const Segment8& s = segments_[w];
    std::string text;
    if (m_.base.add && !m_.taken.y) text += fmt::format("    let before = y[{}u + mine];\n", s.y_at);
    if (m_.base.add && m_.taken.y) text += fmt::format("    let before_seen = look({}u + mine);\n", m_.taken.y);
    for (uint32_t i = 0; m_.squares && one_subgroup() && i < k_ / 32; i += 32) {
      text += fmt::format("    var q{0} = 0.0;\n    if (t < {1}u) {{ q{0} = {2}; }}\n", i / 32, std::min(32u, k_ / 32 - i), square(fmt::format("t + {}u", i)));
    }
    return text;
  }

  std::string epilogue_text(const std::vector<size_t>& which) const {
    std::string text;
    if (m_.squares && one_subgroup()) return text + one_subgroup_norm() + epilogue_rows(which);
    if (m_.squares)
      text += expand("    var all = 0.0;\n    for (var i = 0u; i < $N$; i++) { all += sq[i]; }\n    norm = inverseSqrt(all / f32($K$) + $EPS$);\n",
                     {{"N", shuffles() ? shape_.threads / 32 : std::min(shape_.threads, k_ / 32)}, {"K", k_}, {"EPS", m_.base.norm.eps}});
    return text + epilogue_rows(which);
  }

  /// Only the 32 threads that finish rows need the norm.
  std::string one_subgroup_norm() const {
    std::string sum = "q0";
    for (uint32_t i = 1; i < (k_ / 32 + 31) / 32; ++i) sum += fmt::format(" + q{}", i);
    return expand("    if (t < 32u) { norm = inverseSqrt(subgroupAdd(" + sum + ") / f32($K$) + $EPS$); }\n", {{"K", k_}, {"EPS", m_.base.norm.eps}});
  }

  std::string epilogue_rows(const std::vector<size_t>& which) const {
    const size_t w = which[0];
    const Segment8& s = segments_[w];
    std::string text = expand("    if (t < $RPW$) {\n", {{"RPW", rows_per_workgroup()}});
    text += fmt::format("      v = {} * norm{};\n", sum_of("t"), s.bias ? " + bias" : "");
    if (m_.base.gated)
      text += fmt::format("      v = {} * ({} * norm);\n", activation_call(m_.base.activation, "v"), sum_of(fmt::format("t + {}u", rows_per_workgroup())));
    if (m_.base.add) text += m_.taken.y ? fmt::format("      v += bitcast<f32>(take({}u + mine, before_seen));\n", m_.taken.y) : "      v += before;\n";
    if (m_.rope) return text + (one_subgroup() ? rope_in_subgroup(w) + "    }\n" : "      res[t] = v;\n    }\n    workgroupBarrier();\n" + rope_text(w));
    text += fmt::format("      if (r0 + t < {}u) {{ {} {}}}\n", s.tile->rows, kept("y", fmt::format("y[{}u + r0 + t] = v;", s.y_at)), put_y("r0 + t", "v"));
    if (m_.y8 && one_subgroup()) return text + quantise_in_subgroup() + "    }\n";
    if (m_.next_norm) text += "      resq[t] = v * v;\n      v = v * next_norm;\n";
    if (m_.y8) text += "      res[t] = v;\n";
    text += "    }\n";
    if (m_.y8) text += quantise_result();
    return text;
  }

  /// The 32 rows of a workgroup are 32 lanes of one subgroup: no workgroup memory and no barrier is needed any more.
  bool one_subgroup() const { return shuffles() && rows_per_workgroup() == 32; }

  std::string quantise_in_subgroup() const {
    return std::string(m_.next_norm ? "      let square = subgroupAdd(v * v);\n      v = v * next_norm;\n" : "") + R"(      let peak = bitcast<f32>(subgroupMax(bitcast<u32>(abs(v))));
      let q = i32(round(v * select(0.0, 127.0 / peak, peak > 1e-30)));
      let s0 = subgroupAdd(select(0, q, t < 16u));
      let s1 = subgroupAdd(select(q, 0, t < 16u));
      var word = (u32(q) & 0xffu) << ((t & 3u) * 8u);
      word |= subgroupShuffleXor(word, 1u);
      word |= subgroupShuffleXor(word, 2u);
      let at = )" + place8("r0 / 32u", blocks_out()) + expand(R"( * 4u;
      if ((t & 3u) == 0u) { $WORD$ }
      if (t == 1u) {
        let d = peak / 127.0;
        $D$
        $S0$
        $S1$
)", {{"WORD", write8(expand("t / 16u * 4u * $N$ + at + t / 4u % 4u", {{"N", blocks_out()}}), "word")}, {"D", write8(scale_at(0), "bitcast<u32>(d)")},
     {"S0", write8(scale_at(1), "bitcast<u32>(d * f32(s0))")}, {"S1", write8(scale_at(2), "bitcast<u32>(d * f32(s1))")}}) +
           put8(scale_at(3), m_.next_norm ? "bitcast<u32>(square)" : "0u") + (m_.next_norm ? "        " + kept("Ysq", "Ysq[r0 / 32u] = square;") + "\n" : "") + "      }\n";
  }

  /// Word `i` of y8's block `at`: after the planes of bytes, (d, s0, s1, 0).
  std::string scale_at(uint32_t i) const { return fmt::format("{}u + at + {}u", 8 * blocks_out(), i); }
  std::string put8(const std::string& at, const std::string& word) const { return m_.put.x8 ? fmt::format(" put({}u + {}, {});\n", m_.put.x8, at, word) : ""; }
  std::string write8(const std::string& at, const std::string& word) const { return kept("Y8", fmt::format("Y8[{}] = {};", at, word)) + put8(at, word); }
  std::string put_y(const std::string& row, const std::string& v) const { return m_.put.y ? fmt::format("put({}u + {}, bitcast<u32>({})); ", m_.put.y, row, v) : ""; }
  /// Rows of q, k or v, as attention reads them: keys and values rounded as the cache rounds them.
  std::string put_head(size_t w, const std::string& row, std::string v) const {
    if (!m_.put.y) return "";
    if (w && m_.kv->type == KvType::F16) v = fmt::format("unpack2x16float(pack2x16float(vec2<f32>({}, 0.0))).x", v);
    return fmt::format(" put({}u + {}, bitcast<u32>({}));\n", m_.put.y + segments_[w].y_at, row, v);
  }

  /// Lane pairs rotate; then neighbouring lanes hold neighbouring rows, which the cache stores two a word.
  std::string rope_in_subgroup(size_t w) const {
    const bool neox = m_.rope->rope.neox && w != 2;
    const uint32_t rows = static_cast<uint32_t>(segments_[w].tile->rows);
    std::string text;
    if (w != 2)
      text += fmt::format("      let other = subgroupShuffleXor(v, {0}u);\n      v = select(v * cs.x - other * cs.y, other * cs.y + v * cs.x, (t & {0}u) != 0u);\n", neox ? 16 : 1);
    if (w == 0) return text + "      " + kept("y", fmt::format("y[{}u + mine] = v;", segments_[0].y_at)) + put_head(0, "mine", "v") + "\n";
    const char* cache = w == 1 ? "K" : "V";
    if (m_.kv->type == KvType::F32) return text + fmt::format("      {}[S.pos * {}u + mine] = v;{}\n", cache, rows, put_head(w, "mine", "v"));
    return text + fmt::format("      let small = clamp(v, -65504.0, 65504.0);\n      let pair = subgroupShuffleXor(small, 1u);\n"
                              "      if ((t & 1u) == 0u) {{ {}[(S.pos * {}u + mine) / 2u] = pack2x16float(vec2<f32>(small, pair)); }}\n{}", cache, rows,
                              put_head(w, "mine", "small"));
  }

  uint32_t blocks_out() const { return static_cast<uint32_t>(segments_[0].tile->rows) / 32; }

  /// Rows of this workgroup as blocks of 32, one word of four bytes a thread.
  std::string quantise_result() const {
    return expand(R"(    workgroupBarrier();
    if (t < $WORDS$ && r0 + t * 4u < $ROWS$) {
      let b = t / 8u;
      var top = 0u;
      var s0 = 0.0;
      for (var i = 0u; i < 32u; i++) { top = max(top, bitcast<u32>(abs(res[b * 32u + i]))); }
      let m = bitcast<f32>(top);
      let id = select(0.0, 127.0 / m, m > 1e-30);
      let at = $AT$ * 4u;
      let word = pk(vec4<i32>(round(vec4<f32>(res[t * 4u], res[t * 4u + 1u], res[t * 4u + 2u], res[t * 4u + 3u]) * id)));
      $WORD$
      if (t % 8u < 2u) {
        for (var i = 0u; i < 16u; i++) { s0 += round(res[b * 32u + (t % 8u) * 16u + i] * id); }
        $S01$
      }
      if (t % 8u == 2u) { $D$ $LAST$ }
      $SQUARES$
    }
)", {{"AT", place8("(r0 / 32u + b)", blocks_out())}, {"WORD", write8(expand("t % 8u / 4u * 4u * $N$ + at + t % 4u", {{"N", blocks_out()}}), "word")},
     {"S01", write8(scale_at(1) + " + t % 8u", "bitcast<u32>(s0 * m / 127.0)")}, {"D", write8(scale_at(0), "bitcast<u32>(m / 127.0)")}, {"LAST", m_.next_norm ? "" : put8(scale_at(3), "0u")},
     {"SQUARES", m_.next_norm ? "if (t % 8u == 3u) { var q = 0.0; for (var i = 0u; i < 32u; i++) { q += resq[b * 32u + i]; } " + kept("Ysq", "Ysq[r0 / 32u + b] = q;") + put8(scale_at(3), "bitcast<u32>(q)") + " }" : ""}, {"WORDS", rows_per_workgroup() / 4}, {"ROWS", static_cast<uint32_t>(segments_[0].tile->rows)}});
  }

  /// q and k rotate in pairs; k and v go into the cache at the token's position.
  std::string rope_text(size_t w) const {
    const uint32_t d = m_.kv->head_dim, rows = static_cast<uint32_t>(segments_[w].tile->rows);
    const bool neox = m_.rope->rope.neox && w != 2;
    // Pair number i of this workgroup: its slots, and the first slot's place in the head.
    const std::string a = neox ? "i" : "2u * i", b = neox ? "i + 16u" : "2u * i + 1u";
    std::string text = expand("    if (t < $HALF$) {\n      let i = t;\n      let row = $ROW$;\n", {{"HALF", rows_per_workgroup() / 2}, {"ROW", row_of("(" + a + ")", w)}});
    text += fmt::format("      if (row < {}u) {{\n      var p = res[{}];\n      var q = res[{}];\n", rows, a, b);
    if (w != 2)
      text += fmt::format("      let turn = table[S.pos * {0}u + (row % {1}u){2}];\n      let x0 = p; p = x0 * turn.x - q * turn.y; q = x0 * turn.y + q * turn.x;\n",
                          m_.rope->rope.pairs, d, neox ? "" : " / 2u");
    const std::string second = neox ? fmt::format("row + {}u", d / 2) : "row + 1u";
    if (w == 0) {
      text += "      " + kept("y", fmt::format("y[{0}u + row] = p; y[{0}u + {1}] = q;", segments_[0].y_at, second)) + "\n";
    } else if (m_.kv->type == KvType::F32) {
      const char* cache = w == 1 ? "K" : "V";
      text += fmt::format("      let to = S.pos * {0}u;\n      {1}[to + row] = p;\n      {1}[to + {2}] = q;\n", rows, cache, second);
    } else if (!neox) {
      text += fmt::format("      {}[(S.pos * {}u + row) / 2u] = pack2x16float(clamp(vec2<f32>(p, q), vec2<f32>(-65504.0), vec2<f32>(65504.0)));\n",
                          w == 1 ? "K" : "V", rows);
    } else {
      text += "      res[i] = p;\n      res[i + 16u] = q;\n";
    }
    text += "      }\n    }\n";
    if (w == 0 || m_.kv->type == KvType::F32 || !neox) return text;
    // Halves are stored in neighbouring pairs: through workgroup memory once more.
    return text + "    workgroupBarrier();\n" +
           expand("    if (t < $HALF$) {\n      let row = $ROW$;\n      if (row < $N$) { K[(S.pos * $N$ + row) / 2u] = pack2x16float(clamp(vec2<f32>(res[2u * t], res[2u * t + 1u]), vec2<f32>(-65504.0), vec2<f32>(65504.0))); }\n    }\n",
                  {{"HALF", rows_per_workgroup() / 2}, {"ROW", row_of("(2u * t)", w)}, {"N", rows}});
  }

  const Matvec8& m_;
  const gpu::Caps& caps_;
  std::vector<Segment8> segments_;
  uint32_t k_ = 0;
  Shape8 shape_{};
  bool chained_ = false;    ///< recorded as a link
};

}  // namespace

bool matvec8_fits(const Recorder& r, const Matvec8& m) {
  const Matvec& b = m.base;
  if (!r.choices.packed_dot || !r.decode() || r.caps().max_invocations < 256 || r.caps().max_workgroup_x < 256) return false;
  if (b.norm && (b.norm.layer || b.norm.bias)) return false;
  if (b.x.offset % 4 || b.outputs[0].y.buffer == b.x.buffer) return false;
  const uint64_t k = b.outputs[0].weight->k;
  if (k % 64 || k > (1u << 20)) return false;
  size_t storage = 2 + (b.norm ? 1 : 0) + (m.y8 ? 1 : 0) + (m.squares ? 1 : 0) + (m.next_norm ? 2 : 0) + (m.rope ? 3 : 0) - (m.x8 && b.norm ? 1 : 0);
  for (const Projection& p : b.outputs) {
    if (!only_tile(p) || p.y.buffer != b.outputs[0].y.buffer || !has_dot8(p.weight->type)) return false;
    if ((m.y8 || m.rope) && p.weight->rows % 32) return false;
    storage += p.bias ? 2 : 1;
  }
  if (m.rope) {
    const RopeKv& o = *m.rope;
    if (o.q_norm || o.k_norm || o.v_norm || !o.write_kv || !o.rope.table || o.rope.pairs * 2 != m.kv->head_dim || m.kv->head_dim % 32) return false;
    if (m.kv->type != KvType::F32 && m.kv->type != KvType::F16) return false;
  }
  const uint64_t memory = (m.x8 ? 0 : k / 32 * 48) + (b.norm ? 4096 : 0) + 32 * 33 * 4 * (b.gated ? 2 : 1) + 1024;
  return storage <= r.caps().max_storage_buffers && memory <= r.caps().max_workgroup_memory;
}

void matvec8(Recorder& r, const Matvec8& m) {
  if (r.failed()) return;
  const Writer8 writer(m, r.caps(), r.choices);
  auto text = writer.source();
  if (!text) return r.fail_with(text.error());
  r.link(writer.key(), [&] {
    // The helper goes after `enable` lines and before everything else.
    const size_t at = text->find("@group");
    return gpu::PipelineDesc{writer.label(), text->substr(0, at) + std::string(kPack8) + text->substr(at), kinds(writer.letters())};
  }, writer.operands(r.state), writer.total_workgroups(), m.taken.x8 ? dispatch::Takes::All : dispatch::Takes::Nothing, writer.reads());
}

}  // namespace gull::kernels
