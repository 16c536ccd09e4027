#!/usr/bin/env python3
"""Writes iq_tables.inc: the code books of the IQ types, taken as numbers from the gguf package (pip install gguf numpy).

usage: make_iq_tables.py > iq_tables.inc
Each entry of a code book becomes one 16-bit number: eight fields of two bits, or four fields of four bits, the first
weight lowest. What a field stands for is in iq_tables.h."""
import numpy as np
from gguf import quants

BOOKS = [("kGridIq2Xxs", quants.IQ2_XXS, 2), ("kGridIq2Xs", quants.IQ2_XS, 2), ("kGridIq2S", quants.IQ2_S, 2),
         ("kGridIq1", quants.IQ1_S, 2), ("kGridIq3Xxs", quants.IQ3_XXS, 4), ("kGridIq3S", quants.IQ3_S, 4)]
print("// Made by make_iq_tables.py: do not edit.")
for name, book, bits in BOOKS:
    book.init_grid()
    grid = book.grid.reshape(book.grid_shape)
    field = np.searchsorted(np.array(book.grid_map, np.float32), grid)
    assert (np.array(book.grid_map, np.float32)[field] == grid).all()
    packed = (field.astype(np.uint32) << (bits * np.arange(grid.shape[1], dtype=np.uint32))).sum(axis=1)
    print(f"constexpr uint16_t {name}[{len(packed)}] = {{")
    for i in range(0, len(packed), 16):
        print("  " + ", ".join(str(v) for v in packed[i:i + 16]) + ",")
    print("};")
