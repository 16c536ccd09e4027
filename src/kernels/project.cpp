// Projections: which kernel computes x·Wᵀ, and what is fused with it.
#include <algorithm>

#include "kernels/attention_row.h"
#include "kernels/matmul.h"
#include "kernels/dot8/dot8.h"
#include "kernels/matvec.h"
#include "kernels/matmul8.h"
#include "kernels/quantise8.h"
#include "kernels/matvec8.h"
#include "kernels/matvec_batch.h"
#include "kernels/ops.h"
#include "kernels/wgsl.h"

namespace gull::kernels {
namespace {

/// The general case: each tile of the weight by itself, whatever the number of tokens.
void plain(Recorder& r, const Rows& x, const Projection& p, bool add) {
  if (r.failed()) return;
  for (const auto& tile : p.weight->tiles) {
    Projection part = p;
    part.tile = tile;
    if (r.decode()) matvec_tile(r, x, p, tile, add);
    else if (matmul8_fits(r, x, p)) matmul8(r, x, {&part, 1}, add);
    else matmul_tile(r, x, p, tile, add, matmul_shape(r.caps(), r.max_tokens, r.choices.tuning));
  }
}

/// Projections of one input: together where a kernel can do that.
void plain_all(Recorder& r, const Rows& x, const std::vector<Projection>& outputs) {
  const bool together = std::all_of(outputs.begin(), outputs.end(), [&](const Projection& p) { return only_tile(p) && matmul8_fits(r, x, p); });
  if (together) return matmul8(r, x, outputs, false);
  for (const auto& p : outputs) plain(r, x, p, false);
}

/// The addition that the Plan ends with wrote x, which is now to be normalised and projected: it is recorded anew, leaving
/// x times the norm's weights quantised, and the sums of squares that the norm needs.
bool normalise_ahead(Recorder& r, const Matvec& m, Matvec8& q) {
  if (!r.last || r.last->steps != r.plan.steps()) return false;
  Matvec8 add = r.last->matvec;
  const Rows& x = add.base.outputs[0].y;
  if (!add.base.add || add.y8 || x.buffer != m.x.buffer || x.offset || m.x.offset || x.width != m.x.width || x.width % 32) return false;
  add.y8 = block_buffer(r, x);
  add.y_squares = r.take(r.arena.raw(fmt::format("squares {}", x.buffer->id()), uint64_t{x.width} / 32 * 4));
  add.next_norm = m.norm.weight;
  q.x8 = add.y8, q.squares = add.y_squares;
  if (r.failed() || !matvec8_fits(r, add) || !matvec8_fits(r, q)) return q.x8 = nullptr, q.squares = nullptr, false;
  r.replace_last = true;
  add.put = {r.put_at(add.y8, x.width / 32 * kBlock8Words), r.put_at(x.buffer, x.width)};
  matvec8(r, add);
  r.replace_last = false;
  return true;
}

/// A product whose weights are cut, as one dispatch a tile (of both weights, for a gated pair). Each row is computed just as
/// it would be uncut. Empty where the weights of a gated pair are cut in different places.
std::vector<Matvec> parts_of(const Matvec& m) {
  std::vector<Matvec> parts;
  Matvec part = m;
  part.shape_rows = m.rows_for_shape();
  const auto& first = m.outputs[0].weight->tiles;
  if (m.gated) {
    const auto& second = m.outputs[1].weight->tiles;
    for (size_t i = 0; i < first.size() && first.size() == second.size(); ++i) {
      if (first[i]->rows != second[i]->rows) return {};
      part.outputs[0].tile = first[i], part.outputs[1].tile = second[i];
      parts.push_back(part);
    }
    return parts;
  }
  if (std::all_of(m.outputs.begin(), m.outputs.end(), [](const Projection& p) { return p.weight->tiles.size() == 1; })) return {m};
  for (const Projection& p : m.outputs)
    for (const auto& tile : p.weight->tiles) {
      part.outputs = {p};
      part.outputs[0].tile = tile;
      parts.push_back(part);
    }
  return parts;
}

/// The 8-bit decode kernel, where it can be used; the result of a gated pair is left quantised too, for what follows.
bool quick(Recorder& r, const Matvec& m) {
  const auto parts = parts_of(m);
  Matvec8 q;
  if (!m.norm) q.x8 = r.twin(m.x);
  for (const Matvec& part : parts) {
    q.base = part;
    if (!matvec8_fits(r, q)) return false;
  }
  if (parts.empty()) return false;
  if (m.norm) normalise_ahead(r, m, q);
  q.taken.x8 = r.taken_at(q.x8);
  if (m.add && q.taken.x8) q.taken.y = r.taken_at(m.outputs[0].y.buffer, true);
  if (parts.size() > 1) {
    for (const Matvec& part : parts) q.base = part, matvec8(r, q);
    return true;
  }
  const Rows& y = m.outputs[0].y;
  if (m.gated && y.offset == 0 && y.width % 32 == 0) {
    q.y8 = block_buffer(r, y);
    if (!matvec8_fits(r, q)) q.y8 = nullptr;
    q.put.x8 = r.put_at(q.y8, y.width / 32 * kBlock8Words);
  }
  matvec8(r, q);
  if (r.failed()) return true;
  r.last = std::make_shared<LastProjection>(LastProjection{q, r.plan.steps()});
  if (q.y8) r.twins[y.buffer->id()] = q.y8;
  return true;
}

/// The float decode kernel, where it can be used.
bool exact(Recorder& r, const Matvec& m) {
  if (!r.decode()) return false;
  const auto parts = parts_of(m);
  for (const Matvec& part : parts)
    if (!matvec_fits(r, part)) return false;
  for (const Matvec& part : parts) matvec(r, part, matvec_shape(r.caps(), m.outputs[0].weight->k, m.rows_for_shape()));
  return !parts.empty();
}

/// The kernels for a few tokens, where they can be used: all of it in one dispatch (a tile), or else each projection in one.
/// m.x is normalised already.
bool few(Recorder& r, const Matvec& m) {
  if (r.failed() || r.decode() || r.max_tokens > kFewTokens) return false;
  std::vector<MatvecBatch> dispatches;
  const auto take = [&](const Matvec& whole) {
    const auto parts = parts_of(whole);
    for (const Matvec& part : parts) {
      MatvecBatch b{part, false, nullptr};
      b.packed = std::all_of(part.outputs.begin(), part.outputs.end(), [&](const Projection& p) { return matmul8_fits(r, part.x, p); });
      if (!matvec_batch_fits(r, b)) return false;
      dispatches.push_back(std::move(b));
    }
    return !parts.empty();
  };
  if (!take(m)) {
    if (m.gated || m.outputs.size() == 1) return false;
    dispatches.clear();
    Matvec single = m;
    for (const Projection& p : m.outputs)
      if (single.outputs = {p}; !take(single)) return false;
  }
  const Rows& y = m.outputs[0].y;
  if (m.gated && dispatches.size() == 1 && dispatches[0].packed && y.offset == 0 && y.width % 32 == 0) {
    MatvecBatch& b = dispatches[0];
    b.y8 = block_buffer(r, y);
    if (r.failed()) return false;
    if (!matvec_batch_fits(r, b)) b.y8 = nullptr;
  }
  for (const MatvecBatch& b : dispatches) matvec_batch(r, b);
  if (dispatches[0].y8 && !r.failed()) r.twins[y.buffer->id()] = dispatches[0].y8;
  return true;
}

/// norm(x) in a buffer of its own, or x where there is no norm. Where all of `weights` read 8-bit activations, only those
/// are made.
Rows normed(Recorder& r, const Rows& x, const Norm& n, const std::vector<weights::TensorRef>& weights) {
  if (!n) return x;
  Rows y = r.rows("normed", x.width);
  const bool whole = !n.layer && !n.bias && x.width % 32 == 0 && x.offset % 4 == 0 && x.stride % 4 == 0;
  if (whole && std::all_of(weights.begin(), weights.end(), [&](const auto& w) { return matmul8_fits(r, y, {w, nullptr, y}); })) quantise_normed(r, x, n, y);
  else norm(r, x, n, y);
  return y;
}

}  // namespace

bool fuse_heads(Recorder& r, const Rows& qkv, const RopeKv& options, const KvLayer& kv) {
  if (r.failed() || !r.last || r.last->steps != r.plan.steps()) return false;
  Matvec8 fused = r.last->matvec;
  const auto& outputs = fused.base.outputs;
  if (outputs.size() != 3 || fused.base.gated || outputs[0].y.buffer != qkv.buffer || outputs[0].y.offset != qkv.offset ||
      outputs[0].weight->rows != uint64_t{options.heads} * kv.head_dim || outputs[2].weight->rows != uint64_t{kv.heads} * kv.head_dim)
    return false;
  fused.rope = &options, fused.kv = &kv;
  if (!matvec8_fits(r, fused)) return false;
  r.replace_last = true;
  if (attention_row_fits(r, kv)) fused.put.y = r.put_at(qkv.buffer, static_cast<uint32_t>(outputs[0].weight->rows + 2 * outputs[2].weight->rows));
  matvec8(r, fused);
  r.replace_last = false;
  r.last.reset();
  return true;
}

void project(Recorder& r, const Rows& x, const Norm& n, std::vector<Projection> outputs) {
  if (r.failed()) return;
  Matvec m;
  m.x = x, m.norm = n, m.outputs = outputs;
  if (quick(r, m) || exact(r, m)) return;
  std::vector<weights::TensorRef> all;
  for (const auto& p : outputs) all.push_back(p.weight);
  const Rows input = m.x = normed(r, x, n, all);
  m.norm = {};
  if (!few(r, m)) plain_all(r, input, outputs);
}

void project_add(Recorder& r, const Rows& x, const Projection& p) {
  if (r.failed()) return;
  Matvec m;
  m.x = x, m.outputs = {p}, m.add = true;
  if (!quick(r, m) && !few(r, m)) plain(r, x, p, true);
}

void project_gated(Recorder& r, const Rows& x, const Norm& n, const weights::TensorRef& gate, const weights::TensorRef& up,
                   Activation activation, const Rows& y) {
  if (r.failed()) return;
  Matvec m;
  m.x = x, m.norm = n, m.outputs = {{gate, nullptr, y}, {up, nullptr, y}}, m.gated = true, m.activation = activation;
  if (quick(r, m) || exact(r, m)) return;
  const Rows input = m.x = normed(r, x, n, {gate, up});
  m.norm = {};
  if (few(r, m)) return;
  const Rows g = r.rows("gate", static_cast<uint32_t>(gate->rows));
  const Rows u = r.rows("up", static_cast<uint32_t>(up->rows));
  plain_all(r, input, {{gate, nullptr, g}, {up, nullptr, u}});
  const bool same = g.stride == y.stride && y.offset == 0 && y.width % 32 == 0;
  if (same && matmul8_fits(r, input, {gate, nullptr, g})) quantise_gated(r, activation, g, u, y);   // what follows will want it so
  else activate(r, activation, g, u, y);
}

}  // namespace gull::kernels
