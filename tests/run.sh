#!/usr/bin/env bash
# Runs the tests: tests/run.sh [--label LABEL] [--skip-sanitizers]
# Without options: installs what is missing, builds release, asan and tsan, runs every test of the release build except those
# labelled slow, then unit and kernel tests under the sanitizers. --label runs the tests of one label, release build only.
# Ends with one line "longhaul: N passed, N failed, N skipped"; exits non-zero when anything failed to build or to pass.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

label=
sanitizers=yes
while [ $# -gt 0 ]; do
  case $1 in
    --label) label=${2:?run.sh: --label needs a label: unit, kernels, mpi, exact, e2e, reliability or slow}; sanitizers=; shift 2 ;;
    --skip-sanitizers) sanitizers=; shift ;;
    -h | --help) sed -n '2,5s/^# //p' tests/run.sh; exit 0 ;;
    *) echo "run.sh: unknown option $1; options are --label LABEL and --skip-sanitizers" >&2; exit 2 ;;
  esac
done

jobs=${LONGHAUL_JOBS:-$(nproc)}
failed=()
reports=()
started=$SECONDS
say() { printf '\n== %s (%d s so far)\n' "$*" $((SECONDS - started)); }

# run_tests PRESET "TARGET..." CTEST_ARGUMENT...: builds the targets of the preset, then runs the tests chosen.
run_tests() {
  local preset=$1 report=build/$1/junit.xml targets
  read -ra targets <<<"$2"
  shift 2
  say "build $preset"
  if ! ./launch/build.sh "$preset" "${targets[@]}"; then
    failed+=("the build of $preset")
    return
  fi
  say "test $preset"
  rm -f "$report"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" --output-junit "$PWD/$report" "$@" ||
    failed+=("tests of $preset")
  reports+=("$report")
}

say "packages"
./launch/install-deps.sh || exit 1
if [ -n "$label" ]; then
  run_tests release all -L "^$label\$"
else
  run_tests release all -LE '^slow$'
fi
if [ -n "$sanitizers" ]; then
  run_tests asan "kernels_tests core_tests data_tests parallel_tests launch_tests" -L '^(unit|kernels)$'
  # Where the project starts threads of its own; the kernels run with one OpenMP thread there and have nothing to show.
  run_tests tsan "core_tests data_tests parallel_tests" -L '^unit$'
fi

say "done"
[ ${#failed[@]} -eq 0 ] || printf 'FAILED: %s\n' "${failed[@]}"
python3 tests/summary.py ${reports[@]+"${reports[@]}"} || failed+=(tests)
[ ${#failed[@]} -eq 0 ]
