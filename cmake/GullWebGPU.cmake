# webgpu::webgpu: a system-installed implementation where CMake finds one, else wgpu-native v29 with its headers from
# the Python wheel wgpu 0.32.0 (MIT OR Apache-2.0), fetched by the ordinary pip client and checked by hash.
find_package(webgpu CONFIG QUIET)
if(TARGET webgpu::webgpu)
  message(STATUS "WebGPU: the system's ${webgpu_DIR}")
  return()
endif()
set(GULL_WGPU_WHEEL_VERSION 0.32.0)
set(_dir ${PROJECT_SOURCE_DIR}/.deps/wgpu-${GULL_WGPU_WHEEL_VERSION})
set(_lib ${_dir}/lib/libwgpu_native${CMAKE_SHARED_LIBRARY_SUFFIX})
if(NOT EXISTS ${_dir}/.complete)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/fetch_wgpu.py ${GULL_WGPU_WHEEL_VERSION} ${_dir}
                  RESULT_VARIABLE _status)
  if(NOT _status EQUAL 0)
    message(FATAL_ERROR "Could not fetch wgpu-native. Install a WebGPU implementation that CMake finds as webgpu::webgpu, or let pip reach its index.")
  endif()
endif()
add_library(webgpu::webgpu SHARED IMPORTED GLOBAL)
set_target_properties(webgpu::webgpu PROPERTIES IMPORTED_LOCATION ${_lib} IMPORTED_NO_SONAME TRUE
  INTERFACE_INCLUDE_DIRECTORIES ${_dir}/include INTERFACE_COMPILE_DEFINITIONS GULL_HAS_WGPU_NATIVE=1)
set(GULL_WGPU_LIBRARY ${_lib})
