#!/usr/bin/env python3
"""Training steps in eager PyTorch, fp32 on the CPU: forward, backward, clip_grad_norm_, AdamW.

  --model gpt2         GPT-2 124M, written with the fastest eager pieces (pytorch_gpt2.py)
  --model mamba2       Mamba2 130M: transformers' Mamba2ForCausalLM, its torch path
  --model olmo-hybrid  11 Gated DeltaNet layers and one of attention: transformers' OlmoHybridForCausalLM, its torch path

Prints one JSON line: median, smallest and largest step time in seconds, tokens/s, peak resident memory in GiB.
"""
import argparse
import json
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def make_gpt2():
    from pytorch_gpt2 import GPT2
    return GPT2(), 50257


def make_mamba2():
    from transformers import Mamba2Config, Mamba2ForCausalLM
    config = Mamba2Config(vocab_size=50288, hidden_size=768, num_hidden_layers=24, state_size=128, head_dim=64, num_heads=24,
                          expand=2, n_groups=1, chunk_size=256, tie_word_embeddings=True, use_cache=False)
    return Mamba2ForCausalLM(config), config.vocab_size


def make_olmo_hybrid():
    from transformers import OlmoHybridConfig, OlmoHybridForCausalLM
    config = OlmoHybridConfig(vocab_size=50304, hidden_size=768, intermediate_size=2048, num_hidden_layers=12,
                              num_attention_heads=6, linear_num_key_heads=6, linear_num_value_heads=6,
                              linear_key_head_dim=96, linear_value_head_dim=192, linear_allow_neg_eigval=False,
                              layer_types=["linear_attention"] * 11 + ["full_attention"], max_position_embeddings=2048,
                              rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
                              use_cache=False, pad_token_id=None, eos_token_id=None)
    return OlmoHybridForCausalLM(config), config.vocab_size


MODELS = {"gpt2": make_gpt2, "mamba2": make_mamba2, "olmo-hybrid": make_olmo_hybrid}


def optimizer_for(model, kind):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), **{kind: True})


def logits_of(model, ids):
    output = model(ids)
    return output if torch.is_tensor(output) else output.logits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--adamw", choices=("fused", "foreach"), default="fused")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model, vocabulary = MODELS[options.model]()
    model.train()
    optimizer = optimizer_for(model, options.adamw)
    ids = torch.randint(0, vocabulary, (options.rows, options.length + 1))
    times = []
    for step in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = F.cross_entropy(logits_of(model, ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        if step >= options.warmup:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(json.dumps({
        "model": options.model, "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": median, "smallest": min(times), "largest": max(times),
        "tokens_per_second": options.rows * options.length / median,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "torch": torch.__version__, "threads": options.threads, "adamw": options.adamw,
    }))


if __name__ == "__main__":
    main()
