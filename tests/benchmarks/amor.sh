#!/usr/bin/env bash
# What entropy-gated attention costs: whole training steps of AMOR 180M (V 128,256, K 3, 1 row of 512 tokens, fp32) over those
# of its bare backbone, and the same with the gate's products in 16-bit integers:
#   tests/benchmarks/amor.sh [--mixer mamba2|gdn] [--rounds N] [--steps N] [--threads N] [--products "f32 int16"]
# Runs alternate; medians, ratios and the share of tokens that fired are printed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

mixer=mamba2 rounds=3 steps=5 threads=$(nproc) products="f32 int16"
while [ $# -gt 0 ]; do
  case $1 in
    --mixer) mixer=$2 ;;
    --rounds) rounds=$2 ;;
    --steps) steps=$2 ;;
    --threads) threads=$2 ;;
    --products) products=$2 ;;
    *) echo "amor.sh: unknown option $1; options are --mixer, --rounds, --steps, --threads, --products" >&2; exit 2 ;;
  esac
  shift 2
done
program=${LONGHAUL:-build/release/longhaul}
[ -x "$program" ] || { echo "amor.sh: no program at $program; run launch/build.sh" >&2; exit 1; }
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# step NAME SETTING...: appends a report to $results/NAME.
step() {
  local name=$1
  shift
  "$program" bench step --config tests/benchmarks/amor-180m.ini --set model.mixer="$mixer" --set runtime.threads="$threads" \
    --rows 1 --length 512 --steps "$steps" "$@" >>"$results/$name"
}

for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  step backbone --set model.family="$mixer"
  for product in $products; do
    step "$product" --set gate.product="$product"
  done
done
python3 tests/benchmarks/amor_report.py "$results" "$mixer"
