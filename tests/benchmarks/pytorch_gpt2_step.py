#!/usr/bin/env python3
"""One training step of GPT-2 124M in eager PyTorch, fp32 on the CPU: forward, backward, clip_grad_norm_, AdamW.

The model is GPT-2 as published (learned positions, pre-LayerNorm, GELU(tanh), tied head, no dropout), written with the fastest
eager pieces: scaled_dot_product_attention and the fused AdamW. Prints one JSON line: median, smallest and largest step
time in seconds, tokens/s, peak resident memory in GiB.
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=50257, context=1024, layers=12, width=768, heads=12):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer_for(model, kind):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), **{kind: True})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--adamw", choices=("fused", "foreach"), default="fused")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = GPT2()
    optimizer = optimizer_for(model, options.adamw)
    ids = torch.randint(0, 50257, (options.rows, options.length + 1))
    times = []
    for step in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step >= options.warmup:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(json.dumps({
        "seconds": median, "smallest": min(times), "largest": max(times),
        "tokens_per_second": options.rows * options.length / median,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "torch": torch.__version__, "threads": options.threads, "adamw": options.adamw,
    }))


if __name__ == "__main__":
    main()
