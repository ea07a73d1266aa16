"""Pieces that the reference models share. Everything is written for one document [T, d] at a time, from position 0."""
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width, epsilon=1e-6):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return self.weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.epsilon)


class SwiGLU(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * torch.sigmoid(gate) * self.up_proj(x))


def silu(x):
    return x * torch.sigmoid(x)


def causal_convolution(x, weight, bias=None):
    """x [T, channels], weight [channels, 1, width]: output t reads inputs t - width + 1 to t, zeros before the first."""
    width = weight.shape[-1]
    rows = []
    for t in range(x.shape[0]):
        total = torch.zeros_like(x[0]) if bias is None else bias
        for j in range(width):
            source = t - (width - 1) + j
            if source >= 0:
                total = total + weight[:, 0, j] * x[source]
        rows.append(total)
    return torch.stack(rows)


def rotate(x, base):
    """x [T, heads, D]: pairs (i, i + D/2) of position t turned by t / base^(2 i / D)."""
    length, _, size = x.shape
    frequencies = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = (torch.arange(length, dtype=torch.float64)[:, None] * frequencies)[:, None, :]
    low, high = x[..., : size // 2], x[..., size // 2:]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


def causal_attention(q, k, v, heads, key_heads, base):
    """q [T, heads D], k and v [T, key_heads D], before rotation; [T, heads D]."""
    length = q.shape[0]
    size = q.shape[1] // heads
    q = rotate(q.view(length, heads, size), base)
    k = rotate(k.view(length, key_heads, size), base).repeat_interleave(heads // key_heads, dim=1)
    v = v.view(length, key_heads, size).repeat_interleave(heads // key_heads, dim=1)
    scores = torch.einsum("thd,shd->hts", q, k) / size**0.5
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    return torch.einsum("hts,shd->thd", weights, v).reshape(length, heads * size)
