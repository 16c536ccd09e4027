// How kernels cut their work on one device, where measuring has shown something better than gull's own choice (`tune` in
// engine.h, `gull tune`).
#pragma once

#include <cstdint>

namespace gull {

/// Zeros: gull's own choice. Only shapes that gull offers for a device are used, any other is ignored with a warning.
struct Tuning {
  /// What a workgroup computes of a matrix product.
  struct Tile {
    uint32_t tokens = 0, rows = 0;
    uint32_t units = 0;       ///< parts of 64 along k that are staged at a time; 1 where the kernel leaves no choice
    bool operator==(const Tile&) const = default;
  };
  /// Threads of a workgroup, and those of them that share a row of a matrix.
  struct Split {
    uint32_t threads = 0, per_row = 0;
    bool operator==(const Split&) const = default;
  };
  Tile matmul8;      ///< many tokens, 8-bit activations
  Tile matmul;       ///< many tokens, float activations
  Split matvec8;     ///< one token, 8-bit activations
  Split gated8;      ///< the same for a gate and an up projection
  Split few;         ///< 2 to 16 tokens
  bool operator==(const Tuning&) const = default;
};

}  // namespace gull
