# BLIS (Van Zee & van de Geijn 2015), the library of matrix products. Any flavour will do: each call runs on one thread,
# kernels/cpu/matmul.cpp divides the work itself. Why this one: docs/dependencies.md.
find_path(BLIS_INCLUDE_DIR blis.h PATH_SUFFIXES blis-openmp blis-pthread blis-serial blis)
longhaul_require("BLAS" BLIS_INCLUDE_DIR "no blis.h" libblis-openmp-dev)
find_library(BLIS_LIBRARY blis PATH_SUFFIXES blis-openmp blis-pthread blis-serial)
longhaul_require("BLAS" BLIS_LIBRARY "blis.h but no library blis" libblis-openmp-dev)
get_filename_component(blis_path "${BLIS_LIBRARY}" REALPATH)
set(LONGHAUL_BLAS_TEXT "BLIS, ${blis_path}")
longhaul_report("BLAS" "BLIS" "${blis_path}" "")
