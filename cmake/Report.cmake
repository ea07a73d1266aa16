# The table of what was found, printed once at the end of the configuration.
#   longhaul_report(<name> <version> <place> <note>)   one line; an empty version means "not found"
#   longhaul_require(<name> <condition variable> <what was found> <package>)   stops with one line when the variable is false
set_property(GLOBAL PROPERTY LONGHAUL_REPORT "")

function(longhaul_column out text width)
  string(LENGTH "${text}" length)
  math(EXPR missing "${width} - ${length}")
  if(missing GREATER 0)
    string(REPEAT " " ${missing} padding)
  endif()
  set(${out} "${text}${padding}" PARENT_SCOPE)
endfunction()

function(longhaul_report name version place note)
  if(version STREQUAL "")
    set(version "-")
  endif()
  longhaul_column(name "${name}" 14)
  longhaul_column(version "${version}" 18)
  if(note)
    set(note "  [${note}]")
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY LONGHAUL_REPORT "  ${name} ${version} ${place}${note}\n")
endfunction()

function(longhaul_print_report)
  get_property(report GLOBAL PROPERTY LONGHAUL_REPORT)
  message(STATUS "longhaul ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, in ${CMAKE_BINARY_DIR}\n${report}")
endfunction()

function(longhaul_require name condition found package)
  if(NOT ${condition})
    message(FATAL_ERROR "${name}: found ${found}; needed to build longhaul. Install ${package} (launch/install-deps.sh installs everything on Debian and Ubuntu).")
  endif()
endfunction()
