# Debian's clang 19 for wasm32-wasi (packages clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32
# libclang-rt-19-dev-wasm32): no exceptions and no threads, as its libc++ is built.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})   # Platform/WASI.cmake
set(GULL_WASM ON CACHE BOOL "Build gull's rooms for the browser" FORCE)
find_program(GULL_WASM_CC NAMES clang-19 REQUIRED)
find_program(GULL_WASM_CXX NAMES clang++-19 REQUIRED)
set(CMAKE_C_COMPILER ${GULL_WASM_CC})
set(CMAKE_CXX_COMPILER ${GULL_WASM_CXX})
# Archives without an index: the host's ar cannot read these objects, and wasm-ld needs none.
foreach(_language C CXX)
  set(CMAKE_${_language}_ARCHIVE_CREATE "<CMAKE_AR> qcS <TARGET> <OBJECTS>")
  set(CMAKE_${_language}_ARCHIVE_APPEND "<CMAKE_AR> qS <TARGET> <OBJECTS>")
  set(CMAKE_${_language}_ARCHIVE_FINISH "")
endforeach()
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# SIMD and bulk memory are in every browser that has WebGPU.
set(CMAKE_C_FLAGS_INIT "-msimd128 -mbulk-memory -ffunction-sections -fdata-sections")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT} -fno-exceptions -fno-rtti -fno-threadsafe-statics")
# The GPU computes; what runs here is to arrive fast.
set(CMAKE_C_FLAGS_RELEASE "-Oz -DNDEBUG -flto" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG -flto" CACHE STRING "")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
