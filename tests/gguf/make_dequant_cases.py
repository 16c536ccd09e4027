#!/usr/bin/env python3
"""Writes tests/data/gguf/dequant_cases.txt: what gguf-py (pip install gguf numpy) makes of pseudo-random blocks.

usage: make_dequant_cases.py > ../data/gguf/dequant_cases.txt
A line: type, number of blocks, SHA-256 of the block bytes, SHA-256 of their float32 values, the first 8 values in hex.
The bytes are made alike here and in dequantize_test.cpp: a linear congruential generator whose scales are made finite."""
import hashlib
import numpy as np
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES, quants

# Offsets of the f16 scales in a block. IQ1_M keeps its scale in the upper quarters of four words: see below.
HALVES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
          "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": []}
BLOCKS = 1024

def random_bytes(n):
    out, x = bytearray(n), 1
    for i in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = x >> 56
    return out

for name, halves in HALVES.items():
    block, size = GGML_QUANT_SIZES[T[name]]
    n = BLOCKS * 16 if size == 2 else BLOCKS
    raw = random_bytes(n * size)
    for b in range(n):
        for h in halves:                           # exponent 31 (infinity, NaN) becomes 15
            if raw[b * size + h + 1] & 0x7C == 0x7C: raw[b * size + h + 1] &= 0xBF
        if name == "IQ1_M": raw[b * size + 55] &= 0xBF
    values = quants.dequantize(np.frombuffer(bytes(raw), np.uint8).reshape(n, size), T[name]).reshape(-1).astype("<f4")
    assert len(values) == n * block and not np.isnan(values).any()
    print(name, n, hashlib.sha256(raw).hexdigest(), hashlib.sha256(values.tobytes()).hexdigest(), values[:8].tobytes().hex())
