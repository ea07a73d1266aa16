#!/usr/bin/env python3
# ctest: label=unit timeout=120
"""The rules of the house (docs/architecture.md) that a program can check."""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import source_tree as tree  # noqa: E402

# Who may include whom: arrows run downward only.
BELOW = {
    "kernels": {"kernels"},
    "core": {"core", "kernels"},
    "parallel": {"parallel", "core", "kernels"},
    "data": {"data", "core", "kernels"},
    "launch": {"launch", "parallel", "data", "core", "kernels"},
}
# Each external interface is called in one place only: (what a call looks like, where it may stand).
WRAPPED = {
    "MPI": (r"\bMPI_[A-Z][a-z]\w*\s*\(", r"parallel/mpi/|tests/.*mpi"),
    "HDF5": (r"\bH5[A-Z]{1,2}[a-z]\w*\s*\(", r"core/io/hdf5_|tests/core/io/hdf5_"),
    "CUDA": (r"\bcuda[A-Z]\w*\s*\(", r"kernels/cuda/|core/device/cuda_|tests/.*/cuda_"),
    "cuBLASLt": (r"\bcublas\w*\s*\(", r"kernels/cuda/|core/device/cuda_"),
    "NCCL": (r"\bnccl[A-Z]\w*\s*\(", r"parallel/nccl/"),
    "BLIS": (r"\bbli_\w+\s*\(", r"kernels/cpu/|tests/kernels/"),
    "POSIX files": (r"(?<!\w)::(open|write|pwrite|fsync|rename|unlink|mkdir)\s*\(", r"core/io/|tests/"),
}
MOST_LINES = 500
MOST_FUNCTION_LINES = 60
BUILD_OUTPUT = r"^build/|(^|/)(CMakeFiles|__pycache__)/|\.(o|a|so|pyc|ninja|h5|log)$|CMakeCache\.txt$|compile_commands\.json$"
NO_FUNCTION = r"(namespace|extern|struct|class|enum|union|using|template)\b|.*=\s*\{"


class StructureTest(unittest.TestCase):
    def fail_when(self, found, rule):
        if found:
            self.fail(rule + ":\n  " + "\n  ".join(found))

    def test_includes_go_downward_only(self):
        wrong = []
        for path in tree.source_files():
            floor = path.split("/")[0]
            for included in tree.includes(path):
                if floor in BELOW and included.split("/")[0] not in BELOW[floor]:
                    wrong.append(f"{path} includes {included}")
        self.fail_when(wrong, "arrows run launch -> {parallel, data} -> core -> kernels")

    def test_no_circle_of_files(self):
        circle = tree.find_circle({path: set(tree.includes(path)) for path in tree.source_files()})
        self.assertIsNone(circle, "files that include each other in a circle")

    def test_no_circle_of_folders(self):
        # A folder and its own subfolders are one neighbourhood; what counts is between neighbours.
        def related(one, other):
            return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")

        graph = {}
        for path in tree.source_files():
            folder = os.path.dirname(path)
            if not path.startswith("tests/"):
                used = {os.path.dirname(included) for included in tree.includes(path)}
                graph.setdefault(folder, set()).update(other for other in used if not related(folder, other))
        self.assertIsNone(tree.find_circle(graph), "folders that include each other in a circle")

    def test_repository_includes_start_at_the_root(self):
        wrong = []
        for path in tree.source_files():
            text = (tree.ROOT / path).read_text(encoding="utf-8")
            for name in re.findall(r'^#include "([^"]+)"', text, flags=re.MULTILINE):
                generated = name.endswith(".pb.h")
                if not generated and not (tree.ROOT / name).is_file():
                    wrong.append(f'{path} includes "{name}"')
        self.fail_when(wrong, 'quoted includes name a file from the repository root; libraries take <>')

    def test_external_interfaces_are_wrapped(self):
        wrong = []
        for path in tree.source_files():
            text = tree.code(path)
            for interface, (call, home) in WRAPPED.items():
                found = re.search(call, text)
                if found and not re.match(home, path):
                    line = text.count("\n", 0, found.start()) + 1
                    wrong.append(f"{path}:{line} calls {interface}: {found.group().strip('(')}")
        self.fail_when(wrong, "an external interface is called only by its wrapper")

    def test_files_are_short(self):
        wrong = []
        for path in tree.source_files(".h", ".hpp", ".cpp", ".cu", ".py", ".sh"):
            lines = (tree.ROOT / path).read_text(encoding="utf-8").count("\n")
            if lines > MOST_LINES:
                wrong.append(f"{path}: {lines} lines")
        self.fail_when(wrong, f"a file over {MOST_LINES} lines is two concepts")

    def test_functions_are_short(self):
        wrong = []
        for path in tree.source_files(".cpp", ".cu", ".h", ".hpp"):
            header = start = None  # where a declaration at the left margin began; where its body began
            for number, line in enumerate(tree.code(path).splitlines(), 1):
                if start is not None:
                    if line.startswith("}"):
                        if number - start + 1 > MOST_FUNCTION_LINES:
                            wrong.append(f"{path}:{start}: {number - start + 1} lines")
                        start = None
                    continue
                if header is None and re.match(r"[A-Za-z]", line) and not re.match(NO_FUNCTION, line):
                    header = number
                if header is not None and line.endswith("{"):
                    header, start = None, header
                elif line.endswith((";", "}", ":", ">")) or not line:
                    header = None
        self.fail_when(wrong, f"a function over {MOST_FUNCTION_LINES} lines is two functions")

    def test_headers_have_pragma_once(self):
        wrong = [path for path in tree.source_files(".h", ".hpp") if "#pragma once" not in tree.code(path)]
        self.fail_when(wrong, "headers without #pragma once")

    def test_no_build_output_is_tracked(self):
        wrong = [path for path in tree.tracked_files() if re.search(BUILD_OUTPUT, path) and not path.startswith("tests/golden/")]
        self.fail_when(wrong, "build output in the repository")

    def test_scripts_are_executable(self):
        scripts = [path for path in tree.tracked_files() if path.endswith(".sh") or path == ".ci/run"]
        wrong = [path for path in scripts if not os.access(tree.ROOT / path, os.X_OK)]
        self.fail_when(wrong, "scripts without the executable bit")

    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is not installed")
    def test_sources_are_formatted(self):
        # The rules are written for clang-format 14; other versions break lines differently.
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
        if not re.search(r"version 14\.", version):
            self.skipTest(f"not clang-format 14: {version.strip()}")
        command = ["clang-format", "--dry-run", "-Werror", *tree.source_files()]
        result = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True)
        wrong = sorted({line.split(":")[0] for line in result.stderr.splitlines() if ": error: " in line})
        self.fail_when(wrong, "not formatted; run clang-format -i")


if __name__ == "__main__":
    unittest.main()
