#!/usr/bin/env python3
"""How far gull's modes, and llama.cpp's default build, are from float32 arithmetic on the same quantised file.

Reference: llama.cpp with every tensor turned into F32, a float32 KV cache and no flash attention. All are given the same
tokens: the prompts of a golden file (tests/data/fixtures/real) with what follows each, or a long text (tests/data/real).
Needs: pip install numpy gguf; llamacpp_logits, built as bench/README.md says, and LIBS as it wants it.

usage: accuracy.py GULL LLAMACPP_LOGITS MODEL.gguf GOLDEN.json... [-- OPTIONS OF gull logits]
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TO_F32 = Path(__file__).resolve().parent / "to_f32.py"


def texts_of(golden: str) -> list[list[int]]:
    data = json.loads(Path(golden).read_text())
    return [p["tokens"] + p["gen_tokens"] for p in data["prompts"]] if "prompts" in data else [data["tokens"]]


def log_softmax(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    best = rows.max(-1, keepdims=True)
    return rows - best - np.log(np.exp(rows - best).sum(-1, keepdims=True))


class Tally:
    def __init__(self) -> None:
        self.kl: list[float] = []
        self.difference: list[float] = []
        self.margins: list[float] = []   # of the reference, where another token is the best

    def add(self, reference: np.ndarray, other: np.ndarray) -> None:
        for at in range(0, len(reference), 64):
            p, q = log_softmax(reference[at:at + 64]), log_softmax(other[at:at + 64])
            self.kl += list((np.exp(p) * (p - q)).sum(-1))
            self.difference += list(np.abs(reference[at:at + 64] - other[at:at + 64]).mean(-1))
            top = np.sort(np.partition(p, -2, -1)[:, -2:], -1)
            wrong = p.argmax(-1) != q.argmax(-1)
            self.margins += list((top[:, 1] - top[:, 0])[wrong])

    def line(self, name: str) -> str:
        n = len(self.kl)
        error = np.std(self.kl) / np.sqrt(n)
        return (f"{name:18} KL {np.mean(self.kl):.2e} ± {error:.1e}   mean |Δlogit| {np.mean(self.difference):.1e}   "
                f"top-1 differs {len(self.margins)} of {n}, largest margin {max(self.margins, default=0):.3f}")


def main(gull: str, llamacpp: str, model: str, goldens: list[str], options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        f32, ids_file, out = (f"{folder}/{name}" for name in ("f32.gguf", "ids.txt", "out.f32"))
        subprocess.run([sys.executable, str(TO_F32), model, f32], check=True)

        def peer(file: str, mode: str, ids: list[int]) -> np.ndarray:
            Path(ids_file).write_text(" ".join(map(str, ids)))
            subprocess.run([llamacpp, file, mode, ids_file, out], check=True, capture_output=True)
            return np.fromfile(out, np.float32).reshape(len(ids), -1)

        def own(mode: str, ids: list[int]) -> np.ndarray:
            command = [gull, "logits", model, "--all", "--ids", ",".join(map(str, ids)), "--out", out, "--ctx", "1024"]
            subprocess.run([*command, "--precision", mode, *options], check=True, capture_output=True)
            return np.fromfile(out, np.float32).reshape(len(ids), -1)

        for golden in goldens:
            tallies = {name: Tally() for name in ("gull f32", "gull fast", "llama.cpp default")}
            for ids in texts_of(golden):
                reference = peer(f32, "f32", ids)
                tallies["gull f32"].add(reference, own("f32", ids))
                tallies["gull fast"].add(reference, own("fast", ids))
                tallies["llama.cpp default"].add(reference, peer(model, "default", ids))
            print(f"{Path(model).name}, {Path(golden).name}")
            for name, tally in tallies.items():
                print("  " + tally.line(name), flush=True)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    if cut < 4:
        sys.exit(__doc__)
    main(*arguments[:3], arguments[3:cut], arguments[cut + 1:])
