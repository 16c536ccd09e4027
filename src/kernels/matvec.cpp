#include "kernels/matvec.h"

#include <algorithm>
#include <bit>

#include "kernels/decode/decode.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// A row range of one weight buffer inside a fused dispatch.
struct Segment {
  const weights::Tensor* tensor = nullptr;
  std::shared_ptr<weights::Tile> tile;
  weights::TensorRef bias;
  uint32_t y_at = 0;          ///< first output float
};

/// Writes the text of one dispatch. Shape: `groups` rows at a time are each shared by `per_row` threads along k.
class Writer {
 public:
  Writer(const Matvec& m, std::vector<Segment> segments, MatvecShape shape)
      : m_(m), segments_(std::move(segments)), shape_(shape), k_(static_cast<uint32_t>(segments_[0].tensor->k)) {}

  uint32_t rows_per_workgroup() const { return shape_.workgroup / shape_.per_row * shape_.rows; }
  uint32_t workgroups(const Segment& s) const {
    return static_cast<uint32_t>((s.tile->rows + rows_per_workgroup() - 1) / rows_per_workgroup());
  }
  uint32_t total_workgroups() const {
    if (m_.gated) return workgroups(segments_[0]);
    uint32_t total = 0;
    for (const Segment& s : segments_) total += workgroups(s);
    return total;
  }

  std::string key() const {
    std::string key = fmt::format("matvec:{}:{}:{}:{}:{}:{}:{}:{}:{}", shape_.workgroup, shape_.per_row, shape_.rows, m_.add, m_.gated,
                                  static_cast<int>(m_.activation), bool(m_.norm), m_.norm ? m_.norm.eps : 0.0f, m_.x.offset);
    for (const Segment& s : segments_)
      key += fmt::format("/{}:{}:{}:{}:{}", static_cast<int>(s.tensor->type), k_, s.tile->rows, s.y_at, s.bias ? s.tile->first_row + 1 : 0);
    return key;
  }

  /// For profiles.
  std::string label() const {
    uint64_t rows = 0;
    for (const Segment& s : segments_) rows += s.tile->rows;
    return fmt::format("matvec {} {} -> {}{}", gguf::type_traits(segments_[0].tensor->type)->name, k_, rows, m_.gated ? " gated" : "");
  }

  Result<std::string> source() const {
    std::string text = declarations();
    for (size_t i = 0; i < segments_.size(); ++i) {
      auto decode = decoder(segments_[i].tensor->layout, std::to_string(i));
      if (!decode) return fail(decode.error());
      text += *decode;
    }
    if (m_.gated) text += activation_helpers();
    text += expand("var<workgroup> part: array<f32, $N$>;\n", {{"N", partials()}});
    text += expand(R"(@compute @workgroup_size($WG$)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nw: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let wg = wid.x + wid.y * nw.x;
  let lane = t % $TPR$;
  let group = t / $TPR$;
  var norm = 1.0;
)", {{"WG", shape_.workgroup}, {"TPR", shape_.per_row}});
    if (m_.norm) text += norm_text();
    if (m_.gated) {
      text += body({0, 1}, 0);
    } else {
      uint32_t first = 0;
      for (size_t i = 0; i < segments_.size(); ++i) {
        const uint32_t n = workgroups(segments_[i]);
        text += i ? fmt::format("  else if (wg < {}u) {{\n", first + n) : fmt::format("  if (wg < {}u) {{\n", first + n);
        text += body({i}, first) + "  }\n";
        first += n;
      }
    }
    return text + "}\n";
  }

  std::string letters() const {
    std::string letters = m_.norm ? "rr" : "r";
    letters += std::string(segments_.size(), 'r') + 'w';
    for (const Segment& s : segments_)
      if (s.bias) letters += 'r';
    return letters;
  }

  std::vector<dispatch::Operand> operands(const gpu::BufferRef& y) const {
    std::vector<dispatch::Operand> out{m_.x.buffer};
    if (m_.norm) out.push_back(vector_operand(m_.norm.weight));
    for (const Segment& s : segments_) out.push_back(s.tile);
    out.push_back(y);
    for (const Segment& s : segments_)
      if (s.bias) out.push_back(vector_operand(s.bias));
    return out;
  }

 private:
  bool whole_groups() const { return k_ % 32 == 0 && m_.x.offset % 4 == 0; }
  uint32_t partials() const { return std::max(shape_.workgroup * shape_.rows * (m_.gated ? 2 : 1), shape_.workgroup); }

