#!/usr/bin/env python3
# ctest: label=e2e timeout=180
"""The router's way: train a gated model, fit routers, generate and score with and without them."""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs


def trained(place):
    place.run = place.run_directory("gated")
    runs.must(runs.train(place.config("gated"), *runs.FAMILIES["amor"], "train.steps=16"))
    place.before = runs.state_hash(place.run)


def refused_without_a_fit(place):
    process = runs.must(runs.run(["eval", "--run", place.run, "--router"]), code=2)
    assert len(runs.error_lines(process)) == 1 and "longhaul fit-router" in process.stderr, process.stderr


def fit_reports_and_leaves_the_checkpoint_alone(place):
    output = runs.must(runs.run(["fit-router", "--run", place.run, "--tokens", "900"])).stdout
    otherwise = [float(share) for share in re.findall(r"the router decides ([0-9.]+) % otherwise", output)]
    assert len(otherwise) == 2 and all(share < 50 for share in otherwise), output
    assert (place.run / "checkpoints" / "step_00000016.router").exists()
    assert runs.state_hash(place.run) == place.before
    runs.must(runs.train(place.config("gated"), *runs.FAMILIES["amor"], "train.steps=18"))  # resumes beside the router
    return f"decided otherwise: {otherwise} %"


def generation_counts_what_it_skipped(place):
    checkpoint = place.run / "checkpoints" / "step_00000016"
    ids = place.path / "ids.json"
    ids.write_text("[[1, 2, 3, 4, 5, 6, 7], [40, 50, 60]]")
    notes = []
    for extra in ([], ["--router"]):
        process = runs.must(runs.run(["generate", "--checkpoint", checkpoint, "--ids", ids, "--tokens", "12", "--threads", "1", *extra]))
        assert len(json.loads(process.stdout)) == 2, process.stdout
        lines = [line for line in process.stderr.splitlines() if line.startswith("gate ")]
        assert len(lines) == 2, process.stderr
        for line in lines:
            fired, tokens, skipped = map(int, re.search(r"fired on (\d+) of (\d+) tokens, skipped (\d+)", line).groups())
            exact, routed = map(int, re.search(r"by the output matrix (\d+), by the router (\d+)", line).groups())
            assert fired + skipped == tokens == exact + routed, line
            assert tokens == (routed if extra else exact), line
        notes.append(lines[0].split(";")[0])
    return "; router: ".join(notes)


def scores_differ_little(place):
    checkpoint = place.run / "checkpoints" / "step_00000016"
    scores = [float(re.search(r"CE ([0-9.]+)", runs.must(runs.run(["eval", "--checkpoint", checkpoint, *extra])).stdout).group(1))
              for extra in ([], ["--router"])]
    assert abs(scores[0] - scores[1]) < 0.05 * scores[0], scores
    return f"CE exact {scores[0]}, router {scores[1]}"


def models_without_gates_are_refused(place):
    runs.must(runs.train(place.config("plain"), "train.steps=2"))
    for words in (["fit-router", "--run"], ["eval", "--router", "--run"]):
        process = runs.must(runs.run([*words, place.run_directory("plain")]), code=2)
        assert "no entropy gates" in process.stderr, process.stderr


def decoding_is_timed_against_context_length(place):
    settings = [word for setting in (*runs.FAMILIES["amor"], "model.vocab_size=257") for word in ("--set", setting)]
    words = ["bench", "decode", "--config", place.config("timed"), "--lengths", "16,64", "--tokens", "4", "--rate", "0.5", *settings]
    output = runs.must(runs.run(words)).stdout
    rows = [line.split() for line in output.splitlines() if re.match(r" +(16|64) ", line)]
    assert [row[0] for row in rows] == ["16", "64"] and all(len(row) == 5 and float(row[1]) > 0 for row in rows), output
    assert "cheaper than always-on attention" in output, output


if __name__ == "__main__":
    runs.main([trained, refused_without_a_fit, fit_reports_and_leaves_the_checkpoint_alone, generation_counts_what_it_skipped,
               scores_differ_little, models_without_gates_are_refused, decoding_is_timed_against_context_length])
