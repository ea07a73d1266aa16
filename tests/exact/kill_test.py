#!/usr/bin/env python3
# ctest: label=exact timeout=900
"""20 runs are killed with SIGKILL at seeded random moments, 8 of them inside a save, and started again, half on another
number of ranks. All 20 end with the hash of an undisturbed run, and no process is left behind. LONGHAUL_KILLS sets another
number of runs, LONGHAUL_SEED another seed."""
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs

RUNS = int(os.environ.get("LONGHAUL_KILLS", "20"))
SEED = int(os.environ.get("LONGHAUL_SEED", "1"))
RANKS = 2


def save_in_progress(checkpoints, done):
    """A partial directory that was not there before, if the run is writing one."""
    try:
        return [name for name in os.listdir(checkpoints) if ".partial." in name and name not in done]
    except FileNotFoundError:
        return []


def kill_one(launcher, generator):
    """SIGKILL to a random rank, or once in five to the launcher."""
    ranks = runs.rank_processes(launcher)
    victim = launcher.pid if generator.random() < 0.2 or not ranks else generator.choice(ranks)
    everything = list(runs.processes_of(launcher.pid))
    runs.kill(victim)
    launcher.wait(30)
    runs.wait_until_gone(everything, 30)
    for stream in (launcher.stdout, launcher.stderr):
        stream.close()
    return "launcher" if victim == launcher.pid else "rank"


def interrupt(words, checkpoints, generator, inside_save, duration):
    """Starts the run and kills it; None when it ended before the kill came."""
    launcher = runs.start(words, ranks=RANKS)
    began = time.monotonic()
    moment = generator.uniform(0.05, 0.95) * duration
    wanted_saves = generator.randint(1, 10)
    seen = set()
    while launcher.poll() is None:
        if inside_save:
            for name in save_in_progress(checkpoints, seen):
                seen.add(name)
                if len(seen) >= wanted_saves:
                    time.sleep(generator.uniform(0, 0.004))
                    return kill_one(launcher, generator) + " inside a save"
        elif time.monotonic() - began >= moment:
            return kill_one(launcher, generator)
        time.sleep(0.0005)
    launcher.communicate()
    return None


def killed_runs_end_like_an_undisturbed_one(place):
    began = time.monotonic()
    runs.must(runs.train(place.config("clean"), ranks=RANKS))
    duration = time.monotonic() - began
    reference = runs.state_hash(place.run_directory("clean"))
    generator = random.Random(SEED)
    kinds = {}
    for number in range(RUNS):
        name = f"killed_{number}"
        config = place.config(name)
        inside_save = number % 5 in (1, 3)
        kind = None
        for attempt in range(20):  # a run that ended before its kill is no trial
            kind = interrupt(runs.train_words(config), place.run_directory(name) / "checkpoints", generator, inside_save, duration)
            if kind:
                break
            name = f"killed_{number}_again_{attempt}"
            config = place.config(name)
        assert kind, f"run {number} always ended before it was killed"
        kinds[kind] = kinds.get(kind, 0) + 1
        ranks = RANKS if number % 2 == 0 else generator.choice([1, 4])
        runs.must(runs.train(config, ranks=ranks))
        found = runs.state_hash(place.run_directory(name))
        assert found == reference, f"run {number} ({kind}, resumed on {ranks} ranks): {found}, expected {reference}"
    inside = sum(count for kind, count in kinds.items() if "save" in kind)
    return f"{RUNS} of {RUNS} equal to {reference}; {inside} inside a save; {kinds}; failure rate below {3 / RUNS:.0%} (95 %)"


if __name__ == "__main__":
    runs.main([killed_runs_end_like_an_undisturbed_one])
