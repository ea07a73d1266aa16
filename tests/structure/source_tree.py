"""What the structure tests share: the tracked source files of the repository, their code without comments, their includes."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("kernels", "core", "parallel", "data", "launch")


def tracked_files():
    """Every file git tracks or would track, as a path relative to the root."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(output.splitlines()) if (ROOT / path).is_file())


def source_files(*suffixes):
    """Files of the floors and of tests/ with one of the suffixes (all C++ and CUDA ones by default)."""
    suffixes = suffixes or (".h", ".hpp", ".cpp", ".cu")
    return [path for path in tracked_files() if path.split("/")[0] in FLOORS + ("tests",) and path.endswith(suffixes)]


def code(path):
    """The text with comments and the contents of string literals blanked out; lines stay where they are."""
    text = (ROOT / path).read_text(encoding="utf-8")
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''

    def blank(match):
        token = match.group()
        newlines = "\n" * token.count("\n")
        return newlines if token.startswith("/") else '""' + newlines

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def includes(path):
    """Files of the repository that `path` includes."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return [name for name in re.findall(r'^#include "([^"]+)"', text, flags=re.MULTILINE) if (ROOT / name).is_file()]


def find_circle(graph):
    """A list of nodes a -> b -> ... -> a of the directed graph {node: nodes}, or None."""
    state = {}
    trail = []

    def visit(node):
        state[node] = "open"
        trail.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == "open":
                return trail[trail.index(other):] + [other]
            if other not in state:
                circle = visit(other)
                if circle:
                    return circle
        state[node] = "done"
        trail.pop()
        return None

    for node in sorted(graph):
        if node not in state:
            circle = visit(node)
            if circle:
                return circle
    return None
