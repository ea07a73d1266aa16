#!/usr/bin/env python3
"""Adds up the JUnit reports of several ctest runs: names what failed, then prints "longhaul: N passed, N failed, N skipped"."""
import sys
import xml.etree.ElementTree as ElementTree

passed = failed = skipped = 0
for path in sys.argv[1:]:
    try:
        cases = ElementTree.parse(path).getroot().iter("testcase")
        for case in cases:
            status = case.get("status")
            if status == "run":
                passed += 1
            elif status == "notrun" or status == "disabled":
                skipped += 1
            else:
                failed += 1
                print(f"failed: {path.split('/')[1]} {case.get('name')}")
    except (OSError, ElementTree.ParseError) as error:
        failed += 1
        print(f"failed: no report {path}: {error}")
print(f"longhaul: {passed} passed, {failed} failed, {skipped} skipped")
sys.exit(0 if failed == 0 and passed > 0 else 1)
