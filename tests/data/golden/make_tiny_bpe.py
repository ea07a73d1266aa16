#!/usr/bin/env python3
"""Makes the tiny byte-level BPE of tests/data/golden and its reference ids, with the plain algorithm of Sennrich et al. 2016.

usage: make_tiny_bpe.py DIRECTORY     (needs the Python package `regex`)
The merges are learned from the strings below; every string is then encoded by applying the best-ranked merge over and over.
"""
import collections
import json
import pathlib
import sys

import regex

PATTERN = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")
STRINGS = [
    "the cat sat on the mat, and the rat ran at the cat",
    "They're here; we've seen it, I'll go, he'd say it isn't John's. I'm 'sure' 'til 'LL",
    "  two spaces, three   spaces\n\nblank line\t\ttabs \n end ",
    "numbers 1 22 333 4444, mixed a1b2c3 and 3.14159, x^2 + y^2 = z^2 !!! ... ---",
    "Größe, naïve café, Ελληνικά, русский текст, עברית, हिन्दी, ไทย, 日本語の文章, 한국어",
    "emoji \U0001F600\U0001F468\u200d\U0001F469\u200d\U0001F467 and \u00a0nbsp\u2003em\u2028line\u3000wide",
    "\u00bd \u2167 \u0663\u0664 \u4e00\u4e8c superscript x\u00b2",
    "a" * 200 + " " + "ab" * 150 + " " * 30 + "\n" * 5 + "x",
    "'", "''s", " 's", "'S", "don''t", "\r\n", " ", "   ", "x ", " x", "\n x", "\u00e9", "\u0301a\u0301",
    "zero\x00byte and \x1c control \x85 next line",
]


def visible_bytes():
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, following = {}, 0
    for byte in range(256):
        if byte in itself:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + following)
            following += 1
    return table, itself + [b for b in range(256) if b not in itself]


def merge_pair(symbols, pair):
    merged, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def main(directory):
    table, order = visible_bytes()
    words = collections.Counter()
    for text in STRINGS:
        for word in PATTERN.findall(text):
            words[tuple(table[b] for b in word.encode())] += 1
    merges = []
    for _ in range(120):
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = collections.Counter({tuple(merge_pair(list(w), best)): c for w, c in words.items()})
    ids = {table[byte]: i for i, byte in enumerate(order)}
    for left, right in merges:
        ids.setdefault(left + right, len(ids))
    ids["<|endoftext|>"] = len(ids)
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    lines = []
    for text in STRINGS:
        encoded = []
        for word in PATTERN.findall(text):
            symbols = [table[b] for b in word.encode()]
            while len(symbols) > 1:
                best = min(zip(symbols, symbols[1:]), key=lambda pair: ranks.get(pair, 1 << 30))
                if best not in ranks:
                    break
                symbols = merge_pair(symbols, best)
            encoded += [ids[s] for s in symbols]
        lines.append(json.dumps({"text": text, "ids": encoded}))
    (directory / "tiny-encoder.json").write_text(json.dumps(ids) + "\n")
    (directory / "tiny-vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    (directory / "tiny-ids.jsonl").write_text("\n".join(lines) + "\n")


main(pathlib.Path(sys.argv[1]))
