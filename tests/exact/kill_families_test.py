#!/usr/bin/env python3
# ctest: label=exact timeout=300
"""One run of every recurrent family is killed and started again; the state ends with the bits of an undisturbed run,
the entropy gates included. LONGHAUL_KILLS sets another number."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kills
import runs

if __name__ == "__main__":
    runs.main(kills.family_tests(1))
