#!/usr/bin/env python3
# ctest: label=exact timeout=900
"""20 runs are killed with SIGKILL at seeded random moments, 8 of them inside a save, and started again, half on another
number of ranks. All 20 end with the hash of an undisturbed run, and no process is left behind. LONGHAUL_KILLS sets another
number of runs, LONGHAUL_SEED another seed."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kills
import runs

RUNS = int(os.environ.get("LONGHAUL_KILLS", "20"))
SEED = int(os.environ.get("LONGHAUL_SEED", "1"))


def killed_runs_end_like_an_undisturbed_one(place):
    return f"{kills.killed_runs(place, 'plain', [], RUNS, SEED)}; failure rate below {3 / RUNS:.0%} (95 %)"


if __name__ == "__main__":
    runs.main([killed_runs_end_like_an_undisturbed_one])
