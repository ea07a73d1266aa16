#!/usr/bin/env python3
"""Medians and ratios of the runs that compare.sh collected: one file per program and size, one JSON line per run."""
import json
import statistics
import sys
from pathlib import Path


def runs(path):
    """(median of the median step times in seconds, peak memory in GiB) over the runs in a file."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    return statistics.median(line["seconds"] for line in lines), max(line["peak_gib"] for line in lines)


print(f"{'sizes':<14}{'longhaul':>18}{'PyTorch eager':>18}{'times faster':>14}{'of its memory':>15}")
for ours in sorted(Path(sys.argv[1]).glob("longhaul-*"), reverse=True):
    _, rows, length = ours.name.split("-")
    seconds, gib = runs(ours)
    their_seconds, their_gib = runs(ours.with_name(f"pytorch-{rows}-{length}"))
    print(f"B={rows} T={length:<8}{seconds:>8.3f} s {gib:.2f} GiB{their_seconds:>8.3f} s {their_gib:.2f} GiB"
          f"{their_seconds / seconds:>14.2f}{gib / their_gib:>15.2f}")
