#!/usr/bin/env python3
"""Runs longhaul and PyTorch on the same weights and tokens and compares them; tests/oracle/run.sh is the way to call it.

usage: compare.py LONGHAUL WORK_DIRECTORY [layers] [transformers] [references]     (default: all three parts)"""
import copy
import json
import math
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import reference_check
import tiny_models

TOLERANCE = 1e-5
# Gradients of a recurrence, against the reference in double: PyTorch's own single precision misses some by 6e-5.
RECURRENT_GRADIENT_TOLERANCE = 1e-4
NORM_TOLERANCE = 1e-4
# Training through the delta rule, whose L2 norms divide by small outputs, amplifies rounding: gradient norms in single
# precision leave those in double by percents within ten steps. There the reference itself runs a second time in single
# precision beside the one in double, and longhaul may be off by no more than this many times what it is.
ROUNDING_FACTOR = 4
VOCABULARY, CONTEXT = 257, 48  # bytes and the end of a text
STEPS, SLOTS, ROWS = 10, 2, 2
LEARNING_RATE, WEIGHT_DECAY, BETAS, EPSILON = 1e-3, 0.1, (0.9, 0.95), 1e-8
CLIP = 0.3  # short enough that every step is clipped
DOCUMENTS = [[72, 101, 108, 108, 111], [256], [10, 20, 30, 40, 50, 60, 70, 80, 90, 200, 255]]


