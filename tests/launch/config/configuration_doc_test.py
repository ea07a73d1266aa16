#!/usr/bin/env python3
# ctest: label=unit timeout=30
"""The tables of docs/configuration.md are those that `longhaul config --keys` prints."""
import os
import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[3]
tables = subprocess.run([os.environ["LONGHAUL"], "config", "--keys"], text=True, capture_output=True, check=True).stdout.strip()
document = (root / "docs" / "configuration.md").read_text()
if tables not in document:
    missing = [line for line in tables.splitlines() if line not in document]
    print("docs/configuration.md lacks these lines of `longhaul config --keys`:", *missing, sep="\n")
    sys.exit(1)
