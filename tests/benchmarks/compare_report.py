#!/usr/bin/env python3
"""Medians and ratios of the runs that compare.sh collected: one file per program, case and size, all its runs one after the
other."""
import json
import statistics
import sys
from pathlib import Path

from bench_report import peak_gib, step_seconds


def pytorch_runs(text):
    """(step times in seconds, peak memories in GiB) from the JSON lines of pytorch_step.py."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line["seconds"] for line in lines], [line["peak_gib"] for line in lines]


print(f"{'case':<22}{'longhaul':>18}{'PyTorch eager':>18}{'times faster':>14}{'of its memory':>15}")
rows = []
for ours in sorted(Path(sys.argv[1]).glob("longhaul-*"), key=lambda path: path.stat().st_mtime):
    _, case, batch, length = ours.name.split("-")
    times, memories = step_seconds(ours.read_text()), peak_gib(ours.read_text())
    their_times, their_memories = pytorch_runs(ours.with_name(f"pytorch-{case}-{batch}-{length}").read_text())
    if not times or len(times) != len(their_times):
        sys.exit(f"compare_report.py: {case} B={batch} T={length}: {len(times)} runs of longhaul, {len(their_times)} of PyTorch")
    seconds, gib = statistics.median(times), max(memories)
    their_seconds, their_gib = statistics.median(their_times), max(their_memories)
    print(f"{case + f' B={batch} T={length}':<22}{seconds:>8.3f} s {gib:.2f} GiB{their_seconds:>8.3f} s {their_gib:.2f} GiB"
          f"{their_seconds / seconds:>14.2f}{gib / their_gib:>15.2f}")
    rows.append(f"| {case}, B {batch}, T {length} | {seconds:.3f} s | {their_seconds:.3f} s | {their_seconds / seconds:.2f} "
                f"| {gib:.2f} GiB | {their_gib:.2f} GiB | {gib / their_gib:.2f} |")
print("\n| sizes | longhaul | PyTorch eager | times faster | peak memory, longhaul | PyTorch | ratio |\n|---|---|---|---|---|---|---|")
print("\n".join(rows))
