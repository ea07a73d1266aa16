#!/usr/bin/env bash
# Speed and memory of whole training steps of GPT-2 124M (fp32, clipping, AdamW) against PyTorch eager, same threads:
#   tests/benchmarks/compare.sh [--rounds N] [--steps N] [--threads N]
# Runs alternate (longhaul, PyTorch, longhaul, ...), so that a machine that changes its speed changes it for both; medians and
# ratios are printed for 4 rows of 64 tokens and 1 row of 512. Uses the virtual environment that tests/oracle/run.sh makes.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

rounds=3 steps=5 threads=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --steps) steps=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    *) echo "compare.sh: unknown option $1; options are --rounds N, --steps N, --threads N" >&2; exit 2 ;;
  esac
done
program=${LONGHAUL:-build/release/longhaul}
environment=${LONGHAUL_ORACLE_VENV:-$HOME/.cache/longhaul/oracle}
[ -x "$program" ] || { echo "compare.sh: no program at $program; run launch/build.sh" >&2; exit 1; }
[ -x "$environment/bin/python" ] || { echo "compare.sh: no virtual environment at $environment; run tests/oracle/run.sh" >&2; exit 1; }

# A forced core type would slow down one side only.
unset OPENBLAS_CORETYPE MKL_DEBUG_CPU_TYPE MKL_ENABLE_INSTRUCTIONS
export OMP_NUM_THREADS=$threads
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

for sizes in "4 64" "1 512"; do
  read -r rows length <<<"$sizes"
  for round in $(seq "$rounds"); do
    echo "B=$rows T=$length round $round of $rounds" >&2
    "$program" bench step --config configs/gpt2-124m.ini --set model.vocab_size=50257 --set runtime.threads="$threads" \
      --rows "$rows" --length "$length" --steps "$steps" >>"$results/longhaul-$rows-$length"
    "$environment/bin/python" tests/benchmarks/pytorch_gpt2_step.py --rows "$rows" --length "$length" --steps "$steps" \
      --threads "$threads" >>"$results/pytorch-$rows-$length"
  done
done
python3 tests/benchmarks/compare_report.py "$results"
