# gull_room(NAME SOURCES … USES rooms… LINKS libraries…): one folder, one static library gull_NAME.
# USES is the list of rooms that it may include from: a room that is not listed is not on its link line.
function(gull_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(gull_${name} STATIC ${ARG_SOURCES})
  target_include_directories(gull_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:include>)
  target_compile_features(gull_${name} PUBLIC cxx_std_23)
  target_compile_options(gull_${name} PRIVATE -Wall -Wextra -Wno-missing-field-initializers
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)   # GCC 12 sees an overlap in std::string that is not there
  if(GULL_SANITIZE)
    target_compile_options(gull_${name} PUBLIC -fsanitize=${GULL_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(gull_${name} PUBLIC -fsanitize=${GULL_SANITIZE})
  endif()
  foreach(used ${ARG_USES})
    target_link_libraries(gull_${name} PUBLIC gull_${used})
  endforeach()
  target_link_libraries(gull_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  set_property(GLOBAL APPEND PROPERTY GULL_ROOMS gull_${name})
endfunction()

# gull_test(NAME SOURCES … ROOMS rooms… LINKS libraries… [ENVIRONMENT k=v…] [LABELS …] [TIMEOUT s] [COST s] [SERIAL]): one GoogleTest program, one
# ctest entry. COST: about how long it takes with nothing compiled yet, where that is minutes: these start first. SERIAL: it looks at
# times, so nothing runs beside it.
function(gull_test name)
  if(NOT GULL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT;COST" "SOURCES;ROOMS;LINKS;ENVIRONMENT;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wno-missing-field-initializers)
  target_compile_definitions(${name} PRIVATE GULL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" GULL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(room ${ARG_ROOMS})
    target_link_libraries(${name} PRIVATE gull_${room})
  endforeach()
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "XDG_RUNTIME_DIR=/tmp;${ARG_ENVIRONMENT}" RUN_SERIAL ${ARG_SERIAL})
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()
