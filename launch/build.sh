#!/usr/bin/env bash
# Builds longhaul: launch/build.sh [release|cpu|cuda|asan|tsan] [target...]
# The default preset is release: the program is then build/release/longhaul. Presets: CMakePresets.json. Without targets the
# program and its libraries are built; `all` adds the tests. LONGHAUL_JOBS sets the parallel compilations (default: cores).
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

preset=${1:-release}
shift $(($# > 0 ? 1 : 0))
targets=("${@:-longhaul}")
case $preset in
  release | cpu | cuda | asan | tsan) ;;
  -h | --help) sed -n '2,4s/^# //p' "launch/build.sh"; exit 0 ;;
  *) echo "build.sh: unknown preset $preset; presets are release, cpu, cuda, asan, tsan" >&2; exit 2 ;;
esac
command -v cmake >/dev/null || { echo "build.sh: no cmake here; run launch/install-deps.sh first" >&2; exit 1; }

folder=build/$preset
if [ ! -f "$folder/CMakeCache.txt" ] && [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
  export CMAKE_GENERATOR=Ninja
fi
mkdir -p "$folder"
if ! cmake --preset "$preset" >"$folder/configure.log" 2>&1; then
  cat "$folder/configure.log" >&2
  exit 1
fi
sed -n '/^-- longhaul /,/^$/p' "$folder/configure.log"
cmake --build "$folder" --parallel "${LONGHAUL_JOBS:-$(nproc)}" --target "${targets[@]}"
echo "build.sh: built ${targets[*]} in $folder"
