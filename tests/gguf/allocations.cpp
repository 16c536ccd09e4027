#include "gguf/allocations.h"

#include <cstdlib>
#include <new>

size_t allocations::largest = 0;

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (size > allocations::largest) allocations::largest = size;
  return std::malloc(size);
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
