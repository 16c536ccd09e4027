#include "kernels/matvec_batch.h"

#include <algorithm>
#include <array>

#include "kernels/decode/decode.h"
#include "kernels/dot8/dot8.h"
#include "kernels/matmul8.h"
#include "kernels/quantise8.h"
#include "kernels/tuning.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// How the work is cut: `per_row` threads share a row along k, each works on `rows` rows and `tokens` tokens at a time. All are
/// powers of two, and a workgroup's rows are a block of 32.
struct BatchShape { uint32_t threads, per_row, rows, tokens; };

/// Usually 512 threads with 32 a row. Few results a thread leave registers for many threads at a time, which is what hides the
/// time that weights take to arrive: on an H200 eight tokens and four rows were a fifth slower.
BatchShape shape_for(uint32_t units, const gpu::Caps& caps, const Tuning& tuning) {
  const Tuning::Split usual{caps.max_invocations >= 512 && caps.max_workgroup_x >= 512 ? 512u : 256u, 32};
  const RowShape s = fitted(tuning.few.threads ? tuning.few : usual, units);
  return {s.threads, s.per_row, s.rows, kFewAtOnce};
}

/// Rows whose weights a thread asks for before it uses any: as many as registers hold.
constexpr size_t kAskedAtOnce = 4;

struct BatchSegment {
  const weights::Tensor* tensor;
  std::shared_ptr<weights::Tile> tile;
  weights::TensorRef bias;
  uint32_t y_at;
};

/// Writes the text of one dispatch. Grid: x = workgroups of all segments, y = ⌈tokens ÷ shape.tokens⌉.
/// Bindings: x (or X8), W0…, y, [biases], [Y8], State.
class BatchWriter {
 public:
  BatchWriter(const MatvecBatch& m, const gpu::Caps& caps, const Tuning& tuning) : m_(m), caps_(caps) {
    for (const Projection& p : m.base.outputs) {
      const auto tile = only_tile(p);
      segments_.push_back({p.weight.get(), tile, p.bias, p.y.offset + static_cast<uint32_t>(tile->first_row)});
    }
    k_ = static_cast<uint32_t>(segments_[0].tensor->k);
    shape_ = shape_for(units(), caps, tuning);
  }

  const BatchShape& shape() const { return shape_; }
  uint32_t groups() const { return shape_.threads / shape_.per_row; }
  uint32_t rows_per_workgroup() const { return groups() * shape_.rows; }
  uint32_t workgroups(const BatchSegment& s) const { return static_cast<uint32_t>((s.tile->rows + rows_per_workgroup() - 1) / rows_per_workgroup()); }
  uint32_t total_workgroups() const {
    if (m_.base.gated) return workgroups(segments_[0]);
    uint32_t total = 0;
    for (const BatchSegment& s : segments_) total += workgroups(s);
    return total;
  }
  /// Bytes of workgroup memory.
  uint32_t memory() const { return 4 * (results() + (shuffles() ? 0 : partials())); }

  std::string key() const {
    const Matvec& b = m_.base;
    std::string key = fmt::format("matvec batch:{}:{}:{}:{}/{}:{}:{}:{}:{}/{}:{}:{}", m_.packed, shape_.threads, shape_.per_row, shape_.rows, shape_.tokens, b.add,
                                  b.gated, static_cast<int>(b.activation), bool(m_.y8), b.x.stride, b.x.offset, y().stride);
    for (const BatchSegment& s : segments_)
      key += fmt::format("/{}:{}:{}:{}:{}", static_cast<int>(s.tensor->type), k_, s.tile->rows, s.y_at, s.bias ? s.tile->first_row + 1 : 0);
    return key;
  }

  /// For profiles.
  std::string label() const {
    uint64_t rows = 0;
    for (const BatchSegment& s : segments_) rows += s.tile->rows;
    return fmt::format("matvec batch{} {} {} -> {}{}", m_.packed ? "8" : "", gguf::type_traits(segments_[0].tensor->type)->name, k_, rows,
                       m_.base.gated ? " gated" : "");
  }

  std::string letters() const {
    std::string letters = "r" + std::string(segments_.size(), 'r') + 'w';
    for (const BatchSegment& s : segments_)
      if (s.bias) letters += 'r';
    if (m_.y8) letters += 'w';
    return letters + 'u';
  }

