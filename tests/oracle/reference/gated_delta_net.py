"""The Gated DeltaNet mixer (models.md 4) as the plain recurrence."""
import torch
from torch import nn

from .common import RMSNorm, causal_convolution, silu


class GatedDeltaNet(nn.Module):
    """width -> heads with keys of key_size and values of value_size -> width; projected=False leaves o_proj out."""

    def __init__(self, width, heads, key_size, value_size, convolution_width=4, projected=True):
        super().__init__()
        self.heads, self.key_size, self.value_size = heads, key_size, value_size
        for name, rows in [("q", key_size), ("k", key_size), ("v", value_size), ("g", value_size), ("b", 1), ("a", 1)]:
            setattr(self, name + "_proj", nn.Linear(width, heads * rows, bias=False))
        for name, rows in [("q", key_size), ("k", key_size), ("v", value_size)]:
            channels = heads * rows
            setattr(self, name + "_conv1d", nn.Conv1d(channels, channels, convolution_width, groups=channels, bias=False))
        self.A_log = nn.Parameter(torch.log(torch.rand(heads) * 15 + 1))
        self.dt_bias = nn.Parameter(torch.randn(heads) - 2)
        self.o_norm = RMSNorm(value_size, 1e-5)
        if projected:
            self.o_proj = nn.Linear(heads * value_size, width, bias=False)

    def convolved(self, name, hidden, size):
        projected, convolution = getattr(self, name + "_proj")(hidden), getattr(self, name + "_conv1d")
        return silu(causal_convolution(projected, convolution.weight)).view(-1, self.heads, size)

    def forward(self, hidden):
        q = normalised(self.convolved("q", hidden, self.key_size)) / self.key_size**0.5
        k = normalised(self.convolved("k", hidden, self.key_size))
        v = self.convolved("v", hidden, self.value_size)
        beta = torch.sigmoid(self.b_proj(hidden))
        alpha = torch.exp(-torch.exp(self.A_log) * torch.log(1 + torch.exp(self.a_proj(hidden) + self.dt_bias)))
        identity = torch.eye(self.key_size, dtype=q.dtype)
        state = q.new_zeros(self.heads, self.value_size, self.key_size)
        rows = []
        for t in range(q.shape[0]):
            strength = beta[t][:, None, None]
            forgetting = identity - strength * k[t][:, :, None] * k[t][:, None, :]
            state = alpha[t][:, None, None] * state @ forgetting + strength * v[t][:, :, None] * k[t][:, None, :]
            rows.append((state @ q[t][:, :, None]).squeeze(-1))
        gate = self.g_proj(hidden).view(-1, self.heads, self.value_size)
        o = (self.o_norm(torch.stack(rows)) * silu(gate)).reshape(-1, self.heads * self.value_size)
        return self.o_proj(o) if hasattr(self, "o_proj") else o


def normalised(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)
