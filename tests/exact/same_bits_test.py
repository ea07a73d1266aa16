#!/usr/bin/env python3
# ctest: label=exact timeout=600
"""The state after 60 steps has the same hash for 1, 2 and 4 ranks, for any number of threads, and whatever must not touch training: evaluation never,
every step or every 7; overlap; bucket size; background saves; an interruption; retention."""
import json
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs


def final_hash(place, name, *settings, ranks=0):
    config = place.config(name)
    runs.must(runs.train(config, "train.ema_decay=0.9", "model.dropout=0.1", *settings, ranks=ranks))
    return runs.state_hash(place.run_directory(name))


def rank_counts_give_the_same_hash(place):
    place.reference = final_hash(place, "alone")
    for ranks in (1, 2, 4):
        found = final_hash(place, f"ranks_{ranks}", ranks=ranks)
        assert found == place.reference, f"{ranks} ranks: {found}, expected {place.reference}"
    return place.reference


def thread_counts_give_the_same_hash(place):
    """A model wide enough for its loops and products to be divided among threads."""
    wide = ["model.d_model=256", "model.d_ff=1024", "model.context_length=256", "train.steps=2", "train.rows_per_slot=2",
            "schedule.warmup_steps=1"]
    hashes = {final_hash(place, f"threads_{threads}_{ranks}", *wide, f"runtime.threads={threads}", ranks=ranks)
              for threads, ranks in ((1, 0), (2, 0), (3, 0), (2, 2))}
    assert len(hashes) == 1, hashes


def evaluation_does_not_touch_training(place):
    for every in (1, 7):
        found = final_hash(place, f"evaluate_{every}", f"validation.every={every}", ranks=2)
        assert found == place.reference, f"evaluation every {every}: {found}, expected {place.reference}"


def engine_settings_do_not_change_bits(place):
    for setting in ("parallel.overlap=false", "parallel.bucket_bytes=4096", "checkpoint.background=false",
                    "checkpoint.every=0", "model.recompute=true", "metrics.every=1"):
        found = final_hash(place, setting.replace(".", "_"), setting, ranks=2)
        assert found == place.reference, f"{setting}: {found}, expected {place.reference}"


def interrupted_and_resized_run_ends_the_same(place):
    config = place.config("interrupted")
    settings = ["train.ema_decay=0.9", "model.dropout=0.1"]
    for stop, ranks in ((17, 2), (18, 4), (40, 1)):
        runs.must(runs.train(config, f"train.stop_after={stop}", *settings, ranks=ranks), code=75)
    runs.must(runs.train(config, *settings, ranks=2))
    found = runs.state_hash(place.run_directory("interrupted"))
    assert found == place.reference, f"{found}, expected {place.reference}"


# Snapshots from the second validation inside the zone on.
SNAPSHOTS = ["swa.enabled=true", "swa.zone=5.0", "swa.least_gain=0.01", "validation.every=7"]


def tensor_hashes(place, name):
    lines = runs.must(runs.run(["hash", place.run_directory(name), "--tensors"])).stdout.splitlines()
    return {words[1]: words[0] for words in map(str.split, lines) if len(words) == 2}


def snapshots_do_not_touch_training(place):
    """Every tensor of the run without them is the same; the mean itself is that of any other ranks and interruptions."""
    place.swa = final_hash(place, "swa", *SNAPSHOTS, ranks=0)
    plain, found = tensor_hashes(place, "alone"), tensor_hashes(place, "swa")
    assert {name: value for name, value in found.items() if not name.startswith("swa/")} == plain
    assert any(name.startswith("swa/") for name in found)
    lines = [json.loads(line) for line in (place.run_directory("swa") / "metrics.jsonl").read_text().splitlines()]
    decisions = [line for line in lines if line["kind"] == "selective_average"]
    assert len(decisions) == 9 and 1 < decisions[-1]["snapshots"] < 9, decisions
    two = final_hash(place, "swa_2", *SNAPSHOTS, ranks=2)
    assert two == place.swa, f"2 ranks: {two}, expected {place.swa}"
    scores = {line["kind"][11:] or "raw": line["cross_entropy"] for line in lines if line["kind"].startswith("validation") and line["step"] == 60}
    assert set(scores) == {"raw", "ema", "swa"}, scores
    scored = runs.must(runs.run(["eval", "--run", place.run_directory("swa"), "--weights", "best", "--max-tokens", "512"])).stdout
    best = min(scores, key=scores.get)
    assert f"{best} weights" in scored and f"CE {scores[best]:.6f}" in scored, f"{scores}: {scored}"
    return f"{decisions[-1]['snapshots']} snapshots, {scores}"


