#!/usr/bin/env python3
"""Medians and ratios of the runs that compare.sh collected: one file per program and size, all its runs one after the other."""
import json
import re
import statistics
import sys
from pathlib import Path


def longhaul_runs(text):
    """(step times in seconds, peak memories in GiB) of the reports of `longhaul bench step`."""
    seconds = [float(value) / 1e3 for value in re.findall(r"^step +([\d.]+) ms", text, flags=re.MULTILINE)]
    gib = [float(value) / 1024 for value in re.findall(r"^peak memory +([\d.]+) MiB resident", text, flags=re.MULTILINE)]
    return seconds, gib


def pytorch_runs(text):
    """The same from the JSON lines of pytorch_gpt2_step.py."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line["seconds"] for line in lines], [line["peak_gib"] for line in lines]


print(f"{'sizes':<14}{'longhaul':>18}{'PyTorch eager':>18}{'times faster':>14}{'of its memory':>15}")
for ours in sorted(Path(sys.argv[1]).glob("longhaul-*"), reverse=True):
    _, rows, length = ours.name.split("-")
    times, memories = longhaul_runs(ours.read_text())
    their_times, their_memories = pytorch_runs(ours.with_name(f"pytorch-{rows}-{length}").read_text())
    if not times or len(times) != len(their_times):
        sys.exit(f"compare_report.py: {len(times)} runs of longhaul and {len(their_times)} of PyTorch for B={rows} T={length}")
    seconds, gib = statistics.median(times), max(memories)
    their_seconds, their_gib = statistics.median(their_times), max(their_memories)
    print(f"B={rows} T={length:<8}{seconds:>8.3f} s {gib:.2f} GiB{their_seconds:>8.3f} s {their_gib:.2f} GiB"
          f"{their_seconds / seconds:>14.2f}{gib / their_gib:>15.2f}")
