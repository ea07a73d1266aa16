#!/usr/bin/env python3
# ctest: label=unit timeout=600
"""Every header compiles alone. A header that its own .cpp includes first is proven by the build; the others are compiled here."""
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import source_tree as tree  # noqa: E402


def proven_by_the_build(header):
    """True when header x.h has a x.cpp whose first include is x.h."""
    source = tree.ROOT / (header.rsplit(".", 1)[0] + ".cpp")
    if not source.is_file():
        return False
    first = re.search(r'^#include [<"]([^>"]+)[>"]', source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return first is not None and first.group(1) == header


def compile_flags(build):
    """Include paths and definitions of the top floor and of the tests, which see every library."""
    flags = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if not re.search(r"/launch/|/tests/|/core/device/", entry["file"]):
            continue
        words = shlex.split(entry["command"])
        for position, word in enumerate(words):
            pair = words[position:position + 2] if word == "-isystem" else [word]
            if (word == "-isystem" or word.startswith(("-I", "-D", "-std=", "-fopenmp"))) and pair not in flags:
                flags.append(pair)
    return [word for pair in flags for word in pair]


class HeadersTest(unittest.TestCase):
    def test_every_header_compiles_alone(self):
        build = Path(os.environ["LONGHAUL_BUILD"])
        with_cuda = any("/cuda" in flag for flag in compile_flags(build))
        compiler = os.environ.get("CXX", "c++")
        command = [compiler, "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", "-Werror", *compile_flags(build)]

        def compile_alone(header):
            # Twice, so that a missing guard shows too.
            text = f'#include "{header}"\n#include "{header}"\n'
            result = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, cwd=tree.ROOT)
            return None if result.returncode == 0 else f"{header}: {result.stderr.splitlines()[0:4]}"

        headers = [
            header for header in tree.source_files(".h")
            if not proven_by_the_build(header) and (with_cuda or "cuda" not in header)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = [failure for failure in pool.map(compile_alone, headers) if failure]
        if wrong:
            self.fail("headers that do not compile alone:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    unittest.main()
