"""The reference mixers against the torch layers of transformers, on the same weights: outputs and gradients."""
import torch
from transformers import Mamba2Config, OlmoHybridConfig, Qwen3NextConfig
from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

from reference.gated_delta_net import GatedDeltaNet
from reference.mamba2 import Mamba2

WIDTH, HEADS, KEY, VALUE, LENGTH = 24, 3, 8, 16, 150  # longer than a chunk of 64, no multiple of it


def perturb(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module


def run(module, x, weights):
    x = x.clone().requires_grad_()
    y = module(x)
    (y * weights).sum().backward()
    return y.detach(), x.grad


def compare_mixer(compare, name, reference, theirs, relative):
    """Outputs and the gradient of the input: both pass through every weight."""
    x, weights = torch.randn(LENGTH, WIDTH), torch.randn(LENGTH, WIDTH)
    y, gradient = run(reference.double(), x.double(), weights.double())
    their_y, their_gradient = run(lambda v: theirs(v[None])[0], x, weights)
    compare.report(f"reference {name}: output", relative(their_y, y), 1e-5)
    compare.report(f"reference {name}: gradient of the input", relative(their_gradient, gradient), 1e-5)


def check_mamba2(compare, relative):
    config = Mamba2Config(hidden_size=WIDTH, num_heads=6, head_dim=8, state_size=10, expand=2, n_groups=1, num_hidden_layers=1,
                          chunk_size=64)
    theirs = perturb(Mamba2Mixer(config, 0).eval())
    ours = Mamba2(WIDTH, 6, 8, 10)
    ours.load_state_dict(theirs.state_dict())
    compare_mixer(compare, "Mamba2 and transformers' Mamba2", ours, theirs, relative)


def delta_sizes():
    return dict(hidden_size=WIDTH, linear_num_key_heads=HEADS, linear_num_value_heads=HEADS, linear_key_head_dim=KEY,
                linear_value_head_dim=VALUE, linear_conv_kernel_dim=4, num_attention_heads=4, num_hidden_layers=2,
                layer_types=["linear_attention", "full_attention"])


def split_convolution(state, weight):
    names = ["q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"]
    state.update(zip(names, weight.split([HEADS * KEY, HEADS * KEY, HEADS * VALUE])))


def check_olmo_hybrid(compare, relative):
    theirs = perturb(OlmoHybridGatedDeltaNet(OlmoHybridConfig(linear_allow_neg_eigval=False, **delta_sizes()), 0).eval())
    ours = GatedDeltaNet(WIDTH, HEADS, KEY, VALUE)
    state = theirs.state_dict()
    split_convolution(state, state.pop("conv1d.weight"))
    ours.load_state_dict(state)
    compare_mixer(compare, "Gated DeltaNet and transformers' OLMo-hybrid layer", ours, theirs, relative)


def check_qwen3_next(compare, relative):
    """Qwen3-Next stores q, k, v, z head by head in one matrix, b and a in another."""
    theirs = perturb(Qwen3NextGatedDeltaNet(Qwen3NextConfig(rms_norm_eps=1e-5, **delta_sizes()), 0).eval())
    ours = GatedDeltaNet(WIDTH, HEADS, KEY, VALUE)
    theirs_state = theirs.state_dict()
    qkvz = theirs_state["in_proj_qkvz.weight"].view(HEADS, 2 * KEY + 2 * VALUE, WIDTH).split([KEY, KEY, VALUE, VALUE], dim=1)
    ba = theirs_state["in_proj_ba.weight"].view(HEADS, 2, WIDTH)
    state = {name + "_proj.weight": rows.reshape(-1, WIDTH)
             for name, rows in zip(["q", "k", "v", "g", "b", "a"], [*qkvz, ba[:, 0], ba[:, 1]])}
    split_convolution(state, theirs_state["conv1d.weight"])
    state |= {"A_log": theirs_state["A_log"], "dt_bias": theirs_state["dt_bias"],
              "o_norm.weight": theirs_state["norm.weight"], "o_proj.weight": theirs_state["out_proj.weight"]}
    ours.load_state_dict(state)
    compare_mixer(compare, "Gated DeltaNet and transformers' Qwen3-Next layer", ours, theirs, relative)


CHECKS = {"Mamba2": check_mamba2, "OLMo-hybrid": check_olmo_hybrid, "Qwen3-Next": check_qwen3_next}
