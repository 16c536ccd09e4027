// Matrix × vector: one token's projections. Private to src/kernels.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// How the work of a matvec is cut: `per_row` threads share a row, each handles `rows` rows; `workgroup` threads in all.
struct MatvecShape { uint32_t workgroup = 64, per_row = 16, rows = 4; };

/// What one dispatch computes.
struct Matvec {
  Rows x;
  Norm norm;
  std::vector<Projection> outputs;   ///< one to three; all y in one buffer
  bool add = false;                  ///< y += …
  bool gated = false;                ///< outputs[0] is the gate, outputs[1] the up projection; one result
  Activation activation = Activation::None;
  uint64_t shape_rows = 0;           ///< rows that decide how the work is cut, where this is a part of something larger; 0: its own

  uint64_t rows_for_shape() const {
    uint64_t rows = 0;
    for (const Projection& p : outputs) rows += p.weight->rows;
    return shape_rows ? shape_rows : rows;
  }
};
/// The tile that a dispatch reads, or null where a weight has several and none was named.
inline weights::TileRef only_tile(const Projection& p) { return p.tile ? p.tile : p.weight->tiles.size() == 1 ? p.weight->tiles[0] : nullptr; }

MatvecShape matvec_shape(const gpu::Caps& caps, uint64_t k, uint64_t rows);
/// Whether it fits one dispatch: single tiles, one output buffer, bindings within the device's count.
bool matvec_fits(const Recorder& r, const Matvec& m);
void matvec(Recorder& r, const Matvec& m, MatvecShape shape);
/// One tile of one projection, the general case. No norm.
void matvec_tile(Recorder& r, const Rows& x, const Projection& p, const std::shared_ptr<weights::Tile>& tile, bool add);

}  // namespace gull::kernels
