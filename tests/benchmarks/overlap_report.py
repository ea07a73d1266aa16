"""Draws the reduction timelines of two runs, overlap off and on: overlap_report.py RATE OFF.jsonl ON.jsonl"""
import json
import statistics
import sys


def lines(path, kind):
    with open(path, encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if line["kind"] == kind and line["step"] > 1]


def draw(line, width=72):
    """One row per bucket: '.' backward not there yet, '-' ready and waiting, '#' on the network; '|' marks the end of backward."""
    scale = width / line["finished"]
    end = round(line["backward_end"] * scale)
    for bucket, (ready, started, done) in enumerate(zip(line["bucket_ready"], line["bucket_started"], line["bucket_done"])):
        cells = ["."] * width
        for begin, stop, mark in ((ready, started, "-"), (started, done, "#")):
            for cell in range(round(begin * scale), min(width, max(round(stop * scale), round(begin * scale) + (mark == "#")))):
                cells[cell] = mark
        cells = cells[:round(done * scale)] + [" "] * (width - round(done * scale))
        print(f"  bucket {bucket:2}  {''.join(cells[:end])}|{''.join(cells[end:])}")


def main():
    rate, off, on = sys.argv[1:]
    print(f"link {rate}, two hosts, one rank each; seconds since the backward pass's slot began, rank 0")
    for name, path in (("off", off), ("on", on)):
        reductions = lines(path, "reduction")
        steps = [line["seconds"] for line in lines(path, "train")]
        middle = sorted(reductions, key=lambda line: line["exposed"])[len(reductions) // 2]
        print(f"\noverlap {name}: step {statistics.median(steps):.3f} s, reduction not hidden "
              f"{statistics.median(line['exposed'] for line in reductions):.3f} s; one step of {middle['finished']:.3f} s:")
        draw(middle)


main()
