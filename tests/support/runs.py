"""Runs the program for the script tests: tiny data, tiny models, ranks under mpirun, kills."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ.get("LONGHAUL", "build/release/longhaul")
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMP_WAIT_POLICY": "passive",
}

CONFIG = """[model]
family = transformer
context_length = 32
n_layer = 2
d_model = 32
n_head = 4
d_ff = 64

[data]
datasets = {data}

[train]
steps = 60
slots = 4
run_dir = {run}

[schedule]
learning_rate = 1e-2
warmup_steps = 5

[checkpoint]
every = 5

[validation]
max_tokens = 512

[runtime]
threads = 1
watchdog_seconds = 60

[metrics]
every = 5
peak_gflops = 10   # not measured: saves half a second
"""


RECURRENCE = ["model.mixer_head_size=8", "model.state_size=8", "model.delta_heads=2", "model.delta_key_size=8",
              "model.delta_value_size=8"]

# Settings that turn CONFIG into a tiny model of another family. The gates follow the entropies quickly, so that a good part
# of the tokens fires and a good part does not.
FAMILIES = {
    "mamba2": ["model.family=mamba2", *RECURRENCE],
    "gdn": ["model.family=gdn", *RECURRENCE],
    "serial": ["model.family=serial", "model.mixer=gdn", "model.attention_every=2", *RECURRENCE],
    "fused": ["model.family=fused", "model.mixer=mamba2", *RECURRENCE, "model.delta_heads=0"],
    "amor": ["model.family=amor", "model.mixer=mamba2", "gate.blocks=2", "gate.momentum=0.5", *RECURRENCE],
}


class Workplace:
    """A temporary directory with a dataset; gone afterwards."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="longhaul_test_"))

    def __enter__(self):
        make_text(self.path / "corpus.txt", documents=300)
        self.data = self.path / "data"
        must(tokenize(self.path / "corpus.txt", self.data))
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.path, ignore_errors=True)

    def config(self, name, text=CONFIG):
        """Writes NAME.ini for run directory NAME."""
        text = text.format(data=self.data, run=self.path / name)
        file = self.path / f"{name}.ini"
        file.write_text(text)
        return file

    def run_directory(self, name):
        return self.path / name

    def metrics(self, name, kind):
        """The lines of one kind in the metrics of a run."""
        lines = [json.loads(line) for line in (self.run_directory(name) / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]


def make_text(path, documents, seed=1):
    """Sentences of a small grammar: a tiny model learns something of it in a few dozen steps."""
    generator = random.Random(seed)
    nouns = ["river", "ship", "captain", "storm", "harbour", "lantern", "island", "whale"]
    verbs = ["watches", "follows", "finds", "leaves", "remembers", "calls"]
    lines = []
    for _ in range(documents):
        count = generator.randint(1, 6)
        sentences = [f"the {generator.choice(nouns)} {generator.choice(verbs)} the {generator.choice(nouns)}."
                     for _ in range(count)]
        lines.append(" ".join(sentences))
    path.write_text("\n\n".join(lines) + "\n")


def tokenize(text, output, *options):
    return run(["tokenize", "--input", text, "--out", output, "--tokenizer", "bytes", "--split", "90,5,5", *options])


def command_line(arguments, ranks=0):
    words = [PROGRAM, *map(str, arguments)]
    return ["mpirun", "-n", str(ranks), *words] if ranks else words


def run(arguments, ranks=0, timeout=120, **options):
    """The finished process; ranks 0: without mpirun."""
    return subprocess.run(command_line(arguments, ranks), env=ENVIRONMENT, text=True, errors="replace", capture_output=True,
                          timeout=timeout, **options)


def start(arguments, ranks=0, stdout=subprocess.PIPE):
    """A pipe that nobody reads holds the program up once 64 KiB are in it: give another stdout to one that says more."""
    return subprocess.Popen(command_line(arguments, ranks), env=ENVIRONMENT, text=True, stdout=stdout,
                            stderr=subprocess.PIPE, start_new_session=True)


def must(process, code=0):
    if process.returncode != code:
        raise AssertionError(f"{process.args}: exit code {process.returncode}, expected {code}\n"
                             f"{process.stdout[-3000:]}\n{process.stderr[-3000:]}")
    return process


def train(config, *settings, ranks=0, resume="auto", timeout=120):
    words = ["train", "--config", config, "--resume", resume]
    for setting in settings:
        words += ["--set", setting]
    return run(words, ranks=ranks, timeout=timeout)


def train_words(config, *settings):
    words = ["train", "--config", config]
    for setting in settings:
        words += ["--set", setting]
    return words


def hashes_of_ranks(place, name, settings, stops):
    """State hashes of one run, NAME_RANKS on 1, 2 and 4 ranks and NAME_stopped with a stop after each (step, ranks) of `stops`
    that then ends on one rank."""
    hashes = {}
    for ranks in (1, 2, 4):
        must(train(place.config(f"{name}_{ranks}"), *settings, ranks=ranks))
        hashes[ranks] = state_hash(place.run_directory(f"{name}_{ranks}"))
    config = place.config(f"{name}_stopped")
    for step, ranks in stops:
        must(train(config, *settings, f"train.stop_after={step}", ranks=ranks), code=75)
    must(train(config, *settings, ranks=1))
    hashes["stopped"] = state_hash(place.run_directory(f"{name}_stopped"))
    return hashes


def state_hash(directory):
    output = must(run(["hash", directory])).stdout
    found = re.findall(r"\b[0-9a-f]{32}\b", output)
    assert found, f"no hash in: {output}"
    return found[0]


def error_lines(process):
    return [line for line in process.stderr.splitlines() if line.startswith("longhaul:") and "warning:" not in line]


def processes_of(session):
    """Living processes of the session that start() made, as {pid: command}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            fields = stat[stat.rindex(")") + 2:].split()
            # Open MPI gives every rank a process group of its own, so the tree of parents counts, not the session alone.
            found[int(entry.name)] = (int(fields[1]), int(fields[3]), fields[0], stat[stat.index("(") + 1:stat.rindex(")")])
        except (OSError, ValueError):
            continue
    members = {}
    for pid, (parent, its_session, state, name) in found.items():
        ancestors = set()
        current = pid
        while current in found and current not in ancestors:
            ancestors.add(current)
            current = found[current][0]
        if state != "Z" and (its_session == session or session in ancestors):
            members[pid] = name
    return members


def rank_processes(launcher):
    """Process ids of the ranks below mpirun, or of the program itself."""
    members = processes_of(launcher.pid)
    program = os.path.basename(PROGRAM)[:15]
    return sorted(pid for pid, name in members.items() if name == program)


def wait_until_gone(pids, seconds):
    """Waits for the processes to end; the seconds it took, or an error naming those that live."""
    began = time.monotonic()
    while True:
        alive = []
        for pid in pids:
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    alive.append(pid)
            except OSError:
                pass
        if not alive:
            return time.monotonic() - began
        if time.monotonic() - began > seconds:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"processes {alive} still alive after {seconds} s")
        time.sleep(0.02)


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def main(tests):
    """Runs functions in order, names each, and exits non-zero after the first that fails."""
    with Workplace() as place:
        for test in tests:
            began = time.monotonic()
            try:
                note = test(place)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(f"FAILED {test.__name__}: {error}")
                sys.exit(1)
            print(f"ok {test.__name__} ({time.monotonic() - began:.1f} s){': ' + note if note else ''}", flush=True)
