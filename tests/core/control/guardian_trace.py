#!/usr/bin/env python3
"""Prints the trace of Guardian that guardian_test.cpp expects, computed from the equations without the library: Philox4x32-10, the policy's
forward pass, its gradient by PyTorch's automatic differentiation and PyTorch's Adam, all in double.
usage: guardian_trace.py     (needs torch; run by hand, the numbers are committed in the test)"""
import math

import torch

SEED, GUARDIAN, START = 7, 0x47554152, 0x47535254
MASK = 0xFFFFFFFF
# gate delta, saturation, entropy, cross entropy; None did not finish
VALIDATIONS = [(0.30, 0.20, 0.90, 5.9), (0.20, 0.25, 0.85, 5.7), None, (0.10, 0.40, 0.80, 5.5), (0.15, 0.45, 0.78, 5.52), (0.05, 0.70, 0.60, 5.3)]


def philox(counter, key0, key1):
    c = list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key0, b & MASK, (a >> 32) ^ c[3] ^ key1, a & MASK]
        key0, key1 = (key0 + 0x9E3779B9) & MASK, (key1 + 0xBB67AE85) & MASK
    return c


def pair(stream, update, index):
    fold = philox([update, 0, 0, 0], SEED ^ stream, 0)
    bits = philox([index, 0, fold[2], fold[3]], fold[0], fold[1])
    return [((bits[i] << 32 | bits[i + 1]) >> 11) * 2.0**-53 for i in (0, 2)]


def normal(update, index):
    u, v = pair(GUARDIAN, update, index)
    return math.sqrt(-2 * math.log(1 - u)) * math.cos(2 * math.pi * v)


def make_policy():
    drawn, parameters = 0, []
    for rows, inputs in ((4, 4), (1, 4), (64, 64), (1, 64), (64, 64), (1, 64)):
        outputs = 3 if len(parameters) >= 4 else 64
        values = [(2 * pair(START, 0, drawn + i)[0] - 1) / math.sqrt(inputs) for i in range(rows * outputs)]
        drawn += rows * outputs
        parameters.append(torch.tensor(values, dtype=torch.float64).reshape(rows, outputs).requires_grad_())
    return parameters + [torch.zeros(3, dtype=torch.float64, requires_grad=True)]


def distribution(parameters, features):
    w1, b1, w2, b2, w3, b3, log_deviation = parameters
    hidden = torch.tanh(torch.tanh(torch.tensor([features], dtype=torch.float64) @ w1 + b1) @ w2 + b2)
    return torch.distributions.Normal((hidden @ w3 + b3)[0], log_deviation.exp())


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def reward(previous, now):
    gain = max(0.0, previous - now)
    return -now + gain + sigmoid(20 * gain * sigmoid((5.6 - previous) / 0.25))


def main():
    parameters = make_policy()
    adam = torch.optim.Adam(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    tau, delta, saturation, taken, pending = 1.2, 0.1, 0.1, 0, None  # tau starts at its soft limit
    for measured in VALIDATIONS:
        if measured is None:
            continue
        paid = 0.0
        if pending is not None:
            features, action = pending
            paid = reward(features[3], measured[3])
            advantage = paid - reward(features[3], features[3])
            adam.zero_grad()
            (-distribution(parameters, features).log_prob(action).sum() * advantage).backward()
            adam.step()
        with torch.no_grad():
            policy = distribution(parameters, measured)
            action = policy.mean + policy.stddev * torch.tensor([normal(taken, i) for i in range(3)], dtype=torch.float64)
        beta = 2 / (1 + taken / 20) ** 0.7
        a = action.tolist()
        tau += 0.03 * beta * a[0]
        tau = min(max(tau - 0.1 * max(0.0, tau - 1.2), 0.3), 1.6)
        delta = min(max(delta + 0.01 * beta * a[1], 0.0), 1.0)
        saturation = min(max(saturation + 0.01 * beta * a[2], 0.0), 0.6)
        pending, taken = (measured, action), taken + 1
        print(f"    {{{paid!r}, {{{a[0]!r}, {a[1]!r}, {a[2]!r}}}, {tau!r}, {delta!r}, {saturation!r}}},")


if __name__ == "__main__":
    main()
