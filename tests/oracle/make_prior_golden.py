#!/usr/bin/env python3
"""Writes tests/oracle/golden/length-prior: what reference/length_prior.py and reference/fuzzy_transformer.py make, in double
precision, of inputs that a counter gives, so that only results are stored. tests/core/ops/length_prior_golden_test.cpp and
tests/core/models/fuzzy_golden_test.cpp check them without PyTorch.

usage: make_prior_golden.py DIRECTORY     (run by hand after `tests/oracle/run.sh --venv-only`; the result is committed)"""
import pathlib
import sys

import numpy
import torch
from safetensors.torch import save_file

from reference import length_prior
from reference.fuzzy_transformer import FuzzyTransformer

LENGTHS = [1, 2, 63, 64, 65, 768]
ROWS, REGIMES, COLUMNS, HEADS, KEY_HEADS, SIZE = 2, 4, 4, 4, 2, 4
WHOLE, SAMPLES, SUMS = 256, 64, 4  # a tensor of more than WHOLE numbers is stored as a summary
VARIANTS = {
    "open": dict(mix=0.1, pos_beta=0.1875, temperature=1.25, clip=4.0, warm=0.75, align=0.7, log_sigma=[0.0, 0.5, -0.25, 0.25]),
    "clipped": dict(mix=0.4, pos_beta=0.6875, temperature=0.3, clip=1.0, warm=1.0, align=4.0, log_sigma=[-3.75, 0.5, 0.25, 0.0]),
}
MODEL = {"vocab_size": 37, "context_length": 16, "n_layer": 2, "d_model": 12, "n_head": 3, "moe_experts": 1, "regimes": 3,
         "mix": 0.3, "temperature": 0.8, "warm": 0.75, "clip": 1.0, "smoothing": 0.015, "share": 0.9, "floor_weight": 0.02,
         "saturation": 0.5, "detach": True}
MODEL_LENGTH = 11
GATE_LENGTH, EXPERTS, CHOSEN, GATE_COLUMNS = 9, 4, 2, 3


def counted(shape, stream, scale=1.0):
    """Multiples of scale / 2^19 in [-scale, scale), exact in single precision: a mixed counter (Steele, Lea & Flood 2014)."""
    count = int(numpy.prod(shape))
    x = (numpy.arange(count, dtype=numpy.uint64) + numpy.uint64((stream << 32) + 1)) * numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    x = (x ^ (x >> numpy.uint64(31))) >> numpy.uint64(44)
    return torch.from_numpy((x.astype(numpy.float64) / 2**19 - 1) * scale).reshape(shape)