  std::vector<dispatch::Operand> operands(const gpu::BufferRef& x, const gpu::BufferRef& state) const {
    std::vector<dispatch::Operand> out{x};
    for (const BatchSegment& s : segments_) out.push_back(s.tile);
    out.push_back(y().buffer);
    for (const BatchSegment& s : segments_)
      if (s.bias) out.push_back(vector_operand(s.bias));
    if (m_.y8) out.push_back(m_.y8);
    out.push_back(state);
    return out;
  }

  Result<std::string> source() const {
    std::string text = preamble(caps_, false, shuffles()) + std::string(kStateStruct) + declarations() + (m_.packed ? std::string(unit8_structs()) : std::string());
    for (size_t i = 0; i < segments_.size(); ++i) {
      const gguf::RowLayout& layout = segments_[i].tensor->layout;
      auto reader = m_.packed ? unpack8(layout, std::to_string(i)) : decoder(layout, std::to_string(i));
      if (!reader) return fail(reader.error());
      text += *reader;
    }
    if (m_.base.gated) text += activation_helpers();
    text += fmt::format("var<workgroup> res: array<f32, {}>;\n", results());
    if (!shuffles()) text += fmt::format("var<workgroup> part: array<f32, {}>;\n", partials());
    text += expand(R"(@compute @workgroup_size($T$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let lane = t % $TPR$;
  let group = t / $TPR$;
  let m0 = wid.y * $TOKENS$;
  let n = S.n - m0;
)", {{"T", shape_.threads}, {"TPR", shape_.per_row}, {"TOKENS", shape_.tokens}});
    if (m_.base.gated) return text + body({0, 1}, 0) + "}\n";
    uint32_t first = 0;
    for (size_t i = 0; i < segments_.size(); ++i) {
      const uint32_t count = workgroups(segments_[i]);
      text += fmt::format("  {}if (wid.x < {}u) {{\n", i ? "else " : "", first + count) + body({i}, first) + "  }\n";
      first += count;
    }
    return text + "}\n";
  }

 private:
  const Rows& y() const { return m_.base.outputs[0].y; }
  uint32_t units() const { return k_ / (m_.packed ? 64 : 32); }
  uint32_t weights() const { return m_.base.gated ? 2 : 1; }
  uint32_t results() const { return rows_per_workgroup() * shape_.tokens * weights(); }
  uint32_t partials() const { return groups() * shape_.tokens * (shape_.per_row + 1); }
  /// Subgroup shuffles add up within a row's threads where a subgroup holds them all.
  bool shuffles() const { return caps_.subgroups && caps_.linear_subgroups && caps_.subgroup_min >= shape_.per_row; }

