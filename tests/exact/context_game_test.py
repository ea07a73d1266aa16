#!/usr/bin/env python3
# ctest: label=exact timeout=300
"""The game of context lengths keeps the bits: the same hash for 1, 2 and 4 ranks, stopped, resized and killed; a game of
one length, or none, is a plain run."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kills
import runs

SHARED = ["train.steps=30", "train.ema_decay=0.9", "model.dropout=0.1"]
GAME = ["game.lengths=8,16,32", "game.every=4", "game.eta=2"]


def final_hash(place, name, *settings, ranks=0):
    runs.must(runs.train(place.config(name), *SHARED, *settings, ranks=ranks))
    return runs.state_hash(place.run_directory(name))


def one_length_is_a_plain_run(place):
    place.plain = final_hash(place, "plain")
    one = final_hash(place, "one_length", "game.lengths=32", "game.every=4", ranks=2)
    assert one == place.plain, f"one length: {one}, expected {place.plain}"


def test_of(assignment):
    def ranks_and_interruptions_keep_the_hash(place):
        # The stops are in the middle of an interval between updates.
        hashes = runs.hashes_of_ranks(place, assignment, [*SHARED, *GAME, f"game.assignment={assignment}"], ((10, 2), (19, 4)))
        assert len(set(hashes.values())) == 1 and hashes[1] != place.plain, hashes
        games = [[{key: value for key, value in line.items() if key != "imbalance"} for line in
                  place.metrics(f"{assignment}_{name}", "game")] for name in (1, 2, 4, "stopped")]
        assert all(game == games[0] for game in games), games
        assert [line["step"] for line in games[0]] == list(range(4, 29, 4)), games[0]
        return f"{hashes[1]}, q {[round(games[0][-1][f'q.{length}'], 3) for length in (8, 16, 32)]}"
    ranks_and_interruptions_keep_the_hash.__name__ = f"{assignment}_ranks_and_interruptions_keep_the_hash"
    return ranks_and_interruptions_keep_the_hash


def killed_run_ends_the_same(place):
    return kills.killed_runs(place, "game", [*SHARED, *GAME, "game.assignment=per_rank"], 1, seed=5)


def validation_is_at_every_length(place):
    before = final_hash(place, "not_validated", *GAME, "train.steps=8")
    assert final_hash(place, "validated", *GAME, "train.steps=8", "validation.every=4", ranks=2) == before
    for kind, length in (("validation", 32), ("validation_16", 16), ("validation_ema_8", 8)):
        lines = place.metrics("validated", kind)
        assert [(line["step"], line["length"]) for line in lines] == [(4, length), (8, length)], (kind, lines)


def other_lengths_are_refused_on_resume(place):
    for setting in ("game.lengths=16,32", "game.assignment=per_rank"):
        result = runs.must(runs.train(place.config("global_1"), *SHARED, *GAME, setting), code=2)
        lines = runs.error_lines(result)
        assert len(lines) == 1 and setting.split("=")[0] in lines[0], result.stderr


if __name__ == "__main__":
    runs.main([one_length_is_a_plain_run, test_of("global"), test_of("per_rank"), killed_run_ends_the_same,
               validation_is_at_every_length, other_lengths_are_refused_on_resume])
