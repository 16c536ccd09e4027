# Installs the program, the public headers, every room, and a CMake package: find_package(gull) gives gull::gull (language
# models) and gull::compute (tensor operations alone). In the build tree the same two names are aliases.
if(NOT TARGET gull_engine OR GULL_WASM)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(gull_library INTERFACE)
set_target_properties(gull_library PROPERTIES EXPORT_NAME gull)
target_link_libraries(gull_library INTERFACE gull_engine)
add_library(gull::gull ALIAS gull_library)
if(TARGET gull_compute)
  set_target_properties(gull_compute PROPERTIES EXPORT_NAME compute)
  add_library(gull::compute ALIAS gull_compute)
endif()

get_property(_rooms GLOBAL PROPERTY GULL_ROOMS)
install(TARGETS gull_library ${_rooms} EXPORT gull-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/gull DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gull)
install(EXPORT gull-targets NAMESPACE gull:: DESTINATION ${_package_dir})
if(GULL_WGPU_LIBRARY)   # the fetched wgpu-native goes with it; a system-installed one is found again
  install(FILES ${GULL_WGPU_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  get_filename_component(GULL_WGPU_FILE ${GULL_WGPU_LIBRARY} NAME)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/gull-config.cmake.in ${PROJECT_BINARY_DIR}/gull-config.cmake
  INSTALL_DESTINATION ${_package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gull-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gull-config.cmake ${PROJECT_BINARY_DIR}/gull-config-version.cmake DESTINATION ${_package_dir})

if(TARGET gull)
  file(RELATIVE_PATH _to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(gull PROPERTIES INSTALL_RPATH "$ORIGIN/${_to_lib}")
  install(TARGETS gull RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
