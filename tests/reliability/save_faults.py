"""Saves a checkpoint over an older one while every system call in turn fails, and looks at what is left.

Used by save_faults_test.py (every fifth call) and save_faults_full_test.py (every call). Needs the build folder in
LONGHAUL_BUILD: the preloaded library fault_shim and the program checkpoint_driver.
"""
import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ["LONGHAUL_BUILD"])
SHIM = next(BUILD.rglob("libfault_shim.so"))
DRIVER = next(BUILD.rglob("checkpoint_driver"))
OLD, NEW = 1, 2
ANNOUNCED = f"saved {NEW}\n"


class Bench:
    """A run with one good checkpoint (step OLD), copied for every trial; trials are judged together by one process."""

    def __init__(self, directory, ranks, keep_last):
        self.directory = Path(directory)
        self.ranks, self.keep_last = ranks, keep_last
        self.pristine = self.directory / "pristine"
        subprocess.run([DRIVER, "save", self.pristine, str(OLD), "1", "1"], check=True, stdout=subprocess.DEVNULL)
        self.trials, self.failures = [], []

    def save(self, name, environment=None, preexec=None):
        """One attempt to save step NEW in a fresh copy; returns (exit status, what it printed)."""
        run = self.directory / name
        shutil.copytree(self.pristine, run)
        surroundings = dict(os.environ, LD_PRELOAD=str(SHIM), FAULT_PREFIX=str(run), **(environment or {}))
        done = subprocess.run([DRIVER, "save", run, str(NEW), str(self.ranks), str(self.keep_last)], env=surroundings,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, preexec_fn=preexec)
        return done.returncode, done.stdout

    def expect(self, name, run, allowed, note=""):
        self.trials.append((name, run, allowed, note))

    def fail(self, name, why):
        self.failures.append(f"{name}: {why}")

    def judge(self):
        """Loads every trial; returns the number of loads."""
        for begin in range(0, len(self.trials), 100):
            batch = self.trials[begin:begin + 100]
            loaded = subprocess.run([DRIVER, "load"] + [str(run) for _, run, _, _ in batch], stdout=subprocess.PIPE,
                                    text=True, timeout=300, check=True).stdout.splitlines()
            for (name, run, allowed, note), found in zip(batch, loaded, strict=True):
                if found not in {str(step) for step in allowed}:
                    self.fail(name, f"loads {found}, expected one of {sorted(allowed)}; {note}")
                shutil.rmtree(run)
        count, self.trials = len(self.trials), []
        return count


def count_calls(bench):
    """Number of counted calls of an undisturbed save, and their log."""
    log = bench.directory / "log"
    status, text = bench.save("undisturbed", {"FAULT_LOG": str(log)})
    if status != 0:
        sys.exit(f"the undisturbed save failed: {text}")
    shutil.rmtree(bench.directory / "undisturbed")
    calls = parse_log(log.read_bytes())
    log.unlink()
    return calls


def parse_log(content):
    """List of (call, first path, second path, number, bytes)."""
    calls, at = [], 0
    while at < len(content):
        end = content.index(b"\n", at)
        call, first, second, number, count = content[at:end].decode().split("\t")
        at = end + 1 + int(count)
        calls.append((call, first, second, int(number), content[end + 1:at]))
    return calls


def crash_at_every_call(bench, count, every):
    for call in range(1, count + 1, every):
        for mode in ("die_before", "die_after"):
            name = f"{mode}-{call}"
            status, text = bench.save(name, {"FAULT_CALL": str(call), "FAULT_MODE": mode})
            if status != -signal.SIGKILL and ANNOUNCED not in text:
                bench.fail(name, f"status {status}: {text}")
            bench.expect(name, bench.directory / name, {NEW} if ANNOUNCED in text else {OLD, NEW}, text)
    return bench.judge()


def error_at_every_call(bench, count, every):
    """A failing call gives either a save that is announced and there, or an error and the old checkpoint (a call after
    the commit may fail with the new one in place)."""
    for call in range(1, count + 1, every):
        for mode in ("EIO", "ENOSPC", "EDQUOT", "EINTR", "short", "slow"):
            name = f"{mode}-{call}"
            try:
                status, text = bench.save(name, {"FAULT_CALL": str(call), "FAULT_MODE": mode})
            except subprocess.TimeoutExpired:
                bench.fail(name, "hangs")
                continue
            saved = ANNOUNCED in text
            if saved != (status == 0) or status < 0 or len(text.splitlines()) != 1:
                bench.fail(name, f"status {status}: {text}")
            if mode in ("short", "slow") and not saved:
                bench.fail(name, f"was not survived: {text}")
            bench.expect(name, bench.directory / name, {NEW} if saved else {OLD, NEW}, text)
    return bench.judge()


