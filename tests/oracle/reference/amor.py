"""AMOR (models.md 6): entropy-gated attention after a recurrent backbone."""
import math

import torch
from torch import nn

from .backbones import backbone_class, make_norm
from .common import causal_attention


class Gate(nn.Module):
    """Running statistics of one block's entropies and the decision they give."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.register_buffer("running_threshold", torch.tensor(options["initial_mean"], dtype=torch.float64))
        self.register_buffer("running_std", torch.tensor(options["initial_deviation"], dtype=torch.float64))

    def threshold(self):
        if self.options["threshold"] == "fixed":
            return self.running_threshold.item() + self.options["margin"]
        return self.running_threshold.item() + self.options["kappa"] * self.running_std.item()

    def update(self, entropies):
        values = sorted(entropies.tolist())
        count = len(values)
        mean = math.fsum(values) / count
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
        median = values[(count - 1) // 2]
        old = self.options["momentum"]
        self.running_threshold.fill_(old * self.running_threshold.item() + (1 - old) * median)
        self.running_std.fill_(old * self.running_std.item() + (1 - old) * deviation)


class KeyValue(nn.Module):
    def __init__(self, width, rows):
        super().__init__()
        self.k_proj, self.v_proj = nn.Linear(width, rows, bias=False), nn.Linear(width, rows, bias=False)


class Block(nn.Module):
    """Attention whose update is added where the gate fires."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["d_model"]
        self.heads = sizes["n_head"]
        self.q_proj, self.kv_proj = nn.Linear(width, width, bias=False), KeyValue(width, width)
        self.out_proj = nn.Linear(width, width, bias=False)
        self.raw_alpha = nn.Parameter(torch.zeros(width))
        self.gate = Gate(sizes["gate"])

    def update(self, u):
        attended = causal_attention(self.q_proj(u), self.kv_proj.k_proj(u), self.kv_proj.v_proj(u), self.heads, self.heads,
                                    10000.0)
        return torch.sigmoid(torch.clamp(self.raw_alpha, min=-1)) * self.out_proj(attended)


def make_amor(sizes):
    class Amor(backbone_class(sizes)):
        def __init__(self):
            super().__init__(sizes)
            self.sizes = sizes
            self.nearest = math.inf
            width, blocks = sizes["d_model"], sizes["gate"]["blocks"]
            self.embed = nn.Embedding(sizes["vocab_size"], width)
            self.norm_f, self.final_norm = make_norm(sizes), make_norm(sizes)
            self.amor_blocks = nn.ModuleList(Block(sizes) for _ in range(blocks))
            self.amor_pre_norms = nn.ModuleDict({str(i): make_norm(sizes) for i in range(1, blocks)})
            if not sizes["tie_embeddings"]:
                self.lm_head = nn.Linear(width, sizes["vocab_size"], bias=False)

        def output_weight(self):
            return self.embed.weight if sizes["tie_embeddings"] else self.lm_head.weight

        def entropy(self, u):
            """Of the next-token distribution read off u, as a share of log V; no gradient."""
            with torch.no_grad():
                log_p = torch.log_softmax(u @ self.output_weight().T, dim=-1)
                return -(log_p.exp() * log_p).sum(-1) / math.log(sizes["vocab_size"])

        def forward(self, documents, valid=None, update="none"):
            """Logits of every document. In training `valid` marks the tokens whose entropies count and update tells the
            order: "before" this pass compares, "after" (statistics change at the end), "none" at evaluation. self.record
            keeps (entropies, fired) of every block and document, self.nearest the least distance so far of an entropy from
            its threshold: near 1e-7 and below, single precision may decide otherwise."""
            h = [self.backbone(self.embed(ids)) for ids in documents]
            if sizes["gate"]["mode"] == "classic":
                h = [self.norm_f(x) for x in h]
            self.record = []
            for i, block in enumerate(self.amor_blocks):
                u = [self.stream(i, x) for x in h]
                entropies = [self.entropy(x) for x in u]
                if update != "none":
                    counted = torch.cat([e[v] for e, v in zip(entropies, valid)])
                if update == "before":
                    block.gate.update(counted)
                fired = [e > block.gate.threshold() for e in entropies]
                self.nearest = min([self.nearest] + [(e - block.gate.threshold()).abs().min().item() for e in entropies])
                if update == "after":
                    block.gate.update(counted)
                h = [x + f[:, None] * block.update(y) for x, y, f in zip(h, u, fired)]
                self.record.append(list(zip(entropies, fired)))
            return [self.final_norm(x) @ self.output_weight().T for x in h]

        def stream(self, i, h):
            """What block i reads. In classic mode h is normed already before block 0."""
            if i > 0:
                return self.amor_pre_norms[str(i)](h)
            return h if sizes["gate"]["mode"] == "classic" else self.norm_f(h)

    return Amor()
