#!/usr/bin/env bash
# From raw text to a trained, interrupted, resumed and sampled Transformer, on two ranks of this machine:
#   launch/quickstart.sh [TEXT FILE...]
# Installs what is missing, builds, tokenizes the text (default: the King James Bible of the package bible-kjv, 4 MB, public
# domain), trains configs/quickstart.ini, stops it half way by a signal, goes on, and prints what came out. Everything lies in
# runs/quickstart (QUICKSTART_DIR names another place); an earlier quickstart there is replaced. Under 10 minutes on 2 cores.
set -euo pipefail
texts=()
for text in "$@"; do
  case $text in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "quickstart.sh: unknown option $text; it takes text files only" >&2; exit 2 ;;
  esac
  [ -r "$text" ] || { echo "quickstart.sh: $text: not readable; give text files" >&2; exit 2; }
  texts+=("$(readlink -f "$text")")
done
cd "$(dirname "$(readlink -f "$0")")/.."
directory=${QUICKSTART_DIR:-runs/quickstart}
longhaul=build/release/longhaul
started=$SECONDS
say() { printf '\n== %s (%d s so far)\n' "$*" $((SECONDS - started)); }

say "packages"
if [ ${#texts[@]} -eq 0 ]; then ./launch/install-deps.sh --quickstart; else ./launch/install-deps.sh; fi
say "build"
./launch/build.sh release

# Only what an earlier quickstart made is removed.
mkdir -p "$directory"
rm -rf "$directory/data" "$directory/run" "$directory/corpus.txt" "$directory/train.log"
if [ ${#texts[@]} -eq 0 ]; then
  # Lines like "Ge1:1 In the beginning ..." become one document per chapter, with an empty line between two.
  bible -f gen1:1-rev22:21 | sed -E 's/^([^ ]+):[0-9]+ /\1\t/' |
    awk -F'\t' 'NR > 1 && $1 != chapter { print "" } { chapter = $1; print $2 }' >"$directory/corpus.txt"
  texts=("$directory/corpus.txt")
fi

say "tokenize"
tokenizer=(--tokenizer sentencepiece --train-sentencepiece 2000)
[ "$(cat "${texts[@]}" | wc -c)" -ge 500000 ] || tokenizer=(--tokenizer bytes)  # too little text for a vocabulary
"$longhaul" tokenize --input "${texts[@]}" --out "$directory/data" "${tokenizer[@]}" --split 95,5,0
settings=(--config configs/quickstart.ini --set "data.datasets=$directory/data")
steps=$(sed -n 's/^steps *= *//p' configs/quickstart.ini)
entropy=$("$longhaul" stream "${settings[@]}" --steps "0:$steps" | python3 -c '
import collections, json, math, sys
counts = collections.Counter()
for line in sys.stdin:
    counts.update(target for target in json.loads(line)["targets"] if target >= 0)
total = sum(counts.values())
print("%.3f" % -sum(count / total * math.log(count / total) for count in counts.values()))')

# train CODE [SETTING...]: trains on two ranks and expects that exit code; its process id is in $training while it runs.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none  # a rank may use as many cores as it has threads
settings+=(--set "train.run_dir=$directory/run")
train() {
  local expected=$1 code=0 log=$directory/train.log
  shift
  mpirun -n 2 "$longhaul" train "${settings[@]}" "$@" > >(tee -a "$log") 2>&1 &
  training=$!
  if [ -n "${stop_at:-}" ]; then
    until grep -q "^step $stop_at/" "$log" || ! kill -0 "$training" 2>/dev/null; do sleep 0.2; done
    echo "quickstart.sh: sending SIGUSR2"
    kill -USR2 "$training" || true
  fi
  wait "$training" || code=$?
  [ "$code" -eq "$expected" ] || { echo "quickstart.sh: training ended with exit code $code, expected $expected" >&2; exit 1; }
}
evaluate() {
  local report
  report=$("$longhaul" eval --run "$directory/run" --split valid)
  printf '%s\n' "$report" >&2
  sed -n 's/^CE \([0-9.]*\).*/\1/p' <<<"$report"
}

say "first step"
train 75 --set train.stop_after=1
before=$(evaluate)
say "train, to be interrupted half way"
stop_at=$((steps / 2)) train 75
say "resume"
stop_at= train 0
say "evaluate and sample"
after=$(evaluate)
prompt="And the king said"
sample=$("$longhaul" generate --run "$directory/run" --prompt "$prompt" --tokens 100 --temperature 0.8 --top-k 50 --seed 1)

say "done"
cat <<REPORT
unigram entropy of the training text   $entropy nats per token
validation cross-entropy after step 1  $before
validation cross-entropy at the end    $after

sample:
$sample

text       ${texts[*]}
shards     $directory/data           longhaul inspect $directory/data
run        $directory/run            checkpoints, metrics.jsonl, TensorBoard events, resolved configuration
log        $directory/train.log
program    $longhaul
REPORT
awk -v after="$after" -v entropy="$entropy" 'BEGIN { exit !(after + 0 > 0 && after < 0.9 * entropy) }' || {
  echo "quickstart.sh: the model has not learned: $after is not well below the unigram entropy $entropy" >&2
  exit 1
}