def interrupted_snapshots_end_the_same(place):
    config = place.config("swa_interrupted")
    settings = ["train.ema_decay=0.9", "model.dropout=0.1", *SNAPSHOTS]
    for stop, ranks in ((17, 2), (30, 4)):
        runs.must(runs.train(config, f"train.stop_after={stop}", *settings, ranks=ranks), code=75)
    runs.must(runs.train(config, *settings, ranks=1))
    found = runs.state_hash(place.run_directory("swa_interrupted"))
    assert found == place.swa, f"{found}, expected {place.swa}"
    refused = runs.run(["eval", "--run", place.run_directory("alone"), "--weights", "swa"])
    assert refused.returncode != 0 and len(runs.error_lines(refused)) == 1 and "swa.enabled" in refused.stderr, refused.stderr


def chaotic_rate_depends_on_the_step_alone(place):
    chaos = ["train.steps=12", "schedule.chaos_amplitude=0.25", "schedule.chaos_decay=0.05", "metrics.every=1"]
    expected = final_hash(place, "chaos", *chaos)
    plain = final_hash(place, "no_chaos", "train.steps=12", "metrics.every=1")
    assert expected != plain
    config = place.config("chaos_interrupted")
    settings = ["train.ema_decay=0.9", "model.dropout=0.1", *chaos]
    runs.must(runs.train(config, "train.stop_after=5", *settings, ranks=2), code=75)
    runs.must(runs.train(config, *settings, ranks=4))
    found = runs.state_hash(place.run_directory("chaos_interrupted"))
    assert found == expected, f"{found}, expected {expected}"
    rates = {}
    for name in ("chaos", "no_chaos"):
        lines = [json.loads(line) for line in (place.run_directory(name) / "metrics.jsonl").read_text().splitlines()]
        rates[name] = [line["learning_rate"] for line in lines if line["kind"] == "train"]
    x = 0.721
    for step, (rate, base) in enumerate(zip(rates["chaos"], rates["no_chaos"], strict=True), 1):
        x = 3.9 * x * (1 - x)
        amplitude = 0.25 * math.exp(-0.05 * step)
        assert math.isclose(rate, base * (1 - amplitude + amplitude * x), rel_tol=1e-9), (step, rate, base)


def hash_sees_a_difference(place):
    found = final_hash(place, "other_seed", "train.seed=2", ranks=2)
    assert found != place.reference


def gpt2_family_too(place):
    hashes = {final_hash(place, f"gpt2_{ranks}", "model.family=gpt2", ranks=ranks) for ranks in (1, 4)}
    assert len(hashes) == 1, hashes


def gate_lines(place, name):
    """(step, values of the gates) of every metrics line."""
    lines = [json.loads(line) for line in (place.run_directory(name) / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], {key: value for key, value in line.items() if key.split(".")[0] in ("fire_rate", "entropy", "threshold")})
            for line in lines if line["kind"] == "train"]


def test_of_family(family):
    def family_gives_the_same_hash(place):
        settings = [*runs.FAMILIES[family], "train.steps=16", "metrics.every=4"]
        hashes = {ranks: final_hash(place, f"{family}_{ranks}", *settings, ranks=ranks) for ranks in (1, 2, 4)}
        recomputed = final_hash(place, f"{family}_recompute", *settings, "model.recompute=true", ranks=2)
        config = place.config(f"{family}_interrupted")
        shared = ["train.ema_decay=0.9", "model.dropout=0.1", *settings]
        runs.must(runs.train(config, "train.stop_after=7", *shared, ranks=2), code=75)
        runs.must(runs.train(config, *shared, ranks=4))
        resumed = runs.state_hash(place.run_directory(f"{family}_interrupted"))
        assert len({*hashes.values(), recomputed, resumed}) == 1, f"{hashes}, recomputed {recomputed}, resumed {resumed}"
        gates = [gate_lines(place, f"{family}_{ranks}") for ranks in (1, 2, 4)]
        assert gates[0] == gates[1] == gates[2], gates
        if family != "amor":
            return hashes[1]
        rates = [values["fire_rate.0"] for _, values in gates[0]]
        assert any(0.05 < rate < 0.95 for rate in rates), rates
        return f"{hashes[1]}, fire rates {rates}"
    family_gives_the_same_hash.__name__ = f"{family}_gives_the_same_hash"
    return family_gives_the_same_hash


if __name__ == "__main__":
    runs.main([rank_counts_give_the_same_hash, thread_counts_give_the_same_hash, evaluation_does_not_touch_training,
               engine_settings_do_not_change_bits, interrupted_and_resized_run_ends_the_same, snapshots_do_not_touch_training,
               interrupted_snapshots_end_the_same,
               chaotic_rate_depends_on_the_step_alone, hash_sees_a_difference,
               gpt2_family_too, *[test_of_family(family) for family in runs.FAMILIES]])