def full_disk(bench):
    """File size limits, which strike inside a write; the whole save takes more than any of them."""
    def limit(size):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    for size in (0, 1, 50, 96, 300, 1000, 2048, 3000, 4000):
        name = f"limit-{size}"
        status, text = bench.save(name, preexec=lambda: limit(size))
        if status != 1 or ANNOUNCED in text:
            bench.fail(name, f"status {status}: {text}")
        bench.expect(name, bench.directory / name, {OLD}, text)
    return bench.judge()


def full_tmpfs(bench):
    """The same on a real file system with the last pages taken; skipped where mounting is not allowed."""
    mount = bench.directory / "tmpfs"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", mount], stderr=subprocess.DEVNULL).returncode != 0:
        return "skipped, mount is not allowed"
    try:
        for pages in (0, 1, 2, 3, 5, 20):
            run, filler = mount / "run", mount / "filler"
            shutil.copytree(bench.pristine, run)
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    file.truncate(file.tell() - 4096 * pages)
            done = subprocess.run([DRIVER, "save", run, str(NEW), "1", "1"], stdout=subprocess.PIPE, text=True, timeout=60)
            filler.unlink()
            saved = ANNOUNCED in done.stdout
            if saved != (done.returncode == 0) or saved != (pages == 20):
                bench.fail(f"tmpfs-{pages}", f"status {done.returncode}: {done.stdout}")
            bench.expect(f"tmpfs-{pages}", run, {NEW} if saved else {OLD}, done.stdout)
            bench.judge()
    finally:
        subprocess.run(["umount", mount], check=True)
    return "6 trials"


