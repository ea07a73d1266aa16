#!/usr/bin/env python3
"""The table of the runs that retrieval.sh collected: DIRECTORY/MODEL-SEED.{log,eval} and the metrics of DIRECTORY/MODEL-SEED."""
import json
import re
import statistics
import sys
from pathlib import Path

MODELS = ("recurrent", "amor", "transformer")


def accuracy_of(report):
    """Share of right answers, as `longhaul eval` prints it."""
    found = re.search(r"accuracy ([\d.]+)", report.read_text())
    if found is None:
        sys.exit(f"retrieval_report.py: {report} has no accuracy")
    return float(found.group(1))


def training_of(run):
    """(fire rate of the gates at the end, or None; minutes of all steps)."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "train"]
    # Steps between two lines take about as long as the later one.
    seconds = sum(line["seconds"] * (line["step"] - before) for line, before in
                  zip(steps, [0] + [line["step"] for line in steps]))
    rates = [value for key, value in steps[-1].items() if key.startswith("fire_rate.")]
    return (statistics.mean(rates) if rates else None), seconds / 60


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


directory = Path(sys.argv[1])
print(f"{'model':<14}{'parameters':>12}{'seeds':>7}{'accuracy':>12}{'deviation':>11}{'lowest':>9}{'highest':>9}{'fires on':>10}{'minutes':>9}")
for model in MODELS:
    reports = sorted(directory.glob(f"{model}-*.eval"))
    if not reports:
        continue
    accuracies = [accuracy_of(report) for report in reports]
    rates, minutes = zip(*(training_of(report.with_suffix("")) for report in reports))
    parameters = re.search(r"^model \w+: ([\d.]+\w?) parameters", reports[0].with_suffix(".log").read_text(), re.MULTILINE)
    fires = "" if rates[0] is None else f"{100 * statistics.mean(rates):.1f} %"
    print(f"{model:<14}{parameters.group(1):>12}{len(reports):>7}{100 * statistics.mean(accuracies):>10.2f} %"
          f"{100 * spread(accuracies):>9.2f} %{100 * min(accuracies):>7.1f} %{100 * max(accuracies):>7.1f} %{fires:>10}"
          f"{statistics.mean(minutes):>9.1f}")
