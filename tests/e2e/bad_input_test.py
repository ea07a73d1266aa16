#!/usr/bin/env python3
# ctest: label=e2e timeout=480
"""Every refusal: non-zero exit within 10 seconds, one line that names what is wrong, nothing lost."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import runs


# A machine that is much busier than its cores starts processes too slowly for the promise of 10 seconds to mean anything.
LIMIT = 10 if os.getloadavg()[0] < 2 * os.cpu_count() else 30


def refused(arguments, pattern, ranks=0, code=2):
    began = time.monotonic()
    process = runs.run(arguments, ranks=ranks, timeout=30)
    seconds = time.monotonic() - began
    lines = runs.error_lines(process)
    assert process.returncode == code, f"{arguments}: exit code {process.returncode}, expected {code}\n{process.stderr[-2000:]}"
    assert len(lines) == 1, f"{arguments}: {len(lines)} lines: {process.stderr[-2000:]}"
    assert re.search(pattern, lines[0]), f"{arguments}: {lines[0]!r} does not match {pattern!r}"
    assert seconds < LIMIT, f"{arguments}: took {seconds:.1f} s"


def refused_training(config, *settings, pattern, ranks=2, code=2):
    refused(runs.train_words(config, *settings), pattern, ranks, code)


def command_line(place):
    refused(["trian"], "'trian' is not a command; did you mean 'train'")
    refused(["train", "--confg", "x"], "unknown option '--confg'; did you mean '--config'")
    refused(["train"], "needs --config")
    refused(["train", "--config", place.path / "missing.ini"], "missing.ini: no such configuration file", ranks=2)


def configuration(place):
    config = place.config("a")
    refused_training(config, "train.num_epochs=3", pattern=r"\[train\] has no key 'num_epochs'; did you mean 'train.steps'")
    refused_training(config, "train.steps=many", pattern="train.steps: expected a whole number")
    refused_training(config, "schedule.learning_rate=nan", pattern="schedule.learning_rate: expected a finite number")
    bad = place.path / "bad.ini"
    bad.write_text(config.read_text().replace("slots = 4", "slot = 4"))
    refused_training(bad, pattern=r"bad.ini:\d+: \[train\] has no key 'slot'; did you mean 'slots'")
    refused_training(config, "model.n_head=5", pattern="n_head")
    refused_training(config, "data.context=64", pattern="data.context is 64 but model.context_length is 32")
    refused_training(config, "model.vocab_size=100", pattern="model.vocab_size is 100 but .* 257")
    refused_training(config, "checkpoint.keep_last=0", pattern="checkpoint.keep_last: must be at least 1")
    assert not place.run_directory("a").exists() or not list(place.run_directory("a").glob("checkpoints/step_*"))


def uneven_ranks_and_slots(place):
    refused_training(place.config("uneven"), "train.slots=3", pattern="3.* slots|slots.* 3", ranks=2)


def ranks_with_different_configurations(place):
    """The second rank trains another model: named before the first step."""
    config, other = place.config("differ"), place.path / "other.ini"
    other.write_text(config.read_text().replace("n_layer = 2", "n_layer = 3"))
    words = [runs.PROGRAM, "train", "--config"]
    command = ["mpirun", "-n", "1", *words, str(config), ":", "-n", "1", *words, str(other)]
    began = time.monotonic()
    process = subprocess.run(command, env=runs.ENVIRONMENT, text=True, capture_output=True, timeout=30)
    lines = runs.error_lines(process)
    assert process.returncode == 2, process.stderr
    assert len(lines) == 1 and "model.n_layer" in lines[0], process.stderr
    assert time.monotonic() - began < LIMIT


def data_that_is_not_there(place):
    config = place.config("data")
    refused_training(config, f"data.datasets={place.path}/nowhere", pattern="nowhere")
    damaged = place.path / "damaged"
    shutil.copytree(place.data, damaged)
    shard = sorted(damaged.glob("*.h5"))[0]
    content = bytearray(shard.read_bytes())
    shard.write_bytes(bytes(content[:-1]))
    refused_training(config, f"data.datasets={damaged}", pattern=re.escape(shard.name))


def a_second_job_in_the_run_directory(place):
    config = place.config("taken")
    first = runs.start(runs.train_words(config, "train.steps=100000", "checkpoint.every=0"), ranks=2)
    try:
        while first.poll() is None and not (place.run_directory("taken") / "metrics.jsonl").exists():
            time.sleep(0.01)
        refused_training(config, pattern=r"process \d+")
        assert first.poll() is None, "the first job was disturbed"
    finally:
        runs.kill(first.pid, signal.SIGUSR2)
        out, err = first.communicate(timeout=60)
    assert first.returncode == 75, f"{out[-1000:]} {err[-1000:]}"


def a_checkpoint_of_another_model(place):
    config = place.config("model")
    runs.must(runs.train(config, "train.steps=10", ranks=2))
    before = runs.state_hash(place.run_directory("model"))
    refused_training(config, "model.n_layer=3", pattern="model.n_layer is 3 but the checkpoint .* 2")
    refused_training(config, "train.slots=8", pattern="train.slots is 8")
    other = place.path / "other_data"
    runs.make_text(place.path / "other.txt", documents=100, seed=2)
    runs.must(runs.tokenize(place.path / "other.txt", other))
    refused_training(config, f"data.datasets={other}", pattern="contents or weights differ")
    refused(["eval", "--run", place.run_directory("model"), "--checkpoint", "x"], "exactly one of")
    refused(runs.train_words(config) + ["--resume", "7"], "7", ranks=2)
    assert runs.state_hash(place.run_directory("model")) == before


def a_directory_that_cannot_be_written(place):
    """A file stands where the run directory should be (root writes into read-only directories)."""
    (place.path / "file").write_text("")
    refused_training(place.config("unwritable"), f"train.run_dir={place.path}/file/run", pattern="file", code=1)


if __name__ == "__main__":
    runs.main([command_line, configuration, uneven_ranks_and_slots, ranks_with_different_configurations,
               data_that_is_not_there, a_second_job_in_the_run_directory, a_checkpoint_of_another_model,
               a_directory_that_cannot_be_written])
