"""The Fuzzy Transformer (models.md 7): GPT-2's pre-norm block with the length-aware prior in its attention, both residual
branches gated by memberships, and a mixture of experts that they choose from. Module names are those of the exported tensors.

Training: memberships of the block's input, all else from them. Evaluation: from stored means alone (`frozen`)."""
import math

import torch
from torch import nn

from . import length_prior


class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * self.weight + self.bias


class Linear(nn.Module):
    """y = x W^T + b, W [outputs, inputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(outputs, inputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight.T + self.bias


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.c_fc, self.c_proj = Linear(width, inner), Linear(inner, width)

    def forward(self, x):
        a = self.c_fc(x)
        gelu = 0.5 * a * (1 + torch.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
        return self.c_proj(gelu)


class Mixture(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate = nn.Linear(sizes["regimes"], sizes["moe_experts"], bias=False)
        self.experts = nn.ModuleList(FeedForward(sizes["d_model"], 4 * sizes["d_model"]) for _ in range(sizes["moe_experts"]))

    def forward(self, x, mu):
        outputs = torch.stack([expert(x) for expert in self.experts])
        return length_prior.mixture(outputs, self.gate(mu), 0.5, 2)


class Rpa(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, regimes = sizes["d_model"], sizes["regimes"]
        self.projection = Linear(width, width)
        self.centres = nn.Parameter(torch.zeros(regimes, width))
        self.log_sigma, self.pos_beta = nn.Parameter(torch.zeros(regimes)), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return length_prior.memberships(self.projection(x), self.centres, self.log_sigma)


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, regimes = sizes["d_model"], sizes["regimes"]
        self.sizes, self.heads = sizes, sizes["n_head"]
        self.rpa = Rpa(sizes)
        self.ln_1, self.ln_2 = LayerNorm(width), LayerNorm(width)
        self.attn = nn.Module()
        self.attn.c_attn, self.attn.c_proj = Linear(width, 3 * width), Linear(width, width)
        self.gamma, self.eta = nn.Linear(regimes, self.heads, bias=False), nn.Module()
        self.eta.weight = nn.Parameter(torch.zeros(regimes))
        self.mlp = Mixture(sizes) if sizes["moe_experts"] > 1 else FeedForward(width, 4 * width)

    def bias(self, mean, projection):
        sizes, phi = self.sizes, length_prior.basis(len(mean), self.sizes["regimes"])
        b = length_prior.matrix(mean, projection, phi, self.rpa.pos_beta, sizes["mix"])
        return length_prior.bias(b, sizes["temperature"], sizes["clip"], sizes["warm"])

    def forward(self, rows, starts, frozen=None):
        """rows [B, T, d], starts [B, T]; frozen: (mean memberships [T, R], alignment [R, R]). The rows, and the memberships
        [B, T, R]."""
        batch, length, width = rows.shape
        if frozen is None:
            mu = self.rpa(rows.reshape(-1, width)).reshape(batch, length, -1)
            mean = mu.mean(0)
            phi = length_prior.basis(length, self.sizes["regimes"])
            projection = length_prior.alignment(mean, phi, 0.7, 6, self.sizes["detach"])
        else:
            mean, projection = frozen
            mu = mean.expand(batch, *mean.shape)
        added = self.bias(mean, projection)
        return torch.stack([self.row(x, m, s, added, frozen is not None) for x, m, s in zip(rows, mu, starts)]), mu

    def row(self, x, mu, starts, added, whole):
        """whole: gamma from all memberships, else from those of each document."""
        length, width = x.shape
        eta = length_prior.eta(mu, self.eta.weight)[:, None]
        q, k, v = self.attn.c_attn(self.ln_1(x)).reshape(length, 3, self.heads, -1).unbind(1)
        attended = length_prior.causal_attention(q, k, v, added, starts)
        gamma = torch.stack([length_prior.gamma(mu if whole else mu[starts == start], self.gamma.weight) for start in starts])
        x = x + eta * self.attn.c_proj(gamma[:, None] * attended)
        inner = self.ln_2(x)
        return x + eta * (self.mlp(inner, mu) if isinstance(self.mlp, Mixture) else self.mlp(inner))


class FuzzyTransformer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes, width = sizes, sizes["d_model"]
        self.fuzzy = nn.Module()
        self.fuzzy.wte, self.fuzzy.wpe = nn.Embedding(sizes["vocab_size"], width), nn.Embedding(sizes["context_length"], width)
        self.fuzzy.h = nn.ModuleList(Block(sizes) for _ in range(sizes["n_layer"]))
        self.fuzzy.ln_f = LayerNorm(width)

    def forward(self, ids, starts, frozen=None):
        """ids and starts [B, T]; positions count from the start of each document. Logits [B, T, V] and memberships by block."""
        positions = torch.arange(ids.shape[1])[None, :] - starts
        x, memberships = self.fuzzy.wte(ids) + self.fuzzy.wpe(positions), []
        for layer, block in enumerate(self.fuzzy.h):
            x, mu = block(x, starts, None if frozen is None else tuple(part[layer] for part in frozen))
            memberships.append(mu)
        return self.fuzzy.ln_f(x) @ self.fuzzy.wte.weight.T, memberships

    def objective(self, ids, starts, targets):
        """Sums over tokens with a target >= 0: smoothed cross-entropy with the floor of the entropy, and plain cross-entropy."""
        sizes = self.sizes
        logits, memberships = self(ids, starts)
        logarithm = torch.log_softmax(logits, dim=-1)[targets >= 0]
        plain = -logarithm.gather(1, targets[targets >= 0][:, None]).sum()
        smoothed = (1 - sizes["smoothing"]) * plain - sizes["smoothing"] * logarithm.mean(-1).sum()
        floor = sum(length_prior.entropy_floor(mu[targets >= 0], sizes["share"]) for mu in memberships) / len(memberships)
        return smoothed + sizes["floor_weight"] * (1 + sizes["saturation"]) / 2 * floor, plain