def summary(tensor):
    """All numbers, or of many: SAMPLES of them, SUMS sums with weights of a counter, and the largest magnitude."""
    flat = tensor.detach().double().reshape(-1)
    if len(flat) <= WHOLE:
        return flat
    samples = flat[torch.arange(SAMPLES) * len(flat) // SAMPLES]
    sums = torch.stack([(flat * counted([len(flat)], 900 + s)).sum() for s in range(SUMS)])
    return torch.cat([samples, sums, flat.abs().max().reshape(1)])


def drifting(length):
    """z [rows * length, COLUMNS]: its first column climbs along each row, so that regimes hold parts of a row. The prior of
    memberships without such an order is nearly constant, and its standardised form has no digits in single precision."""
    z = counted([ROWS * length, COLUMNS], 21)
    z[:, 0] += (8 * (torch.arange(ROWS * length) % length) // length - 4) / 2
    return z


def document_starts(length):
    """[rows, length]: one document, then some that do not end with the row."""
    t = torch.arange(length)
    return torch.stack([torch.zeros(length, dtype=torch.long), t - t % (1 + length // 3)])


def forward(inputs, length, settings, detach):
    """Everything from the inputs to the output of attention, by name."""
    found = {"memberships": length_prior.memberships(inputs["z"], inputs["centres"], inputs["log_sigma"])}
    mean = found["mean_memberships"] = found["memberships"].reshape(ROWS, length, REGIMES).mean(0)
    phi = found["basis"] = length_prior.basis(length, REGIMES)
    found["alignment"] = length_prior.alignment(mean, phi, settings["align"], 6, detach)
    b = length_prior.matrix(mean, found["alignment"], phi, inputs["pos_beta"], settings["mix"])
    found["moments"] = torch.stack(length_prior.moments(b))
    added = length_prior.bias(b, settings["temperature"], settings["clip"], settings["warm"])
    lower = torch.tril_indices(length, length)
    found["matrix"], found["bias"] = b[lower[0], lower[1]], added[lower[0], lower[1]]
    check_clipping(length, settings, length_prior.standardised(b, settings["temperature"])[lower[0], lower[1]])
    qkv = inputs["qkv"].reshape(ROWS, length, HEADS + 2 * KEY_HEADS, SIZE).split([HEADS, KEY_HEADS, KEY_HEADS], dim=2)
    starts = document_starts(length)
    found["output"] = torch.cat([length_prior.causal_attention(*(x[row] for x in qkv), added, starts[row]) for row in range(ROWS)])
    return found


def check_clipping(length, settings, values):
    clipped = int((values.abs() > settings["clip"]).sum())
    if length > 2 and ((clipped > 0) != (settings["clip"] < 4) or clipped == len(values)):
        raise SystemExit(f"T = {length}: {clipped} of {len(values)} entries are clipped")


def prior_case(length, settings):
    inputs = {
        "z": drifting(length),
        "centres": counted([REGIMES, COLUMNS], 2),
        "log_sigma": torch.tensor(settings["log_sigma"], dtype=torch.float64),
        "pos_beta": torch.tensor([settings["pos_beta"]], dtype=torch.float64),
        "qkv": counted([ROWS * length, (HEADS + 2 * KEY_HEADS) * SIZE], 3, 2.0),
    }
    stored = {}
    for detach in (True, False):
        for value in inputs.values():
            value.grad = None
            value.requires_grad_(True)
        found = forward(inputs, length, settings, detach)
        (found["output"] * counted(found["output"].shape, 4)).sum().backward()
        stored |= found
        stored |= {f"{'detached' if detach else 'attached'}.{name}": value.grad for name, value in inputs.items()}
    return {name: summary(value) for name, value in stored.items()}


def gates_case():
    """gamma of every document, eta, the mixture and the floor of the entropy, each from inputs of a counter."""
    tokens = ROWS * GATE_LENGTH
    inputs = {
        "memberships": torch.softmax(counted([tokens, REGIMES], 11, 4.0), dim=-1).float().double(),
        "gamma_weight": counted([HEADS, REGIMES], 12, 2.0),
        "eta_weight": counted([REGIMES], 13, 2.0),
        "x": counted([tokens, GATE_COLUMNS], 14),
        "logits": counted([tokens, EXPERTS], 15, 2.0),
        "outputs": counted([EXPERTS, tokens, GATE_COLUMNS], 16),
    }
    stored = {"input.memberships": inputs["memberships"].clone()}
    for value in inputs.values():
        value.requires_grad_(True)
    mu, starts = inputs["memberships"], document_starts(GATE_LENGTH)
    gamma = []
    for row in range(ROWS):
        for token in range(GATE_LENGTH):
            document = starts[row] == starts[row][token]
            gamma.append(length_prior.gamma(mu[row * GATE_LENGTH:][:GATE_LENGTH][document], inputs["gamma_weight"]))
    parts = {
        "gamma": torch.stack(gamma)[:, None] * inputs["x"],
        "eta": length_prior.eta(mu, inputs["eta_weight"])[:, None] * inputs["x"],
        "mixture": length_prior.mixture(inputs["outputs"], inputs["logits"], 0.5, CHOSEN),
        "floor": length_prior.entropy_floor(mu, 0.75).reshape(1),
    }
    for part, value in parts.items():
        objective = value.sum() if part == "floor" else (value * counted(value.shape, 17)).sum()
        names = [name for name in inputs if torch.autograd.grad(objective, inputs[name], retain_graph=True, allow_unused=True)[0] is not None]
        gradients = torch.autograd.grad(objective, [inputs[name] for name in names], retain_graph=True)
        stored |= {part: value} | {f"{part}.{name}": gradient for name, gradient in zip(names, gradients)}
    return {name: value.detach().reshape(-1) for name, value in stored.items()}


def make_model(**changes):
    """Parameters from a counter, by the order of their names; gains and the slope of the penalty around 1, all else around 0."""
    model = FuzzyTransformer(MODEL | changes).double()
    for stream, (name, parameter) in enumerate(sorted(model.named_parameters())):
        centre = 1 if "ln_" in name and name.endswith("weight") or name.endswith("pos_beta") else 0
        parameter.data = centre + counted(parameter.shape, 1000 + stream, 0.5)
    return model


def model_batch():
    """ids, starts and targets [ROWS, MODEL_LENGTH]; the last token of a document predicts nothing."""
    ids = ((counted([ROWS, MODEL_LENGTH], 30) + 1) / 2 * MODEL["vocab_size"]).long()
    starts, targets = document_starts(MODEL_LENGTH), ids.roll(-1, dims=1)
    targets[:, -1] = -1
    targets[:, :-1][starts[:, 1:] != starts[:, :-1]] = -1
    return ids, starts, targets


def gradients(model):
    return {"gradient." + name: summary(torch.zeros_like(value) if value.grad is None else value.grad)
            for name, value in model.named_parameters()}


def training_case(detach):
    model = make_model(detach=detach)
    objective, cross_entropy = model.objective(*model_batch())
    objective.backward()
    return {"objective": objective.detach().reshape(1), "cross_entropy": cross_entropy.detach().reshape(1)} | gradients(model)


def evaluation_case():
    """Three experts, prior and gates from stored means."""
    model, (ids, starts, targets) = make_model(moe_experts=3), model_batch()
    mean = torch.softmax(counted([MODEL["n_layer"], MODEL_LENGTH, MODEL["regimes"]], 34, 4.0), dim=-1).float().double()
    phi = length_prior.basis(MODEL_LENGTH, MODEL["regimes"])
    projection = torch.stack([length_prior.alignment(layer, phi, 0.7, 6, True) for layer in mean]).float().double()
    logits, _ = model(ids, starts, (mean, projection))
    total = torch.nn.functional.cross_entropy(logits[targets >= 0], targets[targets >= 0], reduction="sum")
    total.backward()
    return {"input.memberships": mean.reshape(-1), "input.alignment": projection.reshape(-1), "logits": summary(logits),
            "cross_entropy": total.detach().reshape(1)} | gradients(model)


def save(root, name, tensors):
    save_file({key: value.contiguous() for key, value in tensors.items()}, root / f"{name}.safetensors")


def main():
    root = pathlib.Path(sys.argv[1]) / "length-prior"
    root.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # the same bits on every machine of a kind
    for variant, settings in VARIANTS.items():
        stored = {f"{length}.{name}": value for length in LENGTHS for name, value in prior_case(length, settings).items()}
        save(root, variant, stored)
    save(root, "gates", gates_case())
    save(root, "training-detached", training_case(True))
    save(root, "training-attached", training_case(False))
    save(root, "evaluation", evaluation_case())


if __name__ == "__main__":
    main()