class Comparison:
    def __init__(self, binary, work):
        self.binary, self.work = binary, work
        self.passed = self.failed = 0

    def longhaul(self, *arguments):
        result = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        if result.returncode != 0:
            raise RuntimeError(f"longhaul {' '.join(map(str, arguments))}: exit {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def report(self, name, difference, tolerance=TOLERANCE):
        good = math.isfinite(difference) and difference <= tolerance
        print(f"{'ok  ' if good else 'FAIL'} {name}: {difference:.2e} (limit {tolerance:.0e})", flush=True)
        self.passed += good
        self.failed += not good

    def section(self, name, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # a broken part must not hide the others
            print(f"FAIL {name}: {error}", flush=True)
            self.failed += 1


def relative(found, expected):
    """Largest difference relative to the largest expected magnitude."""
    if found.shape != expected.shape:
        raise RuntimeError(f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}")
    return ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()


def write_json(path, value):
    path.write_text(json.dumps(value))
    return path


def compare_forward_and_gradients(compare, name, model, hf):
    """Packed documents in longhaul against one document at a time in PyTorch: logits, loss, gradients."""
    dump = compare.work / f"{name}.dump.safetensors"
    ids = write_json(compare.work / f"{name}.ids.json", [DOCUMENTS, DOCUMENTS[2]])
    compare.longhaul("eval", "--hf", hf, "--ids", ids, "--dump", dump, "--gradients")
    found = load_file(dump)
    model.zero_grad()
    packed, packed_targets, packed_logits = tiny_models.loss_sum(model, DOCUMENTS)
    alone, alone_targets, alone_logits = tiny_models.loss_sum(model, [DOCUMENTS[2]])
    ((packed + alone) / (packed_targets + alone_targets)).backward()
    compare.report(f"{name}: logits of packed documents", relative(found["logits.0"], packed_logits.detach()))
    compare.report(f"{name}: logits of a single row", relative(found["logits.1"], alone_logits.detach()))
    compare.report(f"{name}: summed cross-entropy", relative(found["cross_entropy"][0], (packed + alone).detach()))
    worst = max(relative(found["gradient." + parameter], value.grad) for parameter, value in model.named_parameters())
    compare.report(f"{name}: gradients of all parameters", worst,
                   RECURRENT_GRADIENT_TOLERANCE if tiny_models.is_reference(model) else TOLERANCE)
    if is_amor(model):
        compare_gates(compare, name, model, found)


def is_amor(model):
    return tiny_models.is_reference(model) and model.sizes["family"] == "amor"


def compare_gates(compare, name, model, found):
    """Decisions and entropies of every token of the single row, which is the one the reference ran last."""
    changed, fired, total, worst = 0, 0, 0, 0.0
    for block, record in enumerate(model.record):
        entropies, decisions = (torch.cat([pair[i] for pair in record]) for i in range(2))
        changed += int((found[f"fired.1.{block}"].bool() != decisions).sum())
        worst = max(worst, relative(found[f"entropy.1.{block}"], entropies))
        fired, total = fired + int(decisions.sum()), total + len(decisions)
    if not 0 < fired < total:
        raise RuntimeError(f"{fired} of {total} gate decisions fire: the comparison says nothing")
    compare.report(f"{name}: entropies at the gates", worst)
    compare.report(f"{name}: gate decisions that differ ({fired} of {total} fire)", changed, 0)


def exported_tensors(directory):
    """Without the copy of the embedding that the AMOR export holds as output matrix."""
    tensors = load_file(directory / "model.safetensors")
    tied = json.loads((directory / "config.json").read_text())["tie_word_embeddings"]
    return {name: value for name, value in tensors.items() if not (tied and name == "lm_head.weight")}


def compare_round_trip(compare, name, model, hf):
    """transformers or reference -> longhaul import -> export -> back keeps every bit and the configuration."""
    run, out = compare.work / f"{name}-imported", compare.work / f"{name}-exported"
    compare.longhaul("import", "--from", hf, "--out", run)
    compare.longhaul("export", "--run", run, "--out", out)
    if tiny_models.is_reference(model):
        again, expected = exported_tensors(out), load_file(hf / "model.safetensors")
        if again.keys() != expected.keys():
            raise RuntimeError(f"tensors in only one of the two: {sorted(again.keys() ^ expected.keys())}")
        compare.report(f"{name}: tensors that import and export change",
                       sum(not torch.equal(value, expected[key]) for key, value in again.items()), 0)
        return
    again = AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager").eval()
    expected = model.state_dict()
    worst = max(relative(value, expected[key]) for key, value in again.state_dict().items())
    compare.report(f"{name}: weights after import and export", worst, 0.0)
    with torch.no_grad():
        ids = torch.tensor([DOCUMENTS[2]])
        compare.report(f"{name}: transformers' logits from the exported directory",
                       relative(again(ids).logits, model(ids).logits), 0.0)


def make_dataset(compare):
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
    lines, state = [], 7
    for _ in range(600):
        sentence = []
        for _ in range(1 + state % 9):
            state = (state * 1103515245 + 12345) % 2**31
            sentence.append(words[state // 65536 % len(words)])
        lines.append(" ".join(sentence) + "." + "\n")
    text = compare.work / "text.txt"
    text.write_text("\n".join(lines))
    compare.longhaul("tokenize", "--input", text, "--out", compare.work / "data", "--tokenizer", "bytes")
    return compare.work / "data"


def training_config(compare, name, imported, model_section, data, slots):
    path = compare.work / f"{name}.ini"
    path.write_text(f"""[model]
{model_section}
[data]
datasets = {data}
context = {CONTEXT}
[train]
steps = {STEPS}
slots = {slots}
rows_per_slot = {SLOTS * ROWS // slots}
run_dir = {compare.work / (name + "-run")}
[optimizer]
beta1 = {BETAS[0]}
beta2 = {BETAS[1]}
epsilon = {EPSILON}
weight_decay = {WEIGHT_DECAY}
clip_norm = {CLIP}
[schedule]
learning_rate = {LEARNING_RATE}
warmup_steps = 4
floor = 0.1
[checkpoint]
every = 0
init_from = {imported}
[metrics]
every = 1
peak_gflops = 1
""")
    return path


def documents_of(sample):
    """A row cut at its document starts, with the valid targets of each piece."""
    pieces = {}
    for token, target, start in zip(sample["ids"], sample["targets"], sample["document_start"]):
        pieces.setdefault(start, ([], []))
        pieces[start][0].append(token)
        pieces[start][1].append(target)
    return list(pieces.values())


def batch_logits(model, pieces):
    """Logits of all documents of a global batch. AMOR's gates learn from the entropies of tokens with a valid target."""
    inputs = [torch.tensor(ids) for ids, _ in pieces]
    if not is_amor(model):
        return tiny_models.logits_of(model, inputs)
    return model(inputs, valid=[torch.tensor(targets) >= 0 for _, targets in pieces], update=model.sizes["gate"]["update"])


def reference_step(model, optimizer, samples, learning_rate):
    """One AdamW step over the global batch in PyTorch; the mean cross-entropy over all valid targets."""
    optimizer.zero_grad()
    total, targets = 0.0, 0
    pieces = [piece for sample in samples for piece in documents_of(sample)]
    for logits, (_, wanted) in zip(batch_logits(model, pieces), pieces):
        wanted = torch.tensor(wanted)
        total = total + torch.nn.functional.cross_entropy(logits, wanted, ignore_index=-1, reduction="sum")
        targets += int((wanted >= 0).sum())
    loss = total / targets
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    return loss.item(), norm.item()


def single_precision(model):
    """A copy whose parameters are f32; gate statistics stay double, as in longhaul."""
    single = copy.deepcopy(model)
    for parameter in single.parameters():
        parameter.data = parameter.data.float()
    return single


def fire_rates(model, samples):
    """Of every block over the tokens with a valid target, in the batch that the model ran last."""
    valid = torch.cat([torch.tensor(targets) >= 0 for sample in samples for _, targets in documents_of(sample)])
    return [torch.cat([fired for _, fired in record])[valid].double().mean().item() for record in model.record]


def reference_optimizer(model):
    """Matrices and embeddings decay; vectors and convolutions (three dimensions in PyTorch) do not."""
    decayed = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() != 2]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}],
                             lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)


