"""Reads what `longhaul bench step` prints: several reports one after another."""
import re


def step_seconds(text):
    return [float(value) / 1e3 for value in re.findall(r"^step +([\d.]+) ms", text, flags=re.MULTILINE)]


def peak_gib(text):
    return [float(value) / 1024 for value in re.findall(r"^peak memory +([\d.]+) MiB resident", text, flags=re.MULTILINE)]
