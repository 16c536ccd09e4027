#!/usr/bin/env python3
"""Writes tests/data/gguf/gguf_py.gguf with gguf-py's own writer (pip install gguf numpy): every kind of metadata value and
several tensor types. writer_test.cpp reads it, and must write the same bytes.

usage: make_writer_case.py PATH"""
import sys
import numpy as np
from gguf import GGUFWriter, GGUFValueType as V, GGMLQuantizationType as T, quants

w = GGUFWriter(sys.argv[1], "llama")
w.add_custom_alignment(64)
for name, value, kind in [("u8", 200, V.UINT8), ("i8", -100, V.INT8), ("u16", 60000, V.UINT16), ("i16", -30000, V.INT16), ("u32", 4000000000, V.UINT32),
                          ("i32", -2000000000, V.INT32), ("f32", 0.1, V.FLOAT32), ("yes", True, V.BOOL), ("no", False, V.BOOL), ("text", "Grüße, 世界 🌍", V.STRING),
                          ("empty", "", V.STRING), ("u64", 2**64 - 1, V.UINT64), ("i64", -2**63, V.INT64), ("f64", 0.1, V.FLOAT64)]:
    w.add_key_value("test." + name, value, kind)
for name, values, kind in [("u8s", [0, 1, 255], V.UINT8), ("i8s", [-128, 127], V.INT8), ("u16s", [65535], V.UINT16), ("i16s", [-32768], V.INT16), ("u32s", [2**32 - 1], V.UINT32),
                           ("i32s", [-1, 2, -3], V.INT32), ("f32s", [0.5, -1.5], V.FLOAT32), ("bools", [True, False, True], V.BOOL), ("texts", ["a", "", "ü"], V.STRING),
                           ("u64s", [2**63], V.UINT64), ("i64s", [-2**63], V.INT64), ("f64s", [0.1], V.FLOAT64), ("nested", [[1, 2], [3]], V.ARRAY)]:
    w.add_key_value("test." + name, values, V.ARRAY, sub_type=kind)
ramp = (np.arange(4 * 64, dtype=np.float32).reshape(4, 64) - 100) / 8
w.add_tensor("f32", ramp)
w.add_tensor("f16.cube", ramp.reshape(2, 2, 64).astype(np.float16))
w.add_tensor("vector", ramp[0, :3].copy())
for t in (T.Q4_0, T.Q8_0, T.BF16):
    w.add_tensor(t.name.lower(), quants.quantize(ramp, t), raw_dtype=t)
w.add_tensor("i32", np.array([1, -2, 3], np.int32))
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
