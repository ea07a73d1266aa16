#!/usr/bin/env bash
# Compares longhaul with PyTorch and Hugging Face transformers: tests/oracle/run.sh [--venv-only] [LONGHAUL_BINARY]
# Makes (about 6 GB, once) or reuses a virtual environment at ${LONGHAUL_ORACLE_VENV:-$HOME/.cache/longhaul/oracle}.
# Prints one line per comparison with the largest difference found and ends with "oracle: N passed, N failed".
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

venv=${LONGHAUL_ORACLE_VENV:-$HOME/.cache/longhaul/oracle}
venv_only=
binary=build/release/longhaul
for argument in "$@"; do
  case $argument in
    --venv-only) venv_only=1 ;;
    -h | --help) sed -n '2,4s/^# //p' tests/oracle/run.sh; exit 0 ;;
    -*) echo "oracle: unknown option $argument; the only one is --venv-only" >&2; exit 2 ;;
    *) binary=$argument ;;
  esac
done

if ! "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
  echo "oracle: making the virtual environment $venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet torch transformers
fi
[ -z "$venv_only" ] || exit 0
[ -x "$binary" ] || { echo "oracle: $binary is missing; run ./launch/build.sh" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
"$venv/bin/python" tests/oracle/compare.py "$binary" "$work"
