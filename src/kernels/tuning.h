// The shapes that kernels may be given. Private to gull; the tests force each of them.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "gull/tuning.h"

namespace gull::kernels {

/// Threads of a workgroup of a step that is joined with others (dispatch/chain.h): all of one dispatch have the same.
inline constexpr uint32_t kChainThreads = 256;

/// What a device can take, kernel by kernel; `joined`: where the steps of a token are.
struct TuningChoices {
  std::vector<Tuning::Tile> matmul8, matmul;
  std::vector<Tuning::Split> matvec8, gated8, few;
};
TuningChoices tuning_choices(const gpu::Caps& caps, bool joined = false);

/// `tuning` with zeros in place of the shapes that are not among the choices.
Tuning proven(const gpu::Caps& caps, Tuning tuning);

/// A shape for rows of `units` units: no more threads a row than there are units (but 8), and 32 rows a workgroup.
struct RowShape { uint32_t threads, per_row, rows; };
RowShape fitted(Tuning::Split split, uint32_t units);

/// Plans for up to this many tokens have tiles of their own, whatever the tuning.
inline constexpr uint32_t kSmallBatch = 64;

/// Tokens of a workgroup of the kernels for a few tokens, and what it takes of workgroup memory where sums do not go through
/// subgroups: at most, with both of a gated pair's results.
inline constexpr uint32_t kFewAtOnce = 4;
/// Rows of one of their threads, at most: more leave too few threads.
inline constexpr uint32_t kFewRows = 4;
uint32_t few_memory(const RowShape& shape);

}  // namespace gull::kernels
