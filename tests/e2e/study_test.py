#!/usr/bin/env python3
# ctest: label=e2e timeout=240
"""A small ablation: it ends, is not trained twice, survives kills with the same table, and draws well-formed pictures."""
import csv
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs

LADDER = ["model.family=fuzzy_transformer", "game.lengths=8,32", "game.every=4", "guardian.enabled=true", "guardian.zone=4",
          "schedule.chaos_amplitude=0.25", "swa.enabled=true", "swa.zone=10", "swa.least_gain=0", "validation.every=4",
          "train.steps=16", "train.slots=2", "metrics.tensorboard=false"]


def words(place, out, *more, settings=()):
    result = ["study", "ablation", "--config", place.config("ladder"), "--out", place.path / out, "--seeds", "1,2", *more]
    for setting in [*LADDER, *settings]:
        result += ["--set", setting]
    return result


def scores(out):
    """The table without the speeds, which differ from time to time."""
    with open(out / "ablation.csv", newline="") as file:
        return [{key: value for key, value in row.items() if not key.startswith("tokens_per_second")} for row in csv.DictReader(file)]


def well_formed(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
    return root


def files_of(directory):
    return {str(path): path.stat().st_mtime_ns for path in sorted(directory.rglob("*")) if path.is_file()}


def ablation_trains_every_rung_with_every_seed(place):
    place.out = place.path / "out"
    output = runs.must(runs.run(words(place, "out"), timeout=200)).stdout
    assert "+ selective SWA" in output, output
    rows = scores(place.out)
    assert [row["rung"] for row in rows if row["weights"] == "raw" and row["length"] == "32"] == ["baseline", "game", "guardian", "swa"]
    assert {row["length"] for row in rows if row["rung"] == "baseline"} == {"32"}, rows
    assert {row["length"] for row in rows if row["rung"] == "swa"} == {"8", "32"}, rows
    assert len({row["parameters"] for row in rows}) == 1, rows
    raw = {row["rung"]: row["cross_entropy"] for row in rows if row["weights"] == "raw" and row["length"] == "32"}
    assert raw["swa"] == raw["guardian"] and len(set(raw.values())) == 3, f"a mean of snapshots changes no training: {raw}"
    assert "± " in (place.out / "ablation.md").read_text()
    return str(raw)


def curves_are_well_formed(place):
    text = "".join(well_formed(place.out / "curves.svg").itertext())
    assert "+ Guardian and schedules" in text and "tokens" in text, text


def prior_is_drawn_for_every_layer_and_length(place):
    pictures = place.path / "pictures"
    runs.must(runs.run(["inspect", place.out / "swa-seed1", "--prior", pictures]))
    names = sorted(path.name for path in pictures.iterdir())
    assert names == [f"length-{length}-layer-0{layer}.svg" for length in (32, 8) for layer in (0, 1)], names
    texts = ["".join(well_formed(path).itertext()) for path in pictures.iterdir()]
    assert all("bias that attention adds" in text and "mean memberships" in text for text in texts), texts
    runs.must(runs.run(["inspect", place.out / "swa-seed1", "--prior", place.path / "longer", "--length", "100", "--weights", "best"]))
    assert len(list((place.path / "longer").iterdir())) == 2
    refused = runs.must(runs.run(["inspect", place.out / "swa-seed1", "--length", "8"]), code=2)
    assert "belongs to --prior" in refused.stderr, refused.stderr
    refused = runs.must(runs.run(["inspect", place.path, "--prior", pictures]), code=2)
    assert "neither a run nor a checkpoint" in refused.stderr, refused.stderr


def again_nothing_is_trained(place):
    run_files = files_of(place.out / "game-seed2")
    before = (place.out / "ablation.md").read_text()
    output = runs.must(runs.run(words(place, "out"))).stdout
    assert output.count("has ended before") == 8, output
    assert files_of(place.out / "game-seed2") == run_files
    assert (place.out / "ablation.md").read_text() == before
    (place.out / "curves.svg").unlink()
    runs.must(runs.run(words(place, "out", "--table-only")))
    well_formed(place.out / "curves.svg")


def interrupted(place, out, number, moment):
    """Starts the study and sends the signal once `moment` exists; the exit code."""
    process = runs.start(words(place, out), stdout=subprocess.DEVNULL)
    began = time.monotonic()
    while not moment.exists() and process.poll() is None:
        assert time.monotonic() - began < 60, f"{moment} does not come"
        time.sleep(0.002)
    runs.kill(process.pid, number)
    process.communicate(timeout=60)
    return process.returncode


def killed_and_continued_it_has_the_same_table(place):
    out = place.path / "killed"
    code = interrupted(place, "killed", signal.SIGKILL, out / "game-seed1" / "checkpoints" / "step_00000005")
    assert code == -signal.SIGKILL, code
    refused = runs.must(runs.run(words(place, "killed", "--table-only")), code=2)
    assert len(runs.error_lines(refused)) == 1, refused.stderr
    code = interrupted(place, "killed", signal.SIGTERM, out / "baseline-seed2" / "checkpoints" / "step_00000005")
    assert code == 75, code
    runs.must(runs.run(words(place, "killed"), ranks=2, timeout=200))
    assert scores(out) == scores(place.out), f"{scores(out)}\n{scores(place.out)}"


def other_settings_are_refused(place):
    process = runs.must(runs.run(words(place, "out", settings=["model.dropout=0.5"])), code=2)
    assert "model.dropout" in process.stderr and len(runs.error_lines(process)) == 1, process.stderr
    process = runs.must(runs.run(words(place, "new", settings=["data.datasets=nowhere"])), code=2)
    assert "longhaul tokenize" in process.stderr and len(runs.error_lines(process)) == 1, process.stderr


if __name__ == "__main__":
    runs.main([ablation_trains_every_rung_with_every_seed, curves_are_well_formed,
               prior_is_drawn_for_every_layer_and_length, again_nothing_is_trained,
               killed_and_continued_it_has_the_same_table, other_settings_are_refused])
