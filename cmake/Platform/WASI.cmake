# CMake 3.25 does not know WASI: static libraries only, nothing of the host.
set(CMAKE_DL_LIBS "")
set(UNIX 1)
