// Text of kernels that may be links of a chain (dispatch/chain.h). Private to src/kernels.
#pragma once

#include <functional>
#include <string>

namespace gull::kernels {

/// WGSL: `threads` threads (number `t`) take `count` words of the area, number i at word `at(i)`, and `store` each. All that a thread
/// takes is asked for at once; while some of many words is missing, it looks for one only, so as to leave the memory to others. `before`: a
/// u32 of what has to have arrived before that. (Compilers move loads down to where their values are used, beyond the waiting.)
std::string take_all(uint32_t count, uint32_t threads, const std::string& before, const std::function<std::string(const std::string& i)>& at,
                     const std::function<std::string(const std::string& i, const std::string& v)>& store);

}  // namespace gull::kernels
