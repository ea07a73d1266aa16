#!/usr/bin/env python3
"""Writes tests/oracle/golden: tiny models saved by transformers, with the logits, loss and gradients PyTorch computes in
double precision for a packed row. tests/launch/interop/golden_test.cpp checks them without PyTorch.

usage: make_golden.py DIRECTORY     (run by hand after `tests/oracle/run.sh --venv-only`; the result is committed)"""
import pathlib
import sys

import torch
from safetensors.torch import save_file

import tiny_models

VOCABULARY, CONTEXT = 37, 16
DOCUMENTS = [[5, 11, 36, 0, 2], [7], [30, 31, 3, 3, 9, 22, 8, 14, 1]]


def write(model, directory):
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    model = model.double()
    total, targets, logits = tiny_models.loss_sum(model, DOCUMENTS)
    (total / targets).backward()
    expected = {"gradient." + name: parameter.grad.float() for name, parameter in model.named_parameters()}
    expected["ids"] = torch.tensor(sum(DOCUMENTS, []), dtype=torch.int32)
    expected["lengths"] = torch.tensor([len(document) for document in DOCUMENTS], dtype=torch.int32)
    expected["logits"] = logits.detach().float()
    expected["cross_entropy"] = total.detach().reshape(1)
    save_file({name: value.contiguous() for name, value in expected.items()}, directory / "expected.safetensors")


def main():
    root = pathlib.Path(sys.argv[1])
    torch.manual_seed(20240)
    write(tiny_models.make_gpt2(VOCABULARY, CONTEXT), root / "gpt2")
    write(tiny_models.make_llama(VOCABULARY, CONTEXT), root / "llama")
    write(tiny_models.make_llama(VOCABULARY, CONTEXT, key_heads=2, tied=True), root / "llama-gqa-tied")


if __name__ == "__main__":
    main()
