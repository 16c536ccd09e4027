// Plans replayed under a budget: segment by segment, each part with its weights on the GPU.
#pragma once

#include <optional>

#include "weights/weight_cache.h"

namespace gull::weights {

/// One replay. The cache's turn is held meanwhile.
class StreamedRun {
 public:
  StreamedRun(WeightCache& cache, std::span<const Stage> stages);
  /// Returns the number of dispatches.
  Result<uint64_t> go();

 private:
  struct Stop { const Stage* stage; size_t segment; };
  void make_route();
  Result<std::vector<size_t>> steps_of(const Stop& stop);
  Result<size_t> group(const Stop& stop, std::span<const size_t> steps, std::vector<TileRef>& tiles) const;
  Result<void> run_group(const Stop& stop, std::span<const size_t> steps, std::span<const TileRef> tiles, uint32_t at);
  Result<void> submit();
  void read_ahead(uint32_t at);

  WeightCache& cache_;
  std::span<const Stage> stages_;
  std::vector<Stop> stops_;
  std::optional<gpu::Commands> commands_;   ///< encoded and not yet submitted
  uint64_t dispatches_ = 0;
};

}  // namespace gull::weights
