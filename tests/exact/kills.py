"""Runs that are killed at seeded random moments, some inside a save, and started again, half on another number of ranks."""
import os
import random
import subprocess
import time

import runs

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
    try:
        launcher.wait(15)
    except subprocess.TimeoutExpired:
        # Open MPI 4.1.4's mpirun can lock itself up when a rank dies: in PMIx_server_finalize, after all ranks are gone.
        assert not runs.rank_processes(launcher), "a rank lives on"
        runs.kill(launcher.pid)
        launcher.wait(15)
    runs.wait_until_gone(everything, 30)
    launcher.stderr.close()
    return "launcher" if victim == launcher.pid else "rank"


def interrupt(words, checkpoints, generator, inside_save, duration):
    """Starts the run and kills it; None when it ended before the kill came."""
    launcher = runs.start(words, ranks=RANKS, stdout=subprocess.DEVNULL)
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


def killed_runs(place, prefix, settings, count, seed):
    """Kills and resumes `count` runs with these settings; all must end with the hash of an undisturbed run. A sentence about it."""
    began = time.monotonic()
    name = f"{prefix}_clean"
    runs.must(runs.train(place.config(name), *settings, ranks=RANKS))
    duration = time.monotonic() - began
    reference = runs.state_hash(place.run_directory(name))
    generator = random.Random(seed)
    kinds = {}
    for number in range(count):
        name = f"{prefix}_killed_{number}"
        config = place.config(name)
        inside_save = number % 5 in (1, 3)
        kind = None
        for attempt in range(20):  # a run that ended before its kill is no trial
            words = runs.train_words(config, *settings)
            kind = interrupt(words, place.run_directory(name) / "checkpoints", generator, inside_save, duration)
            if kind:
                break
            name = f"{prefix}_killed_{number}_again_{attempt}"
            config = place.config(name)
        assert kind, f"run {number} always ended before it was killed"
        kinds[kind] = kinds.get(kind, 0) + 1
        ranks = RANKS if number % 2 == 0 else generator.choice([1, 4])
        runs.must(runs.train(config, *settings, ranks=ranks))
        found = runs.state_hash(place.run_directory(name))
        assert found == reference, f"{prefix}: run {number} ({kind}, resumed on {ranks} ranks): {found}, expected {reference}"
    inside = sum(number for kind, number in kinds.items() if "save" in kind)
    return f"{count} of {count} equal to {reference}; {inside} inside a save; {kinds}"


def family_tests(count):
    """One test per recurrent family: `count` of its runs are killed; LONGHAUL_KILLS sets another number."""
    count = int(os.environ.get("LONGHAUL_KILLS", count))

    def test_of(family):
        def killed(place):
            return killed_runs(place, family, runs.FAMILIES[family] + ["train.steps=30"], count, seed=len(family))
        killed.__name__ = f"{family}_runs_end_like_undisturbed_ones"
        return killed

    return [test_of(family) for family in runs.FAMILIES]
