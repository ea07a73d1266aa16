#!/usr/bin/env python3
"""Medians and ratios of the runs that amor.sh collected: file `backbone`, and one file for every precision of the gate."""
import re
import statistics
import sys
from pathlib import Path

from bench_report import peak_gib, step_seconds

directory, mixer = Path(sys.argv[1]), sys.argv[2]
texts = {path.name: path.read_text() for path in directory.iterdir()}
base_seconds = statistics.median(step_seconds(texts["backbone"]))
base_gib = max(peak_gib(texts["backbone"]))
print(f"backbone {mixer}: {base_seconds:.3f} s, {base_gib:.2f} GiB")
for product in [name for name in ("f32", "int16") if name in texts]:
    seconds, gib = statistics.median(step_seconds(texts[product])), max(peak_gib(texts[product]))
    fired = sorted(set(re.findall(r"^gates +(.*)$", texts[product], flags=re.MULTILINE)))
    print(f"AMOR, gate product {product}: {seconds:.3f} s ({100 * (seconds / base_seconds - 1):+.1f} % time), "
          f"{gib:.2f} GiB ({100 * (gib / base_gib - 1):+.1f} % memory), {fired[-1] if fired else 'fire rate not reported'}")
