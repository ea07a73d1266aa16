#!/usr/bin/env bash
# Does the gradient reduction hide behind the backward pass? Trains on two pretend hosts (network namespaces of this machine) over
# a link slowed to RATE (default 200mbit), with parallel.overlap off and on, and draws when each bucket was ready, started, done.
#   tests/benchmarks/overlap.sh [RATE]
# Needs root and iproute2. Everything it makes is removed at the end.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."
rate=${1:-200mbit}
longhaul=$PWD/build/release/longhaul
[ -x "$longhaul" ] || { echo "overlap.sh: $longhaul is missing; run launch/build.sh" >&2; exit 2; }
[ "$(id -u)" = 0 ] && command -v ip tc >/dev/null || { echo "overlap.sh: needs root and the package iproute2" >&2; exit 2; }
lab=$(mktemp -d)
hosts=(lhoverlap1 lhoverlap2)
clean() {
  for host in "${hosts[@]}"; do ip netns del "$host" 2>/dev/null || true; done
  rm -rf "$lab"
}
trap clean EXIT

# Two hosts, one cable, each end sending at the given rate.
printf '127.0.0.1 localhost\n10.79.0.1 %s\n10.79.0.2 %s\n' "${hosts[@]}" >"$lab/hosts"
for host in "${hosts[@]}"; do ip netns add "$host"; ip -n "$host" link set lo up; done
ip -n "${hosts[0]}" link add cable type veth peer name cable netns "${hosts[1]}"
for i in 0 1; do
  ip -n "${hosts[i]}" addr add "10.79.0.$((i + 1))/24" dev cable
  ip -n "${hosts[i]}" link set cable up
  tc -n "${hosts[i]}" qdisc replace dev cable root tbf rate "$rate" burst 64kb latency 50ms
done

# on HOST COMMAND...: runs it with the network, name and shared memory of that host. mpirun uses it instead of ssh.
cat >"$lab/on" <<EOF
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1; shift
exec nsenter --net=/run/netns/\$host unshare --uts --ipc --mount bash -c '
  hostname "\$0"; mount -t tmpfs tmpfs /dev/shm; mount --bind $lab/hosts /etc/hosts; eval "\$*"' "\$host" "\$@"
EOF
chmod +x "$lab/on"

head -c 400000 < <(yes "The quick brown fox jumps over the lazy dog; pack my box with five dozen jugs.") >"$lab/text"
"$longhaul" tokenize --input "$lab/text" --out "$lab/data" --tokenizer bytes --document-separator line --split 100,0,0 >/dev/null
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for overlap in false true; do
  "$lab/on" "${hosts[0]}" mpirun -q --mca plm rsh --mca plm_rsh_agent "$lab/on" --mca btl self,tcp \
    --mca btl_tcp_if_include 10.79.0.0/24 --mca oob_tcp_if_include 10.79.0.0/24 --mca mpi_yield_when_idle 1 \
    -H "${hosts[0]}:1,${hosts[1]}:1" "$longhaul" train --config configs/tiny.ini --set "data.datasets=$lab/data" --set data.context=256 \
    --set model.family=transformer --set model.context_length=256 --set model.n_layer=8 --set model.d_model=256 \
    --set model.n_head=4 --set train.slots=2 --set train.rows_per_slot=12 --set train.steps=6 --set runtime.threads=1 \
    --set metrics.every=1 --set metrics.peak_gflops=1 --set "parallel.overlap=$overlap" \
    --set parallel.bucket_bytes=2097152 --set checkpoint.every=0 --set validation.every=0 --set "train.run_dir=$lab/run-$overlap" >"$lab/log-$overlap" 2>&1 ||
    { tail -n 20 "$lab/log-$overlap" >&2; exit 1; }
done
python3 tests/benchmarks/overlap_report.py "$rate" "$lab/run-false/metrics.jsonl" "$lab/run-true/metrics.jsonl"
