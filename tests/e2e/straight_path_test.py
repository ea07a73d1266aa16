#!/usr/bin/env python3
# ctest: label=e2e timeout=480
"""Text -> shards -> training on 2 ranks, interrupted by a signal and resumed -> evaluation -> samples."""
import json
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs

STEPS = "train.steps=150"


def train_interrupt_resume(place):
    config = place.config("path")
    settings = [STEPS, "validation.every=50", "train.ema_decay=0.9"]
    launcher = runs.start(runs.train_words(config, *settings), ranks=2)
    metrics = place.run_directory("path") / "metrics.jsonl"
    while launcher.poll() is None and not (metrics.exists() and '"step":10,' in metrics.read_text()):
        time.sleep(0.01)
    runs.kill(launcher.pid, signal.SIGUSR2)
    out, err = launcher.communicate(timeout=60)
    assert launcher.returncode == 75, f"exit code {launcher.returncode}\n{out[-2000:]}\n{err[-2000:]}"
    stopped = int(re.search(r"stopped after step (\d+) of 150", out).group(1))
    resumed = runs.must(runs.train(config, *settings, ranks=2))
    assert f"after step {stopped}" in resumed.stdout and "done: 150 steps" in resumed.stdout, resumed.stdout
    return f"stopped after step {stopped}"


def signal_to_one_rank_stops_all(place):
    config = place.config("one_rank")
    launcher = runs.start(runs.train_words(config, "train.steps=100000", "checkpoint.every=0"), ranks=2)
    metrics = place.run_directory("one_rank") / "metrics.jsonl"
    while launcher.poll() is None and not (metrics.exists() and '"step":5,' in metrics.read_text()):
        time.sleep(0.01)
    rank = runs.rank_processes(launcher)[-1]
    runs.kill(rank, signal.SIGTERM)
    time.sleep(0.05)
    runs.kill(rank, signal.SIGTERM)  # a second one changes nothing
    out, err = launcher.communicate(timeout=60)
    assert launcher.returncode == 75, f"exit code {launcher.returncode}\n{out[-2000:]}\n{err[-2000:]}"


def metrics_hold_every_step_once(place):
    lines = [json.loads(line) for line in (place.run_directory("path") / "metrics.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if line["kind"] == "train"]
    assert len(steps) == len(set(steps)) and max(steps) == 150, steps
    losses = {line["step"]: line["loss"] for line in lines if line["kind"] == "train"}
    assert losses[150] < 0.6 * losses[1], losses
    assert list((place.run_directory("path") / "tensorboard").glob("events.out.tfevents.*"))


def evaluation_is_one_number(place):
    run = place.run_directory("path")
    numbers = set()
    for ranks, rows in ((0, 1), (2, 1), (2, 4), (0, 3)):
        output = runs.must(runs.run(["eval", "--run", run, "--rows", rows, "--threads", 1], ranks=ranks)).stdout
        ce, targets = re.search(r"CE ([\d.]+) .* over (\d+) targets", output).groups()
        numbers.add((round(float(ce), 5), targets))
    assert len(numbers) == 1, numbers
    average = runs.must(runs.run(["eval", "--run", run, "--weights", "ema"])).stdout
    assert "CE " in average
    return f"CE and targets {numbers.pop()}"


def samples_are_text(place):
    output = runs.must(runs.run(["generate", "--run", place.run_directory("path"), "--prompt", "the captain",
                                 "--tokens", 40, "--seed", 1])).stdout
    assert "the captain" in output, output
    return repr(output[:70])


def resolved_configuration_is_kept(place):
    kept = place.run_directory("path") / "config.ini"
    shown = runs.must(runs.run(["config", "--config", kept])).stdout
    assert re.search(r"train.steps +150 ", shown), shown
    assert re.search(r"model.vocab_size +257 ", shown), shown


if __name__ == "__main__":
    runs.main([train_interrupt_resume, signal_to_one_rank_stops_all, metrics_hold_every_step_once,
               evaluation_is_one_number, samples_are_text, resolved_configuration_is_kept])
