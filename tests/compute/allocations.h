// Counts what `operator new` hands out in this program.
#pragma once

#include <cstdint>

namespace gull::test {
uint64_t allocations();
}
