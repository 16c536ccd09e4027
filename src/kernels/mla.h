// Moving parts of heads about, for attention whose heads are put together from several projections.
#pragma once

#include "kernels/ops.h"

namespace gull::kernels {

/// to[t, g·to_step + i] = from[t, g·from_step + i] for g < groups, i < width. A from_step of 0 repeats one part.
struct CopyGroups {
  Rows from;
  uint32_t from_step = 0;
  Rows to;                     ///< another buffer than from's
  uint32_t to_step = 0;
  uint32_t groups = 1, width = 0;
};
void copy_groups(Recorder& r, const CopyGroups& c);

}  // namespace gull::kernels
