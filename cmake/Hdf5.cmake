# HDF5, serial or parallel: every rank writes files of its own through the serial interface, so both will do. What will not
# do is the headers of one build and the library of another (they agree at compile time and fail at link or run time), so a
# small program compares the two.
set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 QUIET COMPONENTS C)
longhaul_require("HDF5" HDF5_FOUND "no library with headers" libhdf5-dev)
set(hdf5_libraries ${HDF5_C_LIBRARIES})
set(hdf5_includes ${HDF5_C_INCLUDE_DIRS})
if(HDF5_IS_PARALLEL)  # its hdf5.h includes mpi.h
  list(APPEND hdf5_libraries MPI::MPI_CXX)
endif()

# Answers "<header version> <header parallel> <library version> <library parallel>". Run again whenever another HDF5 is found.
set(hdf5_found "${HDF5_C_LIBRARIES}|${HDF5_C_INCLUDE_DIRS}")
if(NOT hdf5_found STREQUAL LONGHAUL_HDF5_CHECKED)
  try_run(hdf5_ran hdf5_compiled ${CMAKE_BINARY_DIR}/hdf5_check ${CMAKE_CURRENT_LIST_DIR}/hdf5_check.cpp
          CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${hdf5_includes}"
          LINK_LIBRARIES ${hdf5_libraries} ${CMAKE_DL_LIBS}
          COMPILE_OUTPUT_VARIABLE hdf5_compile_output RUN_OUTPUT_VARIABLE hdf5_answer)
  longhaul_require("HDF5" hdf5_compiled "headers in ${HDF5_C_INCLUDE_DIRS} and library ${HDF5_C_LIBRARIES}, which do not compile and link together" libhdf5-dev)
  if(NOT hdf5_ran EQUAL 0 OR NOT hdf5_answer MATCHES "^([0-9.]+) (serial|parallel) ([0-9.]+) (serial|parallel)$")
    message(FATAL_ERROR "HDF5: a program linked with ${HDF5_C_LIBRARIES} does not start (${hdf5_ran}: ${hdf5_answer}); install libhdf5-dev and remove other copies from the library path.")
  endif()
  if(NOT "${CMAKE_MATCH_1} ${CMAKE_MATCH_2}" STREQUAL "${CMAKE_MATCH_3} ${CMAKE_MATCH_4}")
    message(FATAL_ERROR "HDF5: headers in ${HDF5_C_INCLUDE_DIRS} are ${CMAKE_MATCH_1} ${CMAKE_MATCH_2}, the library ${HDF5_C_LIBRARIES} is ${CMAKE_MATCH_3} ${CMAKE_MATCH_4}; both must come from one build. Install libhdf5-dev, or set HDF5_ROOT to the one to use.")
  endif()
  set(LONGHAUL_HDF5_TEXT "${CMAKE_MATCH_3} ${CMAKE_MATCH_4}" CACHE INTERNAL "")
  set(LONGHAUL_HDF5_CHECKED "${hdf5_found}" CACHE INTERNAL "")
endif()

add_library(longhaul_hdf5 INTERFACE)
target_include_directories(longhaul_hdf5 SYSTEM INTERFACE ${hdf5_includes})
target_link_libraries(longhaul_hdf5 INTERFACE ${hdf5_libraries})
list(GET HDF5_C_LIBRARIES 0 hdf5_library)
longhaul_report("HDF5" "${LONGHAUL_HDF5_TEXT}" "${hdf5_library}" "")
