# Libraries from the system's packages; scripts/install-dependencies names the packages.
find_package(fmt 9 REQUIRED)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
include(GullWebGPU)
if(GULL_TESTS)
  find_package(GTest REQUIRED)
endif()
