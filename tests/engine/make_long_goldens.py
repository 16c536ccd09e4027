#!/usr/bin/env python3
"""Makes tests/data/real: what llama.cpp computes beyond a prefill step of 512 tokens and beyond Gemma's window of 512.

Needs: pip install gguf numpy; llamacpp_logits (bench/accuracy, see bench/README.md) and LIBS as it wants it.
usage: make_long_goldens.py LLAMACPP_LOGITS SMOLLM2.gguf GEMMA3.gguf TEXT.txt       (TEXT.txt: the "text" of smollm2-long.json)

Every file is first turned into F32, and run with a float32 KV cache and no flash attention.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
TO_F32 = HERE.parent.parent / "bench" / "accuracy" / "to_f32.py"
# Random ids for the tiny models, in a window of theirs (8 tokens) and in their states many times over.
TINY = ["llama.f32", "gemma3.f16", "mamba.f16", "lfm2.f16", "falcon-h1.f16"]
TINY_IDS = [(i * 7919 + i * i * 31 + 13) % 270 + 8 for i in range(560)]
TINY_POSITIONS = [300, 510, 511, 512, 513, 559]


def run(program: str, model: str, ids: list[int] | None, text: str | None) -> tuple[list[int], np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        f32, ids_file, out = (f"{folder}/{name}" for name in ("f32.gguf", "ids.txt", "out.f32"))
        subprocess.run([sys.executable, str(TO_F32), model, f32], check=True)
        if ids is not None:
            Path(ids_file).write_text(" ".join(map(str, ids)))
        subprocess.run([program, f32, "f32", ids_file, out] + ([text] if text else []), check=True, stderr=subprocess.DEVNULL)
        made = [int(i) for i in Path(ids_file).read_text().split()]
        return made, np.fromfile(out, np.float32).reshape(len(made), -1)


def real(program: str, model: str, text: str, target: Path) -> None:
    ids, logits = run(program, model, None, text)
    steps = []
    for position in [512, 513, 520, 560, *range(590, 597)]:
        row = logits[position].astype(np.float64)
        best = np.argsort(-row, kind="stable")[:20]
        lse = row.max() + np.log(np.exp(row - row.max()).sum())
        steps.append({"position": position, "top20": [[int(i), round(float(row[i]), 5)] for i in best], "lse": round(lse, 5)})
    note = "llama.cpp 0.5.0 on the CPU; weights turned into F32, f32 KV cache, flash attention off; by tests/engine/make_long_goldens.py"
    golden = {"note": note, "text": Path(text).read_text(), "tokens": ids, "steps": steps}
    target.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).replace('{"position"', '\n{"position"') + "\n")


def main(program: str, smollm2: str, gemma3: str, text: str) -> None:
    out = DATA / "real"
    out.mkdir(exist_ok=True)
    for name in TINY:
        _, logits = run(program, str(DATA / "fixtures" / "models" / f"{name}.gguf"), TINY_IDS, None)
        logits[TINY_POSITIONS].tofile(out / f"tiny-{name.split('.')[0]}.f32")
    index = {"ids": TINY_IDS, "positions": TINY_POSITIONS, "models": {n.split(".")[0]: f"{n}.gguf" for n in TINY}}
    (out / "tiny.json").write_text(json.dumps(index, separators=(",", ":")) + "\n")
    real(program, smollm2, text, out / "smollm2-long.json")
    real(program, gemma3, text, out / "gemma3-long.json")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
