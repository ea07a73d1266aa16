# Flags every target shares. Warnings are errors; no fast-math anywhere, because the same bits are promised.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # a build folder may be moved as a whole
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1")  # build type of the presets asan and tsan
if(LONGHAUL_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Sanitize")
  message(FATAL_ERROR "LONGHAUL_SANITIZE=${LONGHAUL_SANITIZE} needs CMAKE_BUILD_TYPE=Sanitize, not ${CMAKE_BUILD_TYPE}; use the presets asan and tsan.")
endif()
find_program(CCACHE ccache)
if(CCACHE)  # the setting lets it cache objects that use a precompiled header
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# Headers nearly every file of a target includes, precompiled. In sanitizer builds only: they are made anew on every test
# machine, while the other builds keep showing which include a file forgot.
function(longhaul_precompile target)
  if(LONGHAUL_SANITIZE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

add_library(longhaul_options INTERFACE)
target_include_directories(longhaul_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(longhaul_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;-ffp-contract=off;-fno-math-errno>)
target_link_options(longhaul_options INTERFACE LINKER:--as-needed)  # a CPU run must not load cuBLASLt
if(LONGHAUL_SANITIZE)
  set(sanitize -fsanitize=${LONGHAUL_SANITIZE} -fno-omit-frame-pointer)
  if(LONGHAUL_SANITIZE MATCHES "undefined")
    # Null pointers and accesses beyond an object are the address sanitizer's already; their second check would double
    # the time to compile.
    list(APPEND sanitize -fno-sanitize=null,object-size -fno-sanitize-recover=all)
  endif()
  target_compile_options(longhaul_options INTERFACE ${sanitize})
  target_link_options(longhaul_options INTERFACE ${sanitize})
endif()
