#!/usr/bin/env python3
"""The table of the runs that retrieval.sh collected: DIRECTORY/MODEL-SEED.{log,eval} and the metrics of DIRECTORY/MODEL-SEED."""
import json
import re
import statistics
import sys
from pathlib import Path

MODELS = ("recurrent", "amor", "transformer")


def scores_of(report):
    """(share of right answers; share of all tokens on which the gates fired, or None) as `longhaul eval` prints them."""
    text = report.read_text()
    accuracy = re.search(r"accuracy ([\d.]+)", text)
    if accuracy is None:
        sys.exit(f"retrieval_report.py: {report} has no accuracy")
    rates = [float(rate) for rate in re.findall(r"^gate \d+ fired on ([\d.]+) %", text, re.MULTILINE)]
    return float(accuracy.group(1)), statistics.mean(rates) if rates else None


def minutes_of(run):
    """Minutes of all training steps."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "train"]
    # Steps between two lines take about as long as the later one.
    return sum(line["seconds"] * (line["step"] - before) for line, before in
               zip(steps, [0] + [line["step"] for line in steps])) / 60


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


directory = Path(sys.argv[1])
print(f"{'model':<14}{'parameters':>12}{'seeds':>7}{'accuracy':>12}{'deviation':>11}{'lowest':>9}{'highest':>9}{'fires on':>10}{'minutes':>9}")
for model in MODELS:
    reports = sorted(directory.glob(f"{model}-*.eval"))
    if not reports:
        continue
    accuracies, rates = zip(*(scores_of(report) for report in reports))
    minutes = statistics.mean(minutes_of(report.with_suffix("")) for report in reports)
    parameters = re.search(r"^model \w+: ([\d.]+\w?) parameters", reports[0].with_suffix(".log").read_text(), re.MULTILINE)
    fires = "" if rates[0] is None else f"{statistics.mean(rates):.1f} %"
    print(f"{model:<14}{parameters.group(1):>12}{len(reports):>7}{100 * statistics.mean(accuracies):>10.2f} %"
          f"{100 * spread(accuracies):>9.2f} %{100 * min(accuracies):>7.1f} %{100 * max(accuracies):>7.1f} %{fires:>10}"
          f"{minutes:>9.1f}")
