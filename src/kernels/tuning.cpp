#include "kernels/tuning.h"

#include <algorithm>
#include <bit>

#include "kernels/matmul.h"
#include "kernels/matmul8.h"

namespace gull::kernels {
namespace {

template <class T>
void keep_known(T& shape, const std::vector<T>& known) {
  if (std::find(known.begin(), known.end(), shape) == known.end()) shape = {};
}

}  // namespace

TuningChoices tuning_choices(const gpu::Caps& caps, bool joined) {
  TuningChoices out;
  const uint32_t most = std::min(caps.max_invocations, caps.max_workgroup_x);
  if (most < 256) return out;
  for (const Tuning::Tile tile : {Tuning::Tile{32, 64, 1}, {32, 128, 1}, {64, 64, 1}, {64, 128, 1}, {128, 64, 1}, {128, 128, 1}, {32, 64, 2}, {64, 64, 2},
                                  {64, 128, 2}, {128, 64, 2}, {32, 64, 4}}) {
    if (matmul8_memory(tile) <= caps.max_workgroup_memory) out.matmul8.push_back(tile);
    if (const auto shape = matmul_shape(tile); shape && matmul_memory(*shape) <= caps.max_workgroup_memory) out.matmul.push_back(tile);
  }
  for (const uint32_t threads : {128u, 256u, 512u, 1024u})
    for (const uint32_t per_row : {8u, 16u, 32u}) {
      if (threads > most || 32 * per_row < threads) continue;
      const Tuning::Split split{threads, per_row};
      if (joined ? threads == kChainThreads : threads >= 256) out.matvec8.push_back(split), out.gated8.push_back(split);
      if (const RowShape few = fitted(split, per_row); few.rows <= kFewRows && few_memory(few) <= caps.max_workgroup_memory) out.few.push_back(split);
    }
  return out;
}

Tuning proven(const gpu::Caps& caps, Tuning tuning) {
  const TuningChoices choices = tuning_choices(caps);
  keep_known(tuning.matmul8, choices.matmul8), keep_known(tuning.matmul, choices.matmul);
  keep_known(tuning.matvec8, choices.matvec8), keep_known(tuning.gated8, choices.gated8), keep_known(tuning.few, choices.few);
  return tuning;
}

RowShape fitted(Tuning::Split split, uint32_t units) {
  const uint32_t per_row = std::min(split.per_row, std::max(std::bit_ceil(units), 8u));
  const uint32_t threads = std::min(split.threads, 32 * per_row);
  return {threads, per_row, 32 * per_row / threads};
}

uint32_t few_memory(const RowShape& s) { return 4 * kFewAtOnce * (2 * 32 + s.threads / s.per_row * (s.per_row + 1)); }

}  // namespace gull::kernels