  std::string declarations() const {
    std::string text;
    int next = 0;
    const auto bind = [&](const char* access, const std::string& name, const char* type) {
      text += fmt::format("@group(0) @binding({}) var<{}> {}: {};\n", next++, access, name, type);
    };
    bind("storage, read", m_.packed ? "X8" : "x", m_.packed ? "array<vec4<u32>>" : "array<vec4<f32>>");
    for (size_t i = 0; i < segments_.size(); ++i) bind("storage, read", fmt::format("W{}", i), "array<vec4<u32>>");
    bind("storage, read_write", "y", "array<f32>");
    for (size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].bias) bind("storage, read", fmt::format("b{}", i), "array<f32>");
    if (m_.y8) bind("storage, read_write", "Y8", "array<u32>");
    bind("uniform", "S", "State");
    return text;
  }

  /// A row that a thread works on: of which segment, and its number among the thread's.
  struct Own { size_t segment; uint32_t row; };
  std::string name(const Own& o) const { return fmt::format("{}_{}", o.segment, o.row); }

  /// What the activations of token `m` of this workgroup add to a row. A token beyond the last reads the last one's.
  std::string token_text(const Own& o, uint32_t m) const {
    const std::string to = fmt::format("a{}_{}", name(o), m), s = std::to_string(o.segment);
    std::string text = fmt::format("        {{ let m = m0 + min({}u, n - 1u);\n", m);
    if (!m_.packed) {
      text += fmt::format("          let at = (m * {}u + {}u) / 4u + u * 8u;\n          {} += ", m_.base.x.stride, m_.base.x.offset, to);
      for (int i = 0; i < 8; ++i) text += fmt::format("{0}dot(q[{1}], x[at + {1}u])", i ? " + " : "", i);
      return text + ";\n        }\n";
    }
    const gguf::Type type = segments_[o.segment].tensor->type;
    const char* scales = has_minima8(type) ? "h.xyz" : "vec2<f32>(h.x, h.y + h.z)";
    text += expand("          let ab = qi$W$(u) + m * 3u * $N$;\n", {{"W", s}, {"N", k_ / 32}});
    for (const auto& [at, p, q, w] : {std::array{"x", "q0", "q1", "wa"}, std::array{"y", "q2", "q3", "wb"}})
      text += expand("          { let a = X8[ab.$AT$]; let b = X8[ab.$AT$ + $N$]; let h = bitcast<vec4<f32>>(X8[ab.$AT$ + 2u * $N$]); let s = $SCALES$;\n"
                     "            $TO$ = $PRODUCT$; }\n",
                     {{"AT", at}, {"N", k_ / 32}, {"SCALES", scales}, {"TO", to}, {"PRODUCT", product8(type, s, fmt::format("q.{}", p), fmt::format("q.{}", q), w, "a", "b", "s", to)}});
    return text + "        }\n";
  }

  /// A unit of one row, unpacked once for all tokens. Later tokens are left out two at a time where there are fewer.
  std::string unit_text(const Own& o) const {
    const gguf::Type type = segments_[o.segment].tensor->type;
    std::string text = m_.packed ? fmt::format("      {{ let q = t8{0}(r{1}, u); let wa = {2}; let wb = {3};\n", o.segment, name(o), scales8(type, 0, "q.s"), scales8(type, 1, "q.s"))
                                 : fmt::format("      {{ let q = dq{}(p{}, u);\n", o.segment, name(o));
    for (uint32_t m = 0; m < shape_.tokens; m += 2) {
      if (m) text += fmt::format("        if (n > {}u) {{\n", m);
      text += token_text(o, m) + token_text(o, m + 1);
      if (m) text += "        }\n";
    }
    return text + "      }\n";
  }

  std::string body(const std::vector<size_t>& which, uint32_t first_workgroup) const {
    std::string text = expand("    let r0 = (wid.x - $FIRST$) * $RPW$;\n", {{"FIRST", first_workgroup}, {"RPW", rows_per_workgroup()}});
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r) {
        const BatchSegment& s = segments_[w];
        text += fmt::format("    let p{0}_{1} = min(r0 + group + {2}u, {3}u) * {4}u;\n", w, r, r * groups(), s.tile->rows - 1, s.tensor->layout.row_bytes / 16);
        for (uint32_t m = 0; m < shape_.tokens; ++m) text += fmt::format("    var a{}_{}_{} = 0.0;\n", w, r, m);
      }
    text += expand("    for (var u = lane; u < $N$; u += $TPR$) {\n", {{"N", units()}, {"TPR", shape_.per_row}});
    std::vector<Own> all;
    for (uint32_t r = 0; r < shape_.rows; ++r)
      for (size_t w : which) all.push_back({w, r});
    for (size_t i = 0; i < all.size(); ++i) {
      if (m_.packed && i % kAskedAtOnce == 0)
        for (size_t j = i; j < std::min(all.size(), i + kAskedAtOnce); ++j) text += fmt::format("      let r{0} = l8{1}(p{0}, u);\n", name(all[j]), all[j].segment);
      text += unit_text(all[i]);
    }
    text += "    }\n";
    return text + (shuffles() ? reduce_by_shuffles(which) : reduce_in_memory(which)) + epilogue(which);
  }

  /// Sums over a row's threads of all results at once: at each step a thread gives half of its numbers to another and takes
  /// that one's part of the other half, so that the threads end up with a share of the results each.
  std::string reduce_by_shuffles(const std::vector<size_t>& which) const {
    std::vector<std::string> values;
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        for (uint32_t m = 0; m < shape_.tokens; ++m) values.push_back(fmt::format("a{}_{}_{}", w, r, m));
    std::string text;
    const uint32_t all = static_cast<uint32_t>(values.size());
    uint32_t mask = shape_.per_row / 2;
    for (; mask && values.size() > 1; mask /= 2) {
      const size_t half = values.size() / 2;
      text += fmt::format("    let up{0} = (lane & {0}u) != 0u;\n", mask);
      for (size_t i = 0; i < half; ++i) {
        text += fmt::format("    let c{0}_{1} = select({2}, {3}, up{0}) + subgroupShuffleXor(select({3}, {2}, up{0}), {0}u);\n", mask, i, values[i], values[half + i]);
        values[i] = fmt::format("c{}_{}", mask, i);
      }
      values.resize(half);
    }
    // Fewer results than threads: those that are left hold parts of the same one.
    const uint32_t same = mask ? 2 * mask : 1;
    for (; mask; mask /= 2) {
      text += fmt::format("    let c{0}_0 = {1} + subgroupShuffleXor({1}, {0}u);\n", mask, values[0]);
      values[0] = fmt::format("c{}_0", mask);
    }
    if (same > 1) text += fmt::format("    if (lane % {}u == 0u) {{\n", same);
    text += expand("    let mine = lane / $SAME$ * $EACH$;\n", {{"SAME", same}, {"EACH", static_cast<uint32_t>(values.size())}});
    for (size_t i = 0; i < values.size(); ++i)
      text += expand("    { let i = mine + $I$; res[(i / $RT$ * $TOKENS$ + i % $TOKENS$) * $RPW$ + i / $TOKENS$ % $ROWS$ * $G$ + group] = $VALUE$; }\n",
                     {{"I", static_cast<uint32_t>(i)}, {"RT", all / static_cast<uint32_t>(which.size())}, {"TOKENS", shape_.tokens}, {"RPW", rows_per_workgroup()},
                      {"ROWS", shape_.rows}, {"G", groups()}, {"VALUE", values[i]}});
    if (same > 1) text += "    }\n";
    return text + "    workgroupBarrier();\n";
  }

  std::string reduce_in_memory(const std::vector<size_t>& which) const {
    std::string text;
    for (size_t i = 0; i < which.size(); ++i)
      for (uint32_t r = 0; r < shape_.rows; ++r) {
        for (uint32_t m = 0; m < shape_.tokens; ++m)
          text += fmt::format("    part[(group * {}u + {}u) * {}u + lane] = a{}_{}_{};\n", shape_.tokens, m, shape_.per_row + 1, which[i], r, m);
        text += expand(R"(    workgroupBarrier();
    for (var o = t; o < $N$; o += $T$) {
      var s = 0.0;
      for (var i = 0u; i < $TPR$; i++) { s += part[o * $ST$ + i]; }
      res[($FIRST$ + o % $TOKENS$) * $RPW$ + $ROW$ + o / $TOKENS$] = s;
    }
    workgroupBarrier();
)", {{"N", groups() * shape_.tokens}, {"T", shape_.threads}, {"TPR", shape_.per_row}, {"ST", shape_.per_row + 1}, {"FIRST", static_cast<uint32_t>(i) * shape_.tokens},
     {"TOKENS", shape_.tokens}, {"RPW", rows_per_workgroup()}, {"ROW", r * groups()}});
      }
    return text;
  }

  std::string epilogue(const std::vector<size_t>& which) const {
    const BatchSegment& s = segments_[which[0]];
    const std::string bias = s.bias ? fmt::format(" + b{}[{}u + r0 + row]", which[0], s.tile->first_row) : "";
    std::string value = "res[o]" + bias;
    if (m_.base.gated) value = activation_call(m_.base.activation, "res[o]") + fmt::format(" * res[o + {}u]", results() / 2);
    std::string text = expand(R"(    for (var o = t; o < $N$; o += $T$) {
      let m = o / $RPW$;
      let row = o % $RPW$;
      if (m >= n || r0 + row >= $ROWS$) { continue; }
      let v = $VALUE$;
      y[(m0 + m) * $YS$ + $YO$ + r0 + row] $SET$ v;
      $KEEP$
    }
)", {{"N", rows_per_workgroup() * shape_.tokens}, {"T", shape_.threads}, {"RPW", rows_per_workgroup()}, {"ROWS", s.tile->rows}, {"VALUE", value},
     {"YS", y().stride}, {"YO", s.y_at}, {"SET", m_.base.add ? "+=" : "="}, {"KEEP", m_.y8 ? "res[o] = v;" : ""}});
    return m_.y8 ? text + quantise() : text;
  }

  /// The results as blocks of 32 (dot8.h), a word of four bytes a thread.
  std::string quantise() const {
    return expand(R"(    workgroupBarrier();
    for (var o = t; o < $N$; o += $T$) {
      let m = o / $RPW4$;
      let b = o % $RPW4$ / 8u;
      if (m >= n || r0 + b * 32u >= $ROWS$) { continue; }
      let first = m * $RPW4$ * 4u + b * 32u;
      let c = o % 8u;
      var top = 0u;
      for (var i = 0u; i < 32u; i++) { top = max(top, bitcast<u32>(abs(res[first + i]))); }   // as bits: what is no number is the most
      let peak = bitcast<f32>(top);
      let id = select(0.0, 127.0 / peak, peak > 1e-30);
      let at = ((m0 + m) * 3u * $BLOCKS$ + $PLACE$) * 4u;
      let w = first + c * 4u;
      let q = vec4<u32>(vec4<i32>(round(vec4<f32>(res[w], res[w + 1u], res[w + 2u], res[w + 3u]) * id))) & vec4<u32>(255u);
      Y8[c / 4u * 4u * $BLOCKS$ + at + c % 4u] = q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
      if (c < 2u) {
        var s = 0.0;
        for (var i = 0u; i < 16u; i++) { s += round(res[first + c * 16u + i] * id); }
        Y8[8u * $BLOCKS$ + at + 1u + c] = bitcast<u32>(s * peak / 127.0);
      }
      if (c == 2u) { Y8[8u * $BLOCKS$ + at] = bitcast<u32>(peak / 127.0); }
    }
)", {{"N", rows_per_workgroup() / 4 * shape_.tokens}, {"T", shape_.threads}, {"RPW4", rows_per_workgroup() / 4}, {"ROWS", segments_[0].tile->rows},
     {"BLOCKS", y().width / 32}, {"PLACE", place8("(r0 / 32u + b)", y().width / 32)}});
  }

  const MatvecBatch& m_;
  const gpu::Caps& caps_;
  std::vector<BatchSegment> segments_;
  uint32_t k_ = 0;
  BatchShape shape_{};
};

}  // namespace