  std::string declarations() const {
    std::string text = fmt::format("@group(0) @binding(0) var<storage, read> x: array<{}>;\n", whole_groups() ? "vec4<f32>" : "f32");
    int next = 1;
    if (m_.norm)
      text += fmt::format("@group(0) @binding({}) var<storage, read> nw_: array<{}>;\n", next++, whole_groups() ? "vec4<f32>" : "f32");
    for (size_t i = 0; i < segments_.size(); ++i)
      text += fmt::format("@group(0) @binding({}) var<storage, read> W{}: array<vec4<u32>>;\n", next++, i);
    text += fmt::format("@group(0) @binding({}) var<storage, read_write> y: array<f32>;\n", next++);
    for (size_t i = 0; i < segments_.size(); ++i)
      if (segments_[i].bias) text += fmt::format("@group(0) @binding({}) var<storage, read> b{}: array<f32>;\n", next++, i);
    return text;
  }

  /// The RMS of x: every workgroup computes it anew, which costs less than a dispatch of its own.
  std::string norm_text() const {
    const std::string loop = whole_groups()
        ? expand("for (var i = t; i < $N$; i += $WG$) { let v = x[$XO$ + i]; ss += dot(v, v); }",
                 {{"N", k_ / 4}, {"WG", shape_.workgroup}, {"XO", m_.x.offset / 4}})
        : expand("for (var i = t; i < $N$; i += $WG$) { let v = x[$XO$ + i]; ss += v * v; }",
                 {{"N", k_}, {"WG", shape_.workgroup}, {"XO", m_.x.offset}});
    return "  var ss = 0.0;\n  " + loop + expand(R"(
  part[t] = ss;
  workgroupBarrier();
  for (var k = $WG$ / 2u; k > 0u; k = k / 2u) {
    if (t < k) { part[t] += part[t + k]; }
    workgroupBarrier();
  }
  norm = inverseSqrt(part[0] / f32($K$) + $EPS$);
  workgroupBarrier();
)", {{"WG", shape_.workgroup}, {"K", k_}, {"EPS", m_.norm.eps}});
  }

  /// Loads 32 activations (times the norm's weights) into v0…v7.
  std::string load_x() const {
    std::string text;
    for (uint32_t i = 0; i < 8; ++i) {
      if (whole_groups()) {
        text += fmt::format("      let v{0} = x[{1}u + kb * 8u + {0}u]{2};\n", i, m_.x.offset / 4,
                            m_.norm ? fmt::format(" * nw_[kb * 8u + {}u]", i) : "");
        continue;
      }
      std::string parts[4];
      for (uint32_t c = 0; c < 4; ++c) {
        const std::string at = fmt::format("kb * 32u + {}u", i * 4 + c);
        const std::string safe = fmt::format("min({}, {}u)", at, k_ - 1);
        parts[c] = fmt::format("select(0.0, x[{}u + {}]{}, {} < {}u)", m_.x.offset, safe,
                               m_.norm ? fmt::format(" * nw_[{}]", safe) : "", at, k_);
      }
      text += fmt::format("      let v{} = vec4<f32>({}, {}, {}, {});\n", i, parts[0], parts[1], parts[2], parts[3]);
    }
    return text;
  }

