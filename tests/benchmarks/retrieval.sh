#!/usr/bin/env bash
# Exact recall of three models of equal size on `longhaul synth retrieval`: a recurrent one whose state is too small for the
# task, the same with entropy-gated attention (AMOR), and a Transformer:
#   tests/benchmarks/retrieval.sh [--seeds N] [--steps N] [--threads N] [--documents N] [--models "NAME..."] [--directory DIR]
# Makes the data once, trains configs/retrieval-NAME.ini with seeds 1 to N, scores the test split and prints a table: accuracy
# (mean and standard deviation over the seeds) and the share of tokens on which the gate fired. A directory that is given is
# kept, and a second call goes on from what is in it; else everything is in a temporary directory.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

seeds=3 steps= threads=$(nproc) documents=60000 models="recurrent amor transformer" directory=
while [ $# -gt 0 ]; do
  case $1 in
    --seeds) seeds=$2; shift 2 ;;
    --steps) steps=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --documents) documents=$2; shift 2 ;;
    --models) models=$2; shift 2 ;;
    --directory) directory=$2; shift 2 ;;
    *) echo "retrieval.sh: unknown option $1; options are --seeds N, --steps N, --threads N, --documents N, --models \"NAME...\"," \
            "--directory DIR" >&2; exit 2 ;;
  esac
done
program=${LONGHAUL:-build/release/longhaul}
[ -x "$program" ] || { echo "retrieval.sh: no program at $program; run launch/build.sh" >&2; exit 1; }
if [ -z "$directory" ]; then
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
fi

# The same documents twice. What the gate compares with comes from the targets, so gated models (and the recurrent one, to be
# comparable) are trained on all that can be predicted; the Transformer learns the recall faster from the answers alone.
for targets in predictable values; do
  [ -f "$directory/data-$targets/manifest.json" ] || "$program" synth retrieval --out "$directory/data-$targets" \
    --documents "$documents" --seed 1 --pairs 10 --queries 8 --noise 80 --noise-pattern counting --length 135 --split 97,1,2 \
    --train-targets "$targets" >&2
done
for seed in $(seq "$seeds"); do
  for model in $models; do
    run=$directory/$model-$seed data=$directory/data-predictable
    [ "$model" != transformer ] || data=$directory/data-values
    settings=(--config "configs/retrieval-$model.ini" --set "data.datasets=$data" --set "train.run_dir=$run"
              --set "train.seed=$seed" --set "data.seed=$seed" --set "runtime.threads=$threads")
    [ -z "$steps" ] || settings+=(--set "train.steps=$steps")
    echo "$model, seed $seed of $seeds" >&2
    "$program" train "${settings[@]}" >"$directory/$model-$seed.log"
    "$program" eval --run "$run" --split test --rows 16 --threads "$threads" >"$directory/$model-$seed.eval"
  done
done
python3 tests/benchmarks/retrieval_report.py "$directory"
