// The register-tiled matrix product behind gemm and the convolutions: what differs between them is only how elements of
// the two factors are fetched and how results are stored, and those functions are given as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "gpu/device.h"

namespace gull::compute {

/// A workgroup makes `m`×`n` results in steps of `k`; each invocation makes `thread_m`×`thread_n` of them in registers.
struct TileShape {
  uint32_t m, n, k, thread_m, thread_n;
  constexpr uint32_t threads() const { return (m / thread_m) * (n / thread_n); }
  constexpr uint32_t bytes() const { return (m + n) * k * 4; }   ///< of workgroup memory
};

/// How one factor is fetched. "Outer" is m for A and n for B.
struct TileLoad {
  bool along_k = false;   ///< neighbours in memory are neighbours along k (else along the outer axis)
  bool vec4 = false;      ///< four neighbours at a time
};

struct TileSpec {
  TileShape shape;
  TileLoad a, b;
  bool half = false;      ///< tiles are staged as f16 (both factors are f16 already, so nothing is lost)
  bool prefetch = true;   ///< the next tile is fetched while this one is multiplied; off: a short text, for long fetches
};

/// The text of `main` and its workgroup memory. It wants, from whoever calls it:
///   Params with m, n, k, tiles_m, tiles_n, groups
///   fn fetch_a(z: u32, outer: u32, k: u32) -> f32 or vec4<f32>   (zeros beyond k; anything beyond the outer size)
///   fn fetch_b(z: u32, outer: u32, k: u32) -> the same
///   fn store(z: u32, row: u32, col: u32, v: vec4<f32>)           (row, col may lie beyond m, n)
/// where z counts the matrices of a batch.
std::string tile_kernel(const TileSpec& spec);

/// Workgroups for z matrices of m×n.
struct TileGrid { uint32_t tiles_m, tiles_n; uint64_t groups; };
TileGrid tile_grid(const TileShape& shape, uint32_t m, uint32_t n, uint64_t z);

/// All shapes that can be chosen or forced.
std::span<const TileShape> tile_shapes();
/// The index in tile_shapes() of the one to use for z products of m×n×k on a device.
uint32_t choose_tile(const gpu::Caps& caps, uint32_t m, uint32_t n, uint64_t z);

}  // namespace gull::compute
