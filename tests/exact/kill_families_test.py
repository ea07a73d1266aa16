#!/usr/bin/env python3
# ctest: label=exact timeout=300
"""One run of every recurrent family is killed and started again; the state ends with the bits of an undisturbed run,
the entropy gates included. LONGHAUL_KILLS sets another number."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kills
import runs

RUNS = int(os.environ.get("LONGHAUL_KILLS", "1"))


def test_of(family):
    def killed(place):
        return kills.killed_runs(place, family, runs.FAMILIES[family] + ["train.steps=30"], RUNS, seed=len(family))
    killed.__name__ = f"{family}_runs_end_like_undisturbed_ones"
    return killed


if __name__ == "__main__":
    runs.main([test_of(family) for family in runs.FAMILIES])