  /// Rows of the segments `which` (the same rows of each): partial dots, their sum, and the result.
  std::string body(std::vector<size_t> which, uint32_t first_workgroup) const {
    const Segment& s = segments_[which[0]];
    const uint32_t groups = shape_.workgroup / shape_.per_row;
    std::string text = expand("    let r0 = (wg - $FIRST$) * $RPW$;\n", {{"FIRST", first_workgroup}, {"RPW", rows_per_workgroup()}});
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r) text += fmt::format("    var a{}_{} = 0.0;\n", w, r);
    text += expand("    for (var kb = lane; kb < $KB$; kb += $TPR$) {\n", {{"KB", (k_ + 31) / 32}, {"TPR", shape_.per_row}}) + load_x();
    for (size_t w : which)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        text += fmt::format(
            "      {{ let q = dq{0}(min(r0 + group + {1}u, {2}u) * {3}u, kb);\n"
            "        a{0}_{4} += dot(q[0], v0) + dot(q[1], v1) + dot(q[2], v2) + dot(q[3], v3) + dot(q[4], v4) + dot(q[5], v5) + dot(q[6], v6) + dot(q[7], v7); }}\n",
            w, r * groups, segments_[w].tile->rows - 1, segments_[w].tensor->layout.row_bytes / 16, r);
    text += "    }\n";
    for (size_t i = 0; i < which.size(); ++i)
      for (uint32_t r = 0; r < shape_.rows; ++r)
        text += fmt::format("    part[({}u + group) * {}u + lane] = a{}_{};\n", (i * shape_.rows + r) * groups, shape_.per_row, which[i], r);
    text += "    workgroupBarrier();\n";
    text += expand("    for (var o = t; o < $RPW$; o += $WG$) {\n      if (r0 + o >= $ROWS$) { break; }\n",
                   {{"RPW", rows_per_workgroup()}, {"WG", shape_.workgroup}, {"ROWS", s.tile->rows}});
    for (size_t i = 0; i < which.size(); ++i)
      text += expand("      var s$I$ = 0.0;\n      for (var i = 0u; i < $TPR$; i++) { s$I$ += part[($AT$ + o) * $TPR$ + i]; }\n      s$I$ = s$I$ * norm$BIAS$;\n",
                     {{"I", std::to_string(i)}, {"TPR", shape_.per_row}, {"AT", static_cast<uint32_t>(i) * rows_per_workgroup()},
                      {"BIAS", segments_[which[i]].bias ? fmt::format(" + b{}[{}u + r0 + o]", which[i], s.tile->first_row) : ""}});
    const std::string value = m_.gated ? activation_call(m_.activation, "s0") + " * s1" : "s0";
    text += fmt::format("      y[{}u + r0 + o] {} {};\n    }}\n", s.y_at, m_.add ? "+=" : "=", value);
    return text;
  }

  const Matvec& m_;
  std::vector<Segment> segments_;
  MatvecShape shape_;
  uint32_t k_;
};

void emit(Recorder& r, const Writer& writer, const gpu::BufferRef& y) {
  if (r.failed()) return;
  auto text = writer.source();
  if (!text) return r.fail_with(text.error());
  const uint32_t count = writer.total_workgroups();
  const uint32_t wide = std::min<uint32_t>(count, 32768);
  const uint32_t high = (count + wide - 1) / wide;
  r.step(writer.key(), [&] { return gpu::PipelineDesc{writer.label(), *text, kinds(writer.letters())}; }, writer.operands(y), {wide}, {high});
}

}  // namespace

MatvecShape matvec_shape(const gpu::Caps& caps, uint64_t k, uint64_t rows) {
  const uint32_t groups = static_cast<uint32_t>((k + 31) / 32);
  MatvecShape shape;
  shape.per_row = std::min<uint32_t>(std::bit_floor(std::max(groups, 1u)), 16);
  shape.rows = rows >= 256 ? 4 : 1;
  shape.workgroup = caps.software ? 32 : 64;
  shape.per_row = std::min(shape.per_row, shape.workgroup);
  return shape;
}

bool matvec_fits(const Recorder& r, const Matvec& m) {
  size_t storage = 2 + (m.norm ? 1 : 0);
  if (m.norm && (m.norm.layer || m.norm.bias)) return false;
  for (const Projection& p : m.outputs) {
    if (!only_tile(p) || p.y.buffer != m.outputs[0].y.buffer) return false;
    storage += p.bias ? 2 : 1;
  }
  return storage <= std::min<size_t>(r.caps().max_storage_buffers, 8) && m.outputs[0].y.buffer != m.x.buffer;
}

void matvec(Recorder& r, const Matvec& m, MatvecShape shape) {
  std::vector<Segment> segments;
  for (const Projection& p : m.outputs) {
    const auto tile = only_tile(p);
    segments.push_back({p.weight.get(), tile, p.bias, p.y.offset + static_cast<uint32_t>(tile->first_row)});
  }
  emit(r, Writer(m, std::move(segments), shape), m.outputs[0].y.buffer);
}

void matvec_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add) {
  Matvec m;
  m.x = x;
  m.add = add;
  std::vector<Segment> segments{{p.weight.get(), tile, p.bias, p.y.offset + static_cast<uint32_t>(tile->first_row)}};
  emit(r, Writer(m, std::move(segments), matvec_shape(r.caps(), p.weight->k, tile->rows)), p.y.buffer);
}

}  // namespace gull::kernels
