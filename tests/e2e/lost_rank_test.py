#!/usr/bin/env python3
# ctest: label=e2e timeout=480
"""A rank that is killed, stopped or loses its launcher ends the whole job: nothing hangs, nothing is left behind."""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs


def start_training(place, name, *settings):
    config = place.config(name)
    launcher = runs.start(runs.train_words(config, "train.steps=1000000", *settings), ranks=2)
    metrics = place.run_directory(name) / "metrics.jsonl"
    while launcher.poll() is None and not (metrics.exists() and '"step":5,' in metrics.read_text()):
        time.sleep(0.01)
    return launcher, list(runs.processes_of(launcher.pid)), runs.rank_processes(launcher)


def finish(launcher, everything, seconds):
    taken = runs.wait_until_gone(everything, seconds)
    out, err = launcher.communicate(timeout=10)
    assert launcher.returncode != 0
    return taken, err


def killed_rank(place):
    for index in (0, 1):
        launcher, everything, ranks = start_training(place, f"killed_{index}")
        runs.kill(ranks[index])
        taken, _ = finish(launcher, everything, 30)
    return f"gone after {taken:.1f} s"


def killed_launcher(place):
    launcher, everything, _ = start_training(place, "launcher")
    runs.kill(launcher.pid)
    taken, _ = finish(launcher, everything, 30)
    return f"gone after {taken:.1f} s"


def stopped_rank_is_named(place):
    launcher, everything, ranks = start_training(place, "stopped", "runtime.watchdog_seconds=3")
    runs.kill(ranks[1], signal.SIGSTOP)
    taken, err = finish(launcher, everything, 30)
    lines = [line for line in err.splitlines() if line.startswith("longhaul:")]
    assert any("rank" in line and "step" in line for line in lines), err
    return f"{lines[-1]!r} after {taken:.1f} s"


def the_run_goes_on_afterwards(place):
    config = place.config("killed_0")
    done = runs.must(runs.train(config, "train.stop_after=12", "train.steps=1000000", ranks=2), code=75)
    assert "took over the lock of a job that is gone" in done.stdout, done.stdout[-1500:]


if __name__ == "__main__":
    runs.main([killed_rank, killed_launcher, stopped_rank_is_named, the_run_goes_on_afterwards])
