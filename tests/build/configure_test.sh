#!/usr/bin/env bash
# ctest: label=unit timeout=300
# What the configuration says when a part is missing or does not fit: one line that names what was found and what to install.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# configure NAME ARGUMENT...: configures into a folder of its own; the output, unwrapped into one line, is in $output.
configure() {
  local name=$1
  shift
  output=$(cmake -S "$root" -B "$work/$name" -DLONGHAUL_TESTS=OFF "$@" 2>&1)
  code=$?
  output=$(tr -s ' \n' ' ' <<<"$output")
}
# expect NAME WANTED-CODE(0 or 1) TEXT...: every text must be in the output.
expect() {
  local name=$1 wanted=$2 text
  shift 2
  [ $((code != 0)) -eq "$wanted" ] || { echo "FAIL $name: exit code $code: $output"; failures=$((failures + 1)); }
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { echo "FAIL $name: no '$text' in: $output"; failures=$((failures + 1)); }
  done
}

configure without-cuda -DLONGHAUL_CUDA=OFF
expect without-cuda 0 "CUDA off" "devices other than cpu are refused" "HDF5" "CPU kernels"
checked=$(sed -n 's/^LONGHAUL_HDF5_CHECKED:INTERNAL=//p' "$work/without-cuda/CMakeCache.txt")  # libraries|include folders

CUDACXX=$work/no-nvcc configure no-nvcc -DLONGHAUL_CUDA=ON
expect no-nvcc 1 "CUDA: found no nvcc" "use the preset cpu"

configure no-mpi -DLONGHAUL_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
expect no-mpi 1 "MPI: found no MPI compiler wrapper or mpi.h" "Install libopenmpi-dev and openmpi-bin"

configure no-hdf5 -DLONGHAUL_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_HDF5=ON
expect no-hdf5 1 "HDF5: found no library with headers" "Install libhdf5-dev"

# The headers of another HDF5 than the library's: a copy of the real ones that claims another version, then a parallel one.
libraries=${checked%|*}
headers=${checked#*|}
headers=${headers%%;*}
[ -r "$headers/H5public.h" ] || { echo "FAIL: no HDF5 headers in '$headers'"; exit 1; }
mkdir "$work/modules"
cat >"$work/modules/FindHDF5.cmake" <<CMAKE
set(HDF5_FOUND TRUE)
set(HDF5_IS_PARALLEL \${FAKE_PARALLEL})
set(HDF5_C_INCLUDE_DIRS \${FAKE_INCLUDES})
set(HDF5_C_LIBRARIES "$libraries")
CMAKE
for kind in version parallel; do
  cp -r "$headers" "$work/$kind-headers"
done
sed -i 's/^\(# *define *H5_VERS_RELEASE\).*/\1 77/' "$work/version-headers/H5public.h"
find "$work/parallel-headers" -name 'H5pubconf*.h' -exec sed -i '$i #define H5_HAVE_PARALLEL 1' {} +

configure version -DLONGHAUL_CUDA=OFF -DCMAKE_MODULE_PATH="$work/modules" -DFAKE_INCLUDES="$work/version-headers" -DFAKE_PARALLEL=FALSE
expect version 1 "HDF5: headers in $work/version-headers are" ".77 serial" "both must come from one build"
configure parallel -DLONGHAUL_CUDA=OFF -DCMAKE_MODULE_PATH="$work/modules" -DFAKE_INCLUDES="$work/parallel-headers" -DFAKE_PARALLEL=TRUE
expect parallel 1 "parallel, the library" "serial; both must come from one build"

[ $failures -eq 0 ] && echo "all configurations said what they should"
exit $((failures > 0))
