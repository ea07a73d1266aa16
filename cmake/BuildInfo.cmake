# longhaul_build_info(<target>): compiles what the program was built from into one generated file of <target>.
# The values known at configure time are filled in now; the commit is filled in at build time, and the file is only
# rewritten when it changed, so that a new commit recompiles this one file (and ccache keeps working for all others).
if(CMAKE_SCRIPT_MODE_FILE)  # build time: cmake -DSOURCE=... -DIN=... -DOUT=... -P BuildInfo.cmake
  set(LONGHAUL_COMMIT "unknown")
  execute_process(COMMAND git describe --always --abbrev=12 --exclude=* --dirty=-modified WORKING_DIRECTORY ${SOURCE}
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(LONGHAUL_COMMIT ${described})
  endif()
  configure_file(${IN} ${OUT} @ONLY)
  return()
endif()

set(BUILD_INFO_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(longhaul_build_info target)
  set(LONGHAUL_COMMIT "@LONGHAUL_COMMIT@")  # left for build time
  set(half ${CMAKE_BINARY_DIR}/generated/build_info.cpp.in)
  set(generated ${CMAKE_BINARY_DIR}/generated/build_info.cpp)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/build_info.cpp.in ${half} @ONLY)
  add_custom_target(${target}_build_info BYPRODUCTS ${generated} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DIN=${half} -DOUT=${generated} -P ${BUILD_INFO_SCRIPT})
  target_sources(${target} PRIVATE ${generated})
  set_source_files_properties(${generated} PROPERTIES GENERATED ON SKIP_UNITY_BUILD_INCLUSION ON)
  add_dependencies(${target} ${target}_build_info)
endfunction()