def compare_training(compare, name, imported, model, model_section, data, slots=SLOTS):
    """Ten steps from the same weights on the same tokens: loss and gradient norm of every step, weights at the end."""
    config = training_config(compare, name, compare.work / f"{imported}-imported", model_section, data, slots)
    compare.longhaul("train", "--config", config)
    metrics = [json.loads(line) for line in (compare.work / f"{name}-run" / "metrics.jsonl").read_text().splitlines()]
    metrics = [line for line in metrics if line.get("kind") == "train"]
    if len(metrics) != STEPS:
        raise RuntimeError(f"{len(metrics)} steps in metrics.jsonl, expected {STEPS}")
    stream = [json.loads(line) for line in
              compare.longhaul("stream", "--config", config, "--steps", f"0:{STEPS}").splitlines()]
    optimizer = reference_optimizer(model)
    delta = tiny_models.is_reference(model) and "gdn" in (model.sizes["family"], model.sizes["mixer"])
    single = single_precision(model) if delta else None
    single_optimizer = reference_optimizer(single) if delta else None
    loss_difference = norm_difference = single_difference = 0.0
    gates = []
    model.nearest = float("inf")
    for step, line in enumerate(metrics):
        samples = [sample for sample in stream if sample["step"] == step]
        loss, norm = reference_step(model, optimizer, samples, line["learning_rate"])
        loss_difference = max(loss_difference, abs(line["loss"] - loss) / loss)
        norm_difference = max(norm_difference, abs(line["gradient_norm"] - norm) / norm)
        if delta:
            _, single_norm = reference_step(single, single_optimizer, samples, line["learning_rate"])
            single_difference = max(single_difference, abs(single_norm - norm) / norm)
        if is_amor(model):
            gates += [(line[f"fire_rate.{block}"], rate) for block, rate in enumerate(fire_rates(model, samples))]
    compare.report(f"{name}: loss of {STEPS} AdamW steps (last {metrics[-1]['loss']:.6f})", loss_difference)
    compare.report(f"{name}: gradient norm of {STEPS} AdamW steps", norm_difference,
                   max(NORM_TOLERANCE, ROUNDING_FACTOR * single_difference))
    if gates:
        fired = sum(rate for rate, _ in gates) / len(gates)
        compare.report(f"{name}: fire rates of every step and block (mean {fired:.3f}, nearest entropy {model.nearest:.0e} "
                       "from its threshold)", max(abs(a - b) for a, b in gates), 1e-12)
    out = compare.work / f"{name}-trained"
    compare.longhaul("export", "--run", compare.work / f"{name}-run", "--out", out)
    compare_trained(compare, name, model, out)


def compare_trained(compare, name, model, out):
    """Weights, and the running statistics of entropy gates, after training."""
    if tiny_models.is_reference(model):
        trained = exported_tensors(out)
    else:
        trained = AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager").state_dict()
    buffers = {key for key, _ in model.named_buffers()} & trained.keys()
    worst = max(relative(trained[key], value) for key, value in model.state_dict().items() if key not in buffers)
    compare.report(f"{name}: weights after {STEPS} AdamW steps", worst, 1e-4)
    if buffers:
        worst = max(relative(trained[key], model.state_dict()[key]) for key in buffers)
        compare.report(f"{name}: gate statistics after {STEPS} AdamW steps", worst)


GPT2_SECTION = f"""family = gpt2
context_length = {CONTEXT}
n_layer = 2
d_model = 32
n_head = 4
tie_embeddings = {{tied}}"""
LLAMA_SECTION = f"""family = transformer
context_length = {CONTEXT}
n_layer = 2
d_model = 32
n_head = 4
n_kv_head = {{key_heads}}
d_ff = 56
tie_embeddings = {{tied}}"""


MAMBA2_SECTION = f"""family = mamba2
context_length = {CONTEXT}
n_layer = 2
d_model = 32
feed_forward = false
mixer_head_size = 8
state_size = 6
norm_epsilon = 1e-5
tie_embeddings = {{tied}}"""


