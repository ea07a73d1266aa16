#!/usr/bin/env python3
"""Writes tests/oracle/golden: tiny models of transformers and of the references beside this file, with the logits, loss and
gradients PyTorch computes in double precision for a packed row, and the decisions of entropy gates. tests/launch/interop/golden_test.cpp checks them without PyTorch.

usage: make_golden.py DIRECTORY     (run by hand after `tests/oracle/run.sh --venv-only`; the result is committed)"""
import pathlib
import sys

import torch
from safetensors.torch import save_file

import tiny_models

VOCABULARY, CONTEXT = 37, 16
DOCUMENTS = [[5, 11, 36, 0, 2], [7], [30, 31, 3, 3, 9, 22, 8, 14, 1]]


def write(model, directory):
    if tiny_models.is_reference(model):
        model = model.double()
        if model.sizes["family"] == "amor":
            tiny_models.spread_gates(model, DOCUMENTS)
        tiny_models.save_reference(model, directory)
    else:
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        model = model.double()
    total, targets, logits = tiny_models.loss_sum(model, DOCUMENTS)
    (total / targets).backward()
    expected = {"gradient." + name: parameter.grad.float() for name, parameter in model.named_parameters()}
    expected["ids"] = torch.tensor(sum(DOCUMENTS, []), dtype=torch.int32)
    expected["lengths"] = torch.tensor([len(document) for document in DOCUMENTS], dtype=torch.int32)
    expected["logits"] = logits.detach().float()
    expected["cross_entropy"] = total.detach().double().reshape(1)
    for block, record in enumerate(getattr(model, "record", [])):
        expected[f"entropy.{block}"] = torch.cat([entropy for entropy, _ in record]).float()
        expected[f"fired.{block}"] = torch.cat([fired for _, fired in record]).int()
    save_file({name: value.contiguous() for name, value in expected.items()}, directory / "expected.safetensors")


def reference(family, **changes):
    sizes = tiny_models.reference_sizes(family, VOCABULARY, CONTEXT, **({"n_layer": 1} | changes))
    return tiny_models.make_reference(sizes)


def main():
    root = pathlib.Path(sys.argv[1])
    torch.manual_seed(20240)
    write(tiny_models.make_gpt2(VOCABULARY, CONTEXT), root / "gpt2")
    write(tiny_models.make_llama(VOCABULARY, CONTEXT), root / "llama")
    write(tiny_models.make_llama(VOCABULARY, CONTEXT, key_heads=2, tied=True), root / "llama-gqa-tied")
    write(tiny_models.make_mamba2(VOCABULARY, CONTEXT, layers=1), root / "mamba2")
    write(reference("mamba2", tie_embeddings=False), root / "mamba2-mlp")
    write(reference("gdn"), root / "gdn")
    write(reference("serial", mixer="gdn", n_layer=2), root / "serial-gdn")
    write(reference("fused", mixer="mamba2"), root / "fused-mamba2")
    write(reference("fused", mixer="gdn"), root / "fused-gdn")
    write(reference("amor", mixer="mamba2", gate={"blocks": 2}), root / "amor-mamba2-classic")
    write(reference("amor", mixer="gdn", gate={"blocks": 2, "mode": "h", "threshold": "fixed"}), root / "amor-gdn-h")


if __name__ == "__main__":
    main()
