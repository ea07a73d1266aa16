#!/usr/bin/env bash
# Speed and memory of whole training steps (fp32, clipping, AdamW) against PyTorch eager, same threads:
#   tests/benchmarks/compare.sh [--rounds N] [--steps N] [--threads N] [CASE...]
# Cases (default: all):
#   gpt2    GPT-2 124M, 4 rows of 64 tokens and 1 row of 512
#   mamba2  Mamba2 130M (no feed-forward) against transformers' Mamba2ForCausalLM, 1 row of 512
#   gdn     11 Gated DeltaNet layers and 1 of attention, 137M, against transformers' OlmoHybridForCausalLM, 1 row of 512
# Runs alternate (longhaul, PyTorch, longhaul, ...), so that a machine that changes its speed changes it for both; medians and
# ratios are printed, then as rows for docs/performance.md. Uses the virtual environment that tests/oracle/run.sh makes.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

# case: configuration, model of pytorch_step.py, "rows length" pairs separated by commas
declare -A cases=(
  [gpt2]="configs/gpt2-124m.ini gpt2 4 64,1 512"
  [mamba2]="tests/benchmarks/mamba2-130m.ini mamba2 1 512"
  [gdn]="tests/benchmarks/gdn-hybrid-137m.ini olmo-hybrid 1 512"
)

rounds=3 steps=5 threads=$(nproc) chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --steps) steps=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    *) [ -n "${cases[$1]:-}" ] ||
         { echo "compare.sh: unknown '$1'; options are --rounds N, --steps N, --threads N, cases gpt2, mamba2, gdn" >&2; exit 2; }
       chosen+=("$1"); shift ;;
  esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=(gpt2 mamba2 gdn)
program=${LONGHAUL:-build/release/longhaul}
environment=${LONGHAUL_ORACLE_VENV:-$HOME/.cache/longhaul/oracle}
[ -x "$program" ] || { echo "compare.sh: no program at $program; run launch/build.sh" >&2; exit 1; }
[ -x "$environment/bin/python" ] || { echo "compare.sh: no virtual environment at $environment; run tests/oracle/run.sh" >&2; exit 1; }

# A forced core type would slow down one side only.
unset OPENBLAS_CORETYPE MKL_DEBUG_CPU_TYPE MKL_ENABLE_INSTRUCTIONS
export OMP_NUM_THREADS=$threads HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONDONTWRITEBYTECODE=1
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

for name in "${chosen[@]}"; do
  read -r config model sizes <<<"${cases[$name]}"
  settings=(--set runtime.threads="$threads")
  [ "$name" != gpt2 ] || settings+=(--set model.vocab_size=50257)
  while read -r rows length; do
    for round in $(seq "$rounds"); do
      echo "$name B=$rows T=$length round $round of $rounds" >&2
      "$program" bench step --config "$config" "${settings[@]}" --rows "$rows" --length "$length" --steps "$steps" \
        >>"$results/longhaul-$name-$rows-$length"
      "$environment/bin/python" tests/benchmarks/pytorch_step.py --model "$model" --rows "$rows" --length "$length" \
        --steps "$steps" --threads "$threads" >>"$results/pytorch-$name-$rows-$length"
    done
  done < <(tr ',' '\n' <<<"$sizes")
done
python3 tests/benchmarks/compare_report.py "$results"
