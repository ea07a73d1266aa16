"""The Mamba2 mixer (models.md 3) as the plain recurrence."""
import torch
from torch import nn

from .common import RMSNorm, causal_convolution, silu


class Mamba2(nn.Module):
    """width -> heads of head_size -> width; projected=False leaves the output projection out."""

    def __init__(self, width, heads, head_size, state_size, convolution_width=4, projected=True):
        super().__init__()
        self.heads, self.head_size, self.state_size = heads, head_size, state_size
        inner = heads * head_size
        self.in_proj = nn.Linear(width, 2 * inner + 2 * state_size + heads, bias=False)
        self.conv1d = nn.Conv1d(inner + 2 * state_size, inner + 2 * state_size, convolution_width, groups=inner + 2 * state_size)
        self.dt_bias = nn.Parameter(torch.randn(heads) - 2)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, heads + 1).float()))
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(inner, 1e-5)
        if projected:
            self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, hidden):
        inner = self.heads * self.head_size
        z, xbc, dt = self.in_proj(hidden).split([inner, inner + 2 * self.state_size, self.heads], dim=-1)
        xbc = silu(causal_convolution(xbc, self.conv1d.weight, self.conv1d.bias))
        x, b, c = xbc.split([inner, self.state_size, self.state_size], dim=-1)
        x = x.view(-1, self.heads, self.head_size)
        dt = torch.log(1 + torch.exp(dt + self.dt_bias))
        decay = torch.exp(-torch.exp(self.A_log) * dt)
        state = x.new_zeros(self.heads, self.head_size, self.state_size)
        rows = []
        for t in range(x.shape[0]):
            written = torch.einsum("h,hp,n->hpn", dt[t], x[t], b[t])
            state = decay[t][:, None, None] * state + written
            rows.append(torch.einsum("hpn,n->hp", state, c[t]) + self.D[:, None] * x[t])
        y = self.norm(torch.stack(rows).reshape(-1, inner) * silu(z))
        return self.out_proj(y) if hasattr(self, "out_proj") else y
