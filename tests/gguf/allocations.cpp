#include "gguf/allocations.h"

#include <cstdlib>
#include <new>

size_t allocations::largest = 0;

void* operator new(size_t size) {
  if (size > allocations::largest) allocations::largest = size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
