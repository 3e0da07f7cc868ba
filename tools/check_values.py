#!/usr/bin/env python3
"""The value generator once more, in numpy alone, held against the known-answer table.

Reads tests/data/values.txt and recomputes every line; prints the lines that differ and exits 1 if there are any. With
--write it writes the table instead: a changed table means that every golden has to be made again.

A line is the regime, the seed, a tensor, what its values depend on, and the tensor's checksum:
  REGIME SEED hidden|grad_out segment=S hidden=H tokens=T CHECKSUM
  REGIME SEED weight-name id=N rows=R cols=C hidden=H head_dim=D rope_dim=P CHECKSUM
The checksum is sum over elements i of bits(i) * (2 i + 1), modulo 2^64, bits being the double's own.
"""
import argparse
import pathlib
import sys

import numpy as np

TABLE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "values.txt"
REGIMES = ["ints", "normal", "peaky", "negative", "flat", "ties", "outliers", "heavy"]
WEIGHTS = ["wq_a", "q_norm", "wq_b", "wkv", "kv_norm", "attn_sink", "wo_a", "wo_b", "compressor.wkv", "compressor.wgate",
           "compressor.ape", "compressor.norm", "indexer.wq_b", "indexer.weights_proj", "indexer.compressor.wkv",
           "indexer.compressor.wgate", "indexer.compressor.ape", "indexer.compressor.norm"]
MASK = np.uint64(0xFFFFFFFF)
U32 = np.uint64(32)


def philox(seed, stream, index, block):
    """Philox4x32-10: four arrays of 32-bit words for an array of 64-bit indices."""
    c = [index & MASK, index >> U32, np.full_like(index, stream), np.full_like(index, block)]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c[0]
        p1 = np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> U32) ^ c[1] ^ np.uint64(k0), p1 & MASK, (p0 >> U32) ^ c[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def normal(seed, stream, index):
    words = philox(seed, stream, index, 0) + philox(seed, stream, index, 1)[:2]
    total = sum((w & np.uint64(0xFFFF)) + (w >> np.uint64(16)) for w in words)
    return (total.astype(np.int64) - 6 * 65535).astype(np.float64) / 65536.0


def heavy_factor(seed, stream, index):
    word = philox(seed, stream, index, 2)[0].astype(np.int64)
    leading = np.zeros(word.shape, np.int64)
    for k in range(1, 9):
        leading += word < (1 << (32 - k))
    return (1 << leading).astype(np.float64)


def small_integer(word, limit):
    return ((word * np.uint64(2 * limit + 1)) >> U32).astype(np.int64).astype(np.float64) - limit


def hidden(regime, seed, segment, width, tokens, stream_base):
    stream = stream_base | segment << 8
    index = np.arange(tokens * width, dtype=np.uint64)
    if regime == "ints":
        return small_integer(philox(seed, stream, index, 0)[0], 2)
    value = normal(seed, stream, index)
    if stream_base == 0x81:
        return value
    if regime == "heavy":
        return value * heavy_factor(seed, stream, index)
    if regime == "outliers":
        return np.where(philox(seed, stream, index, 2)[0] >> np.uint64(24) == 0, value * 64, value)
    if regime == "negative":
        return value * 0.5 + 2
    return value


def opposing_offset(name, rows, cols, h, d, p):
    row, column = np.divmod(np.arange(rows * cols), cols)
    per_channel = 2.0 / h
    unrotated = row % d < d - p
    if name == "wq_a":
        return np.where(row == 0, per_channel, 0.0)
    if name == "wq_b":
        return np.where((column == 0) & unrotated, 2.0, 0.0)
    if name in ("wkv", "compressor.wkv"):
        return np.where(unrotated, -per_channel, 0.0)
    return np.zeros(rows * cols)


def weight(regime, seed, name, rows, cols, h, d, p):
    stream = WEIGHTS.index(name)
    index = np.arange(rows * cols, dtype=np.uint64)
    value = normal(seed, stream, index)
    if name == "attn_sink":
        return value
    if name.endswith("norm"):
        gain = np.ones(rows * cols) if regime == "ints" else 1 + value * 0.25
        size = {"peaky": 16.0, "negative": 8.0, "flat": 2.0**-6}.get(regime, 1.0)
        return gain * size if name in ("kv_norm", "compressor.norm") else gain
    if name.endswith("ape"):
        return np.zeros(rows * cols) if regime == "ints" else value * 0.5
    word = philox(seed, stream, index, 0)[0]
    if name == "indexer.weights_proj" and regime == "ties":
        return np.where(word & np.uint64(1) == 1, 0.0, -0.0)
    if regime == "ints":
        scale = 1.0
        while scale * scale * cols > 1:
            scale *= 0.5
        return small_integer(word, 1) * scale
    value = value * (1 / np.sqrt(np.float64(cols)))
    if regime == "heavy":
        value = value * heavy_factor(seed, stream, index)
    if regime == "negative":
        value = value * 0.25 + opposing_offset(name, rows, cols, h, d, p)
    return value


def checksum(values):
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    odd = np.arange(bits.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return f"{int(np.sum(bits * odd, dtype=np.uint64)):016x}"


def compute(fields):
    """Checksum of the tensor that a line names."""
    regime, seed, tensor = fields[0], int(fields[1]), fields[2]
    a = {k: int(v) for k, v in (f.split("=") for f in fields[3:])}
    if tensor in ("hidden", "grad_out"):
        return checksum(hidden(regime, seed, a["segment"], a["hidden"], a["tokens"], 0x80 if tensor == "hidden" else 0x81))
    return checksum(weight(regime, seed, tensor, a["rows"], a["cols"], a["hidden"], a["head_dim"], a["rope_dim"]))


def questions():
    """What the table asks: every tensor of a csa layer of the tiny shape, in every regime."""
    h, d, p = 40, 48, 8
    shapes = {"wq_a": (24, h), "q_norm": (24, 1), "wq_b": (288, 24), "wkv": (d, h), "kv_norm": (d, 1), "attn_sink": (6, 1),
              "wo_a": (20, 144), "wo_b": (h, 20), "compressor.wkv": (96, h), "compressor.wgate": (96, h),
              "compressor.ape": (4, 96), "compressor.norm": (d, 1), "indexer.wq_b": (80, 24), "indexer.weights_proj": (5, h),
              "indexer.compressor.wkv": (32, h), "indexer.compressor.wgate": (32, h), "indexer.compressor.ape": (4, 32),
              "indexer.compressor.norm": (16, 1)}
    for number, regime in enumerate(REGIMES):
        seed = [0, 1, 2**32 + 5, 2**64 - 1][number % 4]
        for tensor in ("hidden", "grad_out"):
            for segment in (0, 3):
                yield f"{regime} {seed} {tensor} segment={segment} hidden={h} tokens=37"
        for name, (rows, cols) in shapes.items():
            yield f"{regime} {seed} {name} rows={rows} cols={cols} hidden={h} head_dim={d} rope_dim={p}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table instead of checking it")
    if parser.parse_args().write:
        TABLE.write_text("".join(f"{q} {compute(q.split())}\n" for q in questions()))
        return 0
    lines = TABLE.read_text().splitlines()
    wrong = [line for line in lines if compute(line.split()[:-1]) != line.split()[-1]]
    for line in wrong:
        print(f"differs: {line}, numpy gives {compute(line.split()[:-1])}")
    print(f"{len(lines) - len(wrong)} of {len(lines)} tensors agree")
    return 1 if wrong or not lines else 0


if __name__ == "__main__":
    with np.errstate(over="ignore"):
        sys.exit(main())
