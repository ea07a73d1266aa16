"""The small models that the comparisons use: made by transformers, or the references of this directory, from a fixed seed."""
import json

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Mamba2Config, Mamba2ForCausalLM

from reference.amor import make_amor
from reference.backbones import make_language_model


def make_gpt2(vocabulary, context, width=12, heads=3, layers=2, deviation=0.2, tied=True):
    config = GPT2Config(vocab_size=vocabulary, n_positions=context, n_embd=width, n_head=heads, n_layer=layers,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=deviation,
                        bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied, attn_implementation="eager")
    return perturbed(GPT2LMHeadModel(config))


def make_llama(vocabulary, context, width=16, heads=4, key_heads=4, feed_forward=24, layers=2, deviation=0.2, tied=False):
    config = LlamaConfig(vocab_size=vocabulary, max_position_embeddings=context, hidden_size=width,
                         num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=feed_forward,
                         num_hidden_layers=layers, initializer_range=deviation, rms_norm_eps=1e-6,
                         bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied, attn_implementation="eager")
    return perturbed(LlamaForCausalLM(config))


def make_mamba2(vocabulary, context, width=16, layers=2, deviation=0.2, tied=True):
    """Mixers alone, no feed-forward layers."""
    config = Mamba2Config(vocab_size=vocabulary, hidden_size=width, num_hidden_layers=layers, expand=2, head_dim=8,
                          num_heads=2 * width // 8, state_size=6, n_groups=1, initializer_range=deviation,
                          pad_token_id=None, bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied,
                          max_position_embeddings=context)
    return perturbed(Mamba2ForCausalLM(config))


GATE = {"blocks": 3, "mode": "classic", "threshold": "adaptive", "kappa": 0.2, "margin": 0.03, "momentum": 0.9,
        "initial_mean": 0.8, "initial_deviation": 0.1, "update": "after", "attention": "compacted", "product": "f32"}


def reference_sizes(family, vocabulary, context, gate=None, **changes):
    """The [model] section of a small reference model, with the gate's options under "gate"."""
    sizes = {"family": family, "mixer": "gdn" if family == "gdn" else "mamba2", "vocab_size": vocabulary,
             "context_length": context, "n_layer": 2, "d_model": 16, "n_head": 4, "d_ff": 24, "norm_epsilon": 1e-6,
             "tie_embeddings": True, "attention_every": 2, "expand": 2, "mixer_head_size": 8, "state_size": 6,
             "delta_heads": 2, "delta_key_size": 6, "delta_value_size": 8} | changes
    if family == "amor":
        sizes["gate"] = GATE | (gate or {})
    return sizes


def make_reference(sizes, deviation=0.2):
    """A reference model of these sizes with random weights."""
    model = make_amor(sizes) if sizes["family"] == "amor" else make_language_model(sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(0, deviation)
    return perturbed(model)


def spread_gates(model, documents):
    """Sets every gate's threshold into the widest gap among the middle third of its entropies, so that some tokens fire and
    rounding decides for none."""
    for i, block in enumerate(model.amor_blocks):
        with torch.no_grad():
            model([torch.tensor(document) for document in documents])
        entropies = torch.cat([entropy for entropy, _ in model.record[i]]).double().sort().values
        middle = entropies[len(entropies) // 3: 2 * len(entropies) // 3 + 2]
        widest = int((middle[1:] - middle[:-1]).argmax())
        above = block.gate.threshold() - block.gate.running_threshold.item()
        block.gate.running_threshold.fill_(((middle[widest] + middle[widest + 1]) / 2).item() - above)


def save_reference(model, directory):
    """As `longhaul export` writes such a model."""
    directory.mkdir(parents=True, exist_ok=True)
    sections = {"model": {key: value for key, value in model.sizes.items() if key != "gate"}}
    if "gate" in model.sizes:
        sections["gate"] = model.sizes["gate"]
    config = {"architectures": ["Longhaul"], "model_type": "longhaul"} | sections
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    gates = {name: value for name, value in model.named_buffers()}
    weights = {name: parameter.detach().float() for name, parameter in model.named_parameters()}
    save_file(weights | gates, directory / "model.safetensors", metadata={"format": "pt"})


def is_reference(model):
    return hasattr(model, "sizes")


def perturbed(model):
    """Moves biases off 0 and gains off 1, so that none of them can be forgotten unnoticed."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def logits_of(model, documents):
    """Logits of every document, each run from position 0 and unaware of the others."""
    return model(documents) if is_reference(model) else [model(ids[None]).logits[0] for ids in documents]


def loss_sum(model, documents):
    """Summed cross-entropy of every next token within its document, the number of targets, and the logits of all rows.

    Documents are run one at a time, each from position 0: what a packed row must reproduce."""
    inputs = [torch.tensor(document) for document in documents]
    logits = logits_of(model, inputs)
    total, targets = 0.0, 0
    for ids, output in zip(inputs, logits):
        if len(ids) > 1:
            total = total + torch.nn.functional.cross_entropy(output[:-1], ids[1:], reduction="sum")
            targets += len(ids) - 1
    return total, targets, torch.cat(logits)
