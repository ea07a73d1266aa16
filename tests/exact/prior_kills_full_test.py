#!/usr/bin/env python3
# ctest: label=slow timeout=1500
"""Twenty runs of a model with memberships and every controller on are killed and started again; all end with the bits of
an undisturbed run. LONGHAUL_KILLS sets another number."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kills
import prior_settings
import runs


def killed_runs_end_the_same(place):
    return kills.killed_runs(place, "prior", prior_settings.ALL, int(os.environ.get("LONGHAUL_KILLS", 20)), seed=20)


if __name__ == "__main__":
    runs.main([killed_runs_end_the_same])