def full_disk_again_and_again(bench):
    """One process that goes on after failed saves: the next one succeeds, no descriptor is lost."""
    run = bench.directory / "retry"
    shutil.copytree(bench.pristine, run)
    done = subprocess.run([DRIVER, "retry", run], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    if done.returncode != 0 or done.stdout != "survived\n":
        bench.fail("retry", f"status {done.returncode}: {done.stdout}")


def without_locks(bench):
    """File systems whose flock is not supported, or refuses without reason: saving and loading work."""
    for error in (errno.ENOLCK, errno.ENOTSUP, 524, errno.EAGAIN):
        name = f"flock-{error}"
        status, text = bench.save(name, {"FAULT_FLOCK": str(error)})
        if status != 0:
            bench.fail(name, f"status {status}: {text}")
        surroundings = dict(os.environ, LD_PRELOAD=str(SHIM), FAULT_FLOCK=str(error))
        loaded = subprocess.run([DRIVER, "load", bench.directory / name], env=surroundings, stdout=subprocess.PIPE, text=True)
        if loaded.stdout != f"{NEW}\n":
            bench.fail(name, loaded.stdout)
        shutil.rmtree(bench.directory / name)


class Disk:
    """What a disk may hold after a power loss, from the log of calls: files keep the content of their last fsync, directories
    the entries of theirs; whatever came later is there or not, as `keeps` decides."""

    def __init__(self, root):
        self.root = str(root)
        self.content, self.durable = {}, {}      # by file number
        self.entries, self.durable_entries = {self.root: {}}, {}   # by directory number: name -> ("file"|"directory", number)
        self.load(Path(root))

    def load(self, directory):
        for path in sorted(directory.iterdir()):
            if path.is_dir():
                self.entries[str(path)] = {}
                self.entries[str(directory)][path.name] = ("directory", str(path))
                self.load(path)
            else:
                self.content[str(path)] = bytearray(path.read_bytes())
                self.durable[str(path)] = bytes(self.content[str(path)])
                self.entries[str(directory)][path.name] = ("file", str(path))
        self.durable_entries[str(directory)] = dict(self.entries[str(directory)])

    def find(self, path):
        kind, node = "directory", self.root
        for name in Path(path).relative_to(self.root).parts:
            kind, node = self.entries[node][name]
        return kind, node

    def place(self, path):
        return self.find(Path(path).parent)[1], Path(path).name

    def apply(self, index, call, first, second, number, data):
        if call == "open":
            parent, name = self.place(first)
            if name not in self.entries[parent]:
                node = f"{first}#{index}"
                self.entries[parent][name] = ("file", node)
                self.content[node], self.durable[node] = bytearray(), b""
            elif number == 1:
                self.content[self.find(first)[1]] = bytearray()
        elif call == "write":
            content = self.content[self.find(first)[1]]
            begin = len(content) if number < 0 else number
            content.extend(b"\0" * (begin - len(content)))
            content[begin:begin + len(data)] = data
        elif call == "truncate":
            content = self.content[self.find(first)[1]]
            del content[number:]
            content.extend(b"\0" * (number - len(content)))
        elif call == "fsync":
            kind, node = self.find(first)
            if kind == "file":
                self.durable[node] = bytes(self.content[node])
            else:
                self.durable_entries[node] = dict(self.entries[node])
        elif call in ("rename", "link"):
            (parent, name), (new_parent, new_name) = self.place(first), self.place(second)
            self.entries[new_parent][new_name] = self.entries[parent][name]
            if call == "rename":
                del self.entries[parent][name]
        elif call == "mkdir":
            parent, name = self.place(first)
            node = f"{first}#{index}"
            self.entries[parent][name] = ("directory", node)
            self.entries[node], self.durable_entries[node] = {}, {}
        elif call in ("unlink", "rmdir"):
            parent, name = self.place(first)
            del self.entries[parent][name]

    def write_out(self, target, keeps, node=None):
        """keeps(what) is asked for "entries" of a directory and "data" of a file: True keeps what was never made durable,
        "torn" keeps it but for its last page."""
        node = node or self.root
        target.mkdir()
        entries = self.entries if keeps("entries") else self.durable_entries
        for name, (kind, child) in entries[node].items():
            if kind == "directory":
                self.write_out(target / name, keeps, child)
                continue
            kept = keeps("data")
            content = bytes(self.content[child]) if kept else self.durable[child]
            if kept == "torn" and content != self.durable[child]:
                content = content[:max(0, (len(content) - 1) // 4096 * 4096)] + b"\0" * ((len(content) - 1) % 4096 + 1)
            (target / name).write_bytes(content)


def power_loss(bench, calls, every):
    """`calls` ran in bench.directory/undisturbed, a copy of pristine."""
    generator = random.Random(7)
    variants = {
        "nothing-unsynced": lambda what: False,
        "names-without-data": lambda what: what == "entries",
        "names-and-torn-data": lambda what: what == "entries" or "torn",
        "data-without-names": lambda what: what == "data",
        "either": lambda what: generator.random() < 0.5,
    }
    root = bench.directory / "undisturbed"
    shutil.copytree(bench.pristine, root)
    disk = Disk(root)
    shutil.rmtree(root)
    announced = next(index for index, call in enumerate(calls) if call[0] == "open" and call[1].endswith("latest.tmp"))
    for index, call in enumerate(calls):
        disk.apply(index, *call)
        if index % every != 0 and index + 1 != len(calls):
            continue
        for variant, keeps in variants.items():
            name = f"power-loss-{index + 1}-{variant}"
            disk.write_out(bench.directory / name, keeps)
            after_commit = index >= announced
            bench.expect(name, bench.directory / name, {NEW} if after_commit else {OLD, NEW}, call[0] + " " + call[1])
    return bench.judge()


def main(every):
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    failures = []
    for ranks, keep_last in ((1, 1), (2, 2)):
        with tempfile.TemporaryDirectory(prefix="longhaul_faults_", dir=base) as directory:
            bench = Bench(directory, ranks, keep_last)
            calls = count_calls(bench)
            print(f"{ranks} ranks, keep_last {keep_last}: {len(calls)} calls in a save", flush=True)
            print(f"  crash: {crash_at_every_call(bench, len(calls), every)} trials", flush=True)
            if ranks == 1:
                print(f"  errors: {error_at_every_call(bench, len(calls), every)} trials", flush=True)
                print(f"  full disk: {full_disk(bench)} trials", flush=True)
                print(f"  full tmpfs: {full_tmpfs(bench)}", flush=True)
                full_disk_again_and_again(bench)
                without_locks(bench)
                print(f"  power loss: {power_loss(bench, calls, every)} trials", flush=True)
            failures += bench.failures
    for failure in failures[:40]:
        print("FAILED", failure)
    print(f"{len(failures)} failures")
    return 1 if failures else 0
