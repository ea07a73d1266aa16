#!/usr/bin/env python3
"""A save survives a crash, an error or a power loss at every fifth system call."""
# ctest: label=reliability timeout=300
import sys

from save_faults import main

sys.exit(main(every=5))
