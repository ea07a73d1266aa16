"""Backbones of recurrent mixers (models.md 3 to 5) and the language models on them. Module names are those of the exported
tensors. A model takes a list of documents and returns the logits of each."""
import torch
from torch import nn

from .common import RMSNorm, SwiGLU, causal_attention
from .gated_delta_net import GatedDeltaNet
from .mamba2 import Mamba2


def make_norm(sizes):
    return RMSNorm(sizes["d_model"], sizes["norm_epsilon"])


def make_mixer(kind, sizes, fused=False):
    """fused: as wide as the model, without output projection."""
    width = sizes["d_model"]
    if kind == "mamba2":
        inner = width if fused else sizes["expand"] * width
        head = sizes["mixer_head_size"]
        return Mamba2(width, inner // head, head, sizes["state_size"], projected=not fused)
    key, value = sizes["delta_key_size"], sizes["delta_value_size"]
    heads = width // value if fused else sizes["delta_heads"]
    return GatedDeltaNet(width, heads, key, value, projected=not fused)


class SsdLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm, self.mixer = make_norm(sizes), make_mixer("mamba2", sizes)

    def forward(self, h):
        return h + self.mixer(self.norm(h))


class Mamba2Backbone(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        layers, width = sizes["n_layer"], sizes["d_model"]
        self.ssd_layers = nn.ModuleList(SsdLayer(sizes) for _ in range(layers))
        self.mlp_norms = nn.ModuleList(make_norm(sizes) for _ in range(layers))
        self.mlps = nn.ModuleList(SwiGLU(width, sizes["d_ff"]) for _ in range(layers))

    def backbone(self, h):
        for layer, norm, mlp in zip(self.ssd_layers, self.mlp_norms, self.mlps):
            h = layer(h)
            h = h + mlp(norm(h))
        return h


class GatedDeltaLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm_ssm, self.gdn = make_norm(sizes), make_mixer("gdn", sizes)
        self.norm_mlp, self.mlp = make_norm(sizes), SwiGLU(sizes["d_model"], sizes["d_ff"])

    def forward(self, h):
        h = h + self.gdn(self.norm_ssm(h))
        return h + self.mlp(self.norm_mlp(h))


class GatedDeltaBackbone(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(GatedDeltaLayer(sizes) for _ in range(sizes["n_layer"]))

    def backbone(self, h):
        for layer in self.layers:
            h = layer(h)
        return h


class Attention(nn.Module):
    """Attention heads as a mixer; projected=False leaves o_proj out."""

    def __init__(self, sizes, projected=True):
        super().__init__()
        width = sizes["d_model"]
        self.heads, self.base = sizes["n_head"], 10000.0
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width, bias=False) for _ in range(3))
        if projected:
            self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        y = causal_attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads, self.heads, self.base)
        return self.o_proj(y) if hasattr(self, "o_proj") else y


class FusedMixer(nn.Module):
    """Attention heads and recurrent heads on one input, each normed and weighted, averaged before one projection."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["d_model"]
        self.attention, self.recurrent = Attention(sizes, projected=False), make_mixer(sizes["mixer"], sizes, fused=True)
        self.attention_norm, self.recurrent_norm = make_norm(sizes), make_norm(sizes)
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.out_proj((self.attention_norm(self.attention(x)) + self.recurrent_norm(self.recurrent(x))) / 2)


class HybridLayer(nn.Module):
    def __init__(self, sizes, mixer):
        super().__init__()
        self.norm, self.mixer = make_norm(sizes), mixer
        self.mlp_norm, self.mlp = make_norm(sizes), SwiGLU(sizes["d_model"], sizes["d_ff"])

    def forward(self, h):
        h = h + self.mixer(self.norm(h))
        return h + self.mlp(self.mlp_norm(h))


class HybridBackbone(nn.Module):
    """serial: every n-th mixer is attention; fused: attention beside the recurrence in all."""

    def __init__(self, sizes):
        super().__init__()
        mixers = []
        for layer in range(1, sizes["n_layer"] + 1):
            if sizes["family"] == "fused":
                mixers.append(FusedMixer(sizes))
            elif layer % sizes["attention_every"] == 0:
                mixers.append(Attention(sizes))
            else:
                mixers.append(make_mixer(sizes["mixer"], sizes))
        self.layers = nn.ModuleList(HybridLayer(sizes, mixer) for mixer in mixers)

    def backbone(self, h):
        for layer in self.layers:
            h = layer(h)
        return h


def backbone_class(sizes):
    if sizes["family"] in ("serial", "fused"):
        return HybridBackbone
    mixer = sizes["mixer"] if sizes["family"] == "amor" else sizes["family"]
    return {"mamba2": Mamba2Backbone, "gdn": GatedDeltaBackbone}[mixer]


def make_language_model(sizes):
    """Embedding, backbone, norm_f, tied or untied output matrix."""

    class LanguageModel(backbone_class(sizes)):
        def __init__(self):
            super().__init__(sizes)
            self.sizes = sizes
            self.embed = nn.Embedding(sizes["vocab_size"], sizes["d_model"])
            self.norm_f = make_norm(sizes)
            if not sizes["tie_embeddings"]:
                self.lm_head = nn.Linear(sizes["d_model"], sizes["vocab_size"], bias=False)

        def forward(self, documents):
            return [self.head(self.norm_f(self.backbone(self.embed(ids)))) for ids in documents]

        def head(self, hidden):
            weight = self.embed.weight if sizes["tie_embeddings"] else self.lm_head.weight
            return hidden @ weight.T

    return LanguageModel()
