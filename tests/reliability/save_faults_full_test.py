#!/usr/bin/env python3
"""A save survives a crash, an error or a power loss at every system call."""
# ctest: label=slow timeout=1200
import sys

from save_faults import main

sys.exit(main(every=1))
