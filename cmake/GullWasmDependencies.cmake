# What the rooms link, for wasm32-wasi: the same target names as in GullDependencies.cmake. fmt and nlohmann-json are
# used as headers of the system's packages; webgpu.h and utf8proc.h are only headers, and of PCRE2 there is nothing at all:
# web/lib implements them.
set(_headers ${PROJECT_BINARY_DIR}/system-headers)   # not /usr/include itself, which holds another libc
file(MAKE_DIRECTORY ${_headers})
foreach(_library fmt nlohmann)
  find_path(GULL_${_library}_PARENT NAMES ${_library} PATHS /usr/include /usr/local/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  file(CREATE_LINK ${GULL_${_library}_PARENT}/${_library} ${_headers}/${_library} SYMBOLIC)
endforeach()
add_library(fmt::fmt INTERFACE IMPORTED GLOBAL)
set_target_properties(fmt::fmt PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${_headers}
                      INTERFACE_COMPILE_DEFINITIONS "FMT_HEADER_ONLY=1;FMT_EXCEPTIONS=0;FMT_STATIC_THOUSANDS_SEPARATOR=','")
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
set_target_properties(nlohmann_json::nlohmann_json PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${_headers}
                      INTERFACE_COMPILE_DEFINITIONS "JSON_NOEXCEPTION=1")
add_library(Threads::Threads INTERFACE IMPORTED GLOBAL)

set(GULL_WGPU_WHEEL_VERSION 0.32.0)
set(_wgpu ${PROJECT_SOURCE_DIR}/.deps/wgpu-${GULL_WGPU_WHEEL_VERSION})
find_package(Python3 REQUIRED COMPONENTS Interpreter)
function(_gull_fetch folder)
  if(NOT EXISTS ${folder}/.complete)
    execute_process(COMMAND ${Python3_EXECUTABLE} ${ARGN} RESULT_VARIABLE _status)
    if(NOT _status EQUAL 0)
      message(FATAL_ERROR "Could not fetch ${folder}: let pip reach its index.")
    endif()
  endif()
endfunction()
_gull_fetch(${_wgpu} ${PROJECT_SOURCE_DIR}/scripts/fetch_wgpu.py ${GULL_WGPU_WHEEL_VERSION} ${_wgpu})
add_library(webgpu::webgpu INTERFACE IMPORTED GLOBAL)
set_target_properties(webgpu::webgpu PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${_wgpu}/include)
set(GULL_WEBGPU_HEADER ${_wgpu}/include/webgpu.h)

# Of utf8proc only the header: web/src/unicode.cpp has the browser answer.
find_path(GULL_UTF8PROC_INCLUDE NAMES utf8proc.h PATHS /usr/include /usr/local/include REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(CREATE_LINK ${GULL_UTF8PROC_INCLUDE}/utf8proc.h ${_headers}/utf8proc.h SYMBOLIC)
add_library(gull_utf8proc INTERFACE)
target_include_directories(gull_utf8proc INTERFACE ${_headers})
target_compile_definitions(gull_utf8proc INTERFACE UTF8PROC_STATIC=1)