bool matvec_batch_fits(const Recorder& r, const MatvecBatch& m) {
  const Matvec& b = m.base;
  const gpu::Caps& caps = r.caps();
  if (r.decode() || r.max_tokens > kFewTokens || caps.max_invocations < 256 || caps.max_workgroup_x < 256) return false;
  size_t storage = 2 + (m.y8 ? 1 : 0);
  for (const Projection& p : b.outputs) {
    const Rows& y = b.outputs[0].y;
    if (!only_tile(p) || p.y.buffer != y.buffer || p.y.stride != y.stride || p.y.buffer == b.x.buffer || p.weight->k != b.x.width) return false;
    if (m.packed ? !matmul8_fits(r, b.x, p) : p.weight->k % 32 || b.x.offset % 4 || b.x.stride % 4) return false;
    if (m.y8 && (p.weight->rows % 32 || y.offset)) return false;
    storage += p.bias ? 2 : 1;
  }
  const BatchWriter writer(m, caps, r.choices.tuning);
  return storage <= caps.max_storage_buffers && writer.memory() <= caps.max_workgroup_memory && writer.total_workgroups() <= 65535;
}

void matvec_batch(Recorder& r, const MatvecBatch& m) {
  if (r.failed()) return;
  const gpu::BufferRef x = m.packed ? quantised(r, m.base.x) : m.base.x.buffer;
  const BatchWriter writer(m, r.caps(), r.choices.tuning);
  auto text = writer.source();
  if (!text) return r.fail_with(text.error());
  if (r.failed()) return;
  r.step(writer.key(), [&] { return gpu::PipelineDesc{writer.label(), *text, kinds(writer.letters())}; }, writer.operands(x, r.state),
         {writer.total_workgroups()}, {1, dispatch::Var::Tokens, writer.shape().tokens});
}

}  // namespace gull::kernels
