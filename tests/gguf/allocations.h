// Watches operator new: the largest single allocation since `reset`. Link allocations.cpp.
#pragma once

#include <cstddef>

namespace allocations {
extern size_t largest;
inline void reset() { largest = 0; }
}  // namespace allocations
