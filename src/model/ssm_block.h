// Mamba's layers: a short convolution and a selective scan between two projections.
#pragma once

#include <string>

#include "kernels/ssm.h"
#include "model/metadata.h"

namespace gull::model {

/// Shape of the state-space layers of a model.
struct Ssm {
  uint32_t conv = 0, inner = 0, states = 0;
  uint32_t heads = 0;      ///< Mamba 2: heads that share a time step; Mamba 1: equal to `inner`
  uint32_t dt_rank = 0;    ///< Mamba 1: width of the time step's projection
  uint32_t groups = 1;
  uint32_t conv_width() const { return inner + 2 * groups * states; }   ///< of Mamba 2: x | B | C
};

/// Reads ssm.conv_kernel, inner_size, state_size, time_step_rank and group_count.
Ssm read_ssm(Metadata& meta, bool second);
/// Adds the two states of a layer (convolution, scan) to the config; returns the first one's index.
size_t add_ssm_states(Config& config, const Ssm& ssm, bool second);
/// Checks the tensors of one Mamba 2 layer.
void expect_mamba2(Metadata& meta, const std::string& prefix, uint64_t hidden, const Ssm& ssm);
/// x += Wout · norm?(scan(conv(…)) ⊙ silu(z)), where z | x | B | C | dt = Win · norm(input): a layer of Mamba 2.
void mamba2(Recorder& r, const Rows& input, const kernels::Norm& n, const std::string& prefix, const Ssm& ssm, const Inputs& in, size_t state,
            float eps, const Rows& x);

}  // namespace gull::model
