"""The length-aware prior and what else the memberships of tokens decide, as spec/models.md 7 writes them: whole T x T matrices,
no rewriting. Differentiable; torch.autograd gives every gradient."""
import math

import torch


def memberships(z, centres, log_sigma):
    """z [tokens, columns], centres [R, columns], log_sigma [R]; [tokens, R] (7.1)."""
    square = ((z[:, None, :] - centres[None, :, :]) ** 2).sum(-1)
    precision = torch.exp(-2 * log_sigma).clamp(1e-3, 1e3)
    return torch.softmax((-square / 2 * precision).clamp(-30, 30), dim=-1)


def basis(length, count):
    """[length, count] (7.2)."""
    t = torch.arange(length, dtype=torch.float64)[:, None]
    centres = torch.linspace(0, length - 1, count, dtype=torch.float64)[None, :]
    width = max(1.0, 1.5 * length / count)
    phi = 0.5 * (1 + torch.cos(math.pi * ((t - centres).abs() / width).clamp(max=1)))
    return phi / (phi.sum(-1, keepdim=True) + 1e-6)


def alignment(mean, phi, temperature, iterations, detach):
    """mean [T, R], phi [T, K]; [R, K] (7.3)."""
    scores = mean.T @ phi
    if detach:
        scores = scores.detach()
    logarithm = (scores / temperature).clamp(math.log(1e-9), math.log(1e9))
    for _ in range(iterations):
        logarithm = logarithm - torch.logsumexp(logarithm, dim=1, keepdim=True)
        logarithm = logarithm - torch.logsumexp(logarithm, dim=0, keepdim=True)
    return logarithm.exp()


def matrix(mean, projection, phi, pos_beta, mix):
    """B before it is standardised [T, T] (7.4)."""
    t = torch.arange(mean.shape[0], dtype=mean.dtype)
    distance = (t[:, None] - t[None, :]).abs() / max(mean.shape[0] - 1, 1)
    return (1 - mix) * (mean @ projection @ phi.T) - mix * pos_beta.clamp(min=0) * distance


def moments(b):
    """Mean and deviation over all T^2 entries."""
    return b.mean(), torch.std(b, correction=0)


def standardised(b, temperature):
    """z-score over the temperature: the bias before clipping and warm-in (7.4, 7.5)."""
    mean, deviation = moments(b)
    return (b - mean) / (deviation + 1e-6) / min(max(temperature, 0.6), 1.6)


def bias(b, temperature, clip, warm):
    return standardised(b, temperature).clamp(-clip, clip) * warm


def causal_attention(q, k, v, added, starts):
    """One row: q [T, heads, D], k and v [T, key_heads, D], added [T, T] to the scores of every head; position i sees starts[i] to i."""
    length, heads, size = q.shape
    k, v = (x.repeat_interleave(heads // x.shape[1], dim=1) for x in (k, v))
    scores = torch.einsum("thd,shd->hts", q, k) / size**0.5 + added
    t = torch.arange(length)
    seen = (t[None, :] <= t[:, None]) & (t[None, :] >= starts[:, None])
    weights = torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1)
    return torch.einsum("hts,shd->thd", weights, v).reshape(length, heads * size)


def gamma(mu, weight):
    """One sequence: mu [T, R], weight [heads, R]; a scalar (7.6)."""
    return torch.sigmoid((mu @ weight.T).mean(0)).mean()


def eta(mu, weight):
    """mu [tokens, R], weight [R]; [tokens] (7.6)."""
    return torch.sigmoid(mu @ weight)


def mixture(outputs, logits, temperature, chosen):
    """outputs [experts, tokens, d], logits [tokens, experts], without noise; the chosen experts with weights that add to 1 (7.7)."""
    gate = torch.softmax(logits / temperature, dim=-1)
    weights, experts = gate.topk(chosen, dim=-1)
    weights = weights / weights.sum(-1, keepdim=True)
    picked = torch.stack([outputs[experts[:, j], torch.arange(len(logits))] for j in range(chosen)])
    return torch.einsum("tj,jtd->td", weights, picked)


def entropy_floor(mu, share):
    """Sum over tokens of relu(share H_max - H(mu)) (regularisers)."""
    entropy = -(mu * mu.clamp(min=1e-300).log()).sum(-1)
    return torch.relu(share * math.log(mu.shape[-1]) - entropy).sum()
