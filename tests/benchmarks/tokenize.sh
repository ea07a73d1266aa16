#!/usr/bin/env bash
# Speed of `longhaul tokenize` with the GPT-2 tokenizer on one thread, reading and writing included: MB of text per second of
# processor time and of wall time, median of 5 runs.
# usage: tests/benchmarks/tokenize.sh ENCODER_JSON VOCAB_BPE TEXT...        (LONGHAUL: the program, default build/release/longhaul)
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
encoder=$1 merges=$2
shift 2
longhaul=${LONGHAUL:-build/release/longhaul}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
bytes=$(cat "$@" | wc -c)
TIMEFORMAT='%R %U %S'
for run in 1 2 3 4 5; do
  { time "$longhaul" tokenize --input "$@" --out "$place/set$run" --tokenizer gpt2 --encoder-json "$encoder" \
    --vocab-bpe "$merges" --split 1,0,0 --workers 1 >/dev/null 2>&1; } 2>>"$place/times"
done
awk -v bytes="$bytes" '{ print bytes / 1e6 / $1, bytes / 1e6 / ($2 + $3) }' "$place/times" | sort -n | sed -n 3p |
  awk -v bytes="$bytes" '{ printf "%.1f MB: %.1f MB/s wall, %.1f MB/s of processor time (all threads together)\n", bytes / 1e6, $1, $2 }'