def make_transformers_models():
    torch.manual_seed(1)
    gpt2 = dict(width=32, heads=4, deviation=0.1)
    llama = dict(width=32, heads=4, feed_forward=56, deviation=0.1)
    mamba2 = dict(width=32, deviation=0.1)
    return {
        "gpt2": (tiny_models.make_gpt2(VOCABULARY, CONTEXT, **gpt2), GPT2_SECTION.format(tied="true")),
        "gpt2-untied": (tiny_models.make_gpt2(VOCABULARY, CONTEXT, tied=False, **gpt2), GPT2_SECTION.format(tied="false")),
        "llama": (tiny_models.make_llama(VOCABULARY, CONTEXT, key_heads=4, **llama),
                  LLAMA_SECTION.format(key_heads=4, tied="false")),
        "llama-gqa": (tiny_models.make_llama(VOCABULARY, CONTEXT, key_heads=2, tied=True, **llama),
                      LLAMA_SECTION.format(key_heads=2, tied="true")),
        "mamba2": (tiny_models.make_mamba2(VOCABULARY, CONTEXT, **mamba2), MAMBA2_SECTION.format(tied="true")),
        "mamba2-untied": (tiny_models.make_mamba2(VOCABULARY, CONTEXT, tied=False, **mamba2),
                          MAMBA2_SECTION.format(tied="false")),
    }


def reference_sizes():
    """Every recurrent family, and the six variants of AMOR."""
    sizes = {
        "mamba2-mlp": ("mamba2", dict(tie_embeddings=False)),
        "gdn": ("gdn", {}),
        "serial-mamba2": ("serial", dict(mixer="mamba2")),
        "serial-gdn": ("serial", dict(mixer="gdn")),
        "fused-mamba2": ("fused", dict(mixer="mamba2")),
        "fused-gdn": ("fused", dict(mixer="gdn")),
    }
    for mixer in ("mamba2", "gdn"):
        for blocks, mode in ((3, "classic"), (1, "classic"), (3, "h")):
            sizes[f"amor-{mixer}-{blocks}-{mode}"] = ("amor", dict(mixer=mixer, gate={"blocks": blocks, "mode": mode}))
    return {name: tiny_models.reference_sizes(family, VOCABULARY, CONTEXT, **changes)
            for name, (family, changes) in sizes.items()}


def section_of(sizes):
    sections = {"model": {key: value for key, value in sizes.items() if key != "gate"}, "gate": sizes.get("gate", {})}
    lines = [f"{key} = {str(value).lower()}" for key, value in sections["model"].items()]
    if sections["gate"]:
        lines += ["[gate]"] + [f"{key} = {value}" for key, value in sections["gate"].items()]
    return "\n".join(lines)


def compare_transformers(compare, data):
    for name, (model, section) in make_transformers_models().items():
        hf = compare.work / f"{name}-hf"
        model.save_pretrained(hf)
        compare.section(f"{name}: forward", compare_forward_and_gradients, compare, name, model, hf)
        compare.section(f"{name}: round trip", compare_round_trip, compare, name, model, hf)
        compare.section(f"{name}: training", compare_training, compare, name, name, model, section, data)


# Of the first weights, where those of seed 2 bring an entropy within 1e-7 of its threshold: f32 cannot decide that one.
SEEDS = {"amor-gdn-3-classic": 3}


def compare_references(compare, data):
    for name, sizes in reference_sizes().items():
        torch.manual_seed(SEEDS.get(name, 2))
        model = tiny_models.make_reference(sizes).double()
        if is_amor(model):
            tiny_models.spread_gates(model, [DOCUMENTS[2]])
        hf = compare.work / f"{name}-hf"
        tiny_models.save_reference(model, hf)
        compare.section(f"{name}: forward", compare_forward_and_gradients, compare, name, model, hf)
        compare.section(f"{name}: round trip", compare_round_trip, compare, name, model, hf)
        for update, slots in (("after", SLOTS), ("before", 1)) if is_amor(model) else (("", SLOTS),):
            trained = copy.deepcopy(model)
            if update:
                trained.sizes["gate"]["update"] = update
            label = f"{name}-{update}" if update else name
            compare.section(f"{label}: training", compare_training, compare, label, name, trained,
                            section_of(trained.sizes), data, slots)


def main():
    torch.set_num_threads(1)
    compare = Comparison(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]))
    wanted = sys.argv[3:] or ["layers", "transformers", "references"]
    data = make_dataset(compare)
    if "layers" in wanted:
        torch.manual_seed(0)
        for name, check in reference_check.CHECKS.items():
            compare.section(f"reference {name}", check, compare, relative)
    if "transformers" in wanted:
        compare_transformers(compare, data)
    if "references" in wanted:
        compare_references(compare, data)
    print(f"oracle: {compare.passed} passed, {compare.failed} failed")
    return 1 if compare.failed else 0


if __name__ == "__main__":
    sys.exit(main())
