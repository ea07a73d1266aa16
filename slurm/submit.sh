#!/usr/bin/env bash
# Submits a training job that requeues itself:
#   slurm/submit.sh --config FILE [--nodes N] [--ranks-per-node N] [--cpus-per-rank N] [--time HH:MM:SS] [--grace SECONDS]
#                   [--name NAME] [--sbatch OPTION]... [-- --set section.key=value ...]
# Example: slurm/submit.sh --config configs/gpt2-124m.ini --nodes 4 --ranks-per-node 8 --cpus-per-rank 12 --time 12:00:00
# LONGHAUL names the program (default: build/release/longhaul of this tree). Settings after -- go to `longhaul train`.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)

fail() { echo "submit.sh: $*" >&2; exit 2; }
config= nodes=1 ranks=2 cpus=4 limit=04:00:00 grace=120 name=longhaul extra=() settings=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; settings=("$@"); break ;;
    --config | --nodes | --ranks-per-node | --cpus-per-rank | --time | --grace | --name | --sbatch)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case $1 in
        --config) config=$2 ;; --nodes) nodes=$2 ;; --ranks-per-node) ranks=$2 ;; --cpus-per-rank) cpus=$2 ;;
        --time) limit=$2 ;; --grace) grace=$2 ;; --name) name=$2 ;; --sbatch) extra+=("$2") ;;
      esac
      shift 2 ;;
    *) fail "unknown option $1; see slurm/submit.sh --help" ;;
  esac
done
[ -n "$config" ] || fail "--config is missing; see slurm/submit.sh --help"
[ -r "$config" ] || fail "configuration $config: not readable"
program=${LONGHAUL:-$here/../build/release/longhaul}
[ -x "$program" ] || fail "no program at $program; run launch/build.sh, or set LONGHAUL"
command -v sbatch >/dev/null || fail "no sbatch here; run this on a machine that can submit Slurm jobs"
for number in "$nodes" "$ranks" "$cpus" "$grace"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "'$number' is not a whole number >= 1"
done

CONFIG=$(readlink -f "$config") LONGHAUL=$(readlink -f "$program") exec sbatch --export=ALL \
  --job-name="$name" --nodes="$nodes" --ntasks-per-node="$ranks" --cpus-per-task="$cpus" --time="$limit" \
  --signal="TERM@$grace" ${extra[@]+"${extra[@]}"} "$here/train.sbatch" ${settings[@]+"${settings[@]}"}
