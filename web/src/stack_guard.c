// Debian's compiler runtime for wasm32 was built with stack protection, whose two symbols wasi-libc lacks.
#include <stdint.h>

uintptr_t __stack_chk_guard = 0x595e9fbdu;
_Noreturn void __stack_chk_fail(void) { __builtin_trap(); }
