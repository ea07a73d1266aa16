#!/usr/bin/env python3
# ctest: label=e2e timeout=480
"""What a resumed run takes from its configuration and what from its checkpoint."""
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs


def rates(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["learning_rate"] for line in lines if line["kind"] == "train"}


def expected_rate(step, peak, steps, warmup=5, floor=0.1):
    if step <= warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / (steps - warmup))
    return peak * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * progress)))


def a_new_rate_and_a_longer_run_count_from_the_next_step(place):
    config, run = place.config("rate"), place.run_directory("rate")
    runs.must(runs.train(config, "train.steps=40", "train.stop_after=20", "metrics.every=1"), code=75)
    second = runs.must(runs.train(config, "train.steps=60", "schedule.learning_rate=0.004", "metrics.every=1"))
    assert "changed on resume: schedule.learning_rate = 0.004 (was 0.01)" in second.stdout, second.stdout
    assert "changed on resume: train.steps = 60 (was 40)" in second.stdout, second.stdout
    for step, rate in rates(run).items():
        peak, steps = (0.01, 40) if step <= 20 else (0.004, 60)
        assert math.isclose(rate, expected_rate(step, peak, steps), rel_tol=1e-9), (step, rate)
    assert sorted(rates(run)) == list(range(1, 61))


def a_complete_run_stays_as_it_is(place):
    before = runs.state_hash(place.run_directory("rate"))
    again = runs.must(runs.train(place.config("rate"), "train.steps=60", "schedule.learning_rate=0.004"))
    assert "done: 60 steps" in again.stdout
    assert runs.state_hash(place.run_directory("rate")) == before


def resume_at_a_step_sets_later_ones_aside(place):
    config, run = place.config("branch"), place.run_directory("branch")
    runs.must(runs.train(config, "train.steps=20", "checkpoint.keep_last=10"))
    reference = runs.state_hash(run)
    runs.must(runs.train(config, "train.steps=20", "checkpoint.keep_last=10", resume="10"))
    assert runs.state_hash(run) == reference
    assert list((run / "checkpoints").glob("step_*.aside.*"))


def weights_of_another_run(place):
    source = place.run_directory("rate")
    fresh = runs.must(runs.train(place.config("fresh"), "train.steps=5", "metrics.every=1"))
    warm = runs.must(runs.train(place.config("warm"), "train.steps=5", "metrics.every=1", f"checkpoint.init_from={source}"))
    first = [json.loads((place.run_directory(name) / "metrics.jsonl").read_text().splitlines()[1])["loss"]
             for name in ("fresh", "warm")]
    assert "weights from" in warm.stdout and first[1] < 0.8 * first[0], first
    assert fresh


def bf16_weights_learn_with_an_f32_master_copy(place):
    config, run = place.config("bf16"), place.run_directory("bf16")
    done = runs.must(runs.train(config, "train.dtype=bf16", "metrics.every=1", ranks=2))
    assert "master" in done.stdout, done.stdout
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    reference = place.config("f32")
    runs.must(runs.train(reference, "metrics.every=1", ranks=2))
    lines = [json.loads(line) for line in (place.run_directory("f32") / "metrics.jsonl").read_text().splitlines()]
    exact = [line["loss"] for line in lines if line["kind"] == "train"]
    assert "CE " in runs.must(runs.run(["eval", "--run", run, "--max-tokens", 64])).stdout
    assert abs(losses[-1] - exact[-1]) < 0.05 * exact[-1], (losses[-1], exact[-1])


if __name__ == "__main__":
    runs.main([a_new_rate_and_a_longer_run_count_from_the_next_step, a_complete_run_stays_as_it_is,
               resume_at_a_step_sets_later_ones_aside, weights_of_another_run, bf16_weights_learn_with_an_f32_master_copy])
